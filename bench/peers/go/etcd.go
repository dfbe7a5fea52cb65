package main

import (
	"context"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// etcd's own recipe: a session with its lease, and a key in the queue for each lock.
type etcdLocker struct {
	client  *clientv3.Client
	session *concurrency.Session
	ttlSec  int
}

func openEtcdMutex(given settings) (locker, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{strings.Replace(given.URL, "etcd://", "http://", 1)},
		Logger:    zap.NewNop(),
	})
	if err != nil {
		return nil, err
	}
	return openEtcdSession(client, given.TTLMs/1000)
}

func openEtcdSession(client *clientv3.Client, ttlSec int) (locker, error) {
	session, err := concurrency.NewSession(client, concurrency.WithTTL(ttlSec))
	return etcdLocker{client, session, ttlSec}, err
}

func (own etcdLocker) lock(ctx context.Context, resource string) (unlock, error) {
	mutex := concurrency.NewMutex(own.session, "/peers/"+resource)
	if err := mutex.Lock(ctx); err != nil {
		return nil, err
	}
	return func() error { return mutex.Unlock(context.Background()) }, nil
}

// A session is one owner, so calls that compete need one each.
func (own etcdLocker) rival() (locker, error) { return openEtcdSession(own.client, own.ttlSec) }

func (own etcdLocker) isLost() bool {
	select {
	case <-own.session.Done():
		return true
	default:
		return false
	}
}
