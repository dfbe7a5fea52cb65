package main

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// redislock polls. It has no default interval: this is the one of its README.
const retryEvery = 100 * time.Millisecond

type redislockLocker struct {
	client *redislock.Client
	ttl    time.Duration
}

func openRedislock(given settings) (locker, error) {
	options, err := redis.ParseURL(given.URL)
	if err != nil {
		return nil, err
	}
	client := redis.NewClient(options)
	ttl := time.Duration(given.TTLMs) * time.Millisecond
	return redislockLocker{redislock.New(client), ttl}, client.Ping(context.Background()).Err()
}

func (own redislockLocker) lock(ctx context.Context, resource string) (unlock, error) {
	options := &redislock.Options{RetryStrategy: redislock.LinearBackoff(retryEvery)}
	lock, err := own.client.Obtain(ctx, resource, own.ttl, options)
	if err != nil {
		return nil, err
	}
	return func() error { return lock.Release(context.Background()) }, nil
}

// Every lock has its own random value, so all calls compete.
func (own redislockLocker) rival() (locker, error) { return own, nil }

func (own redislockLocker) isLost() bool { return false }
