// A worker of the benchmarks that locks through a Go library. It takes the same settings and orders
// as bench/workers/locker.mjs and bench/workers/holder.mjs. The settings are its argument. Each
// line of stdin is an order and each line of stdout an answer, as JSON.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

type settings struct {
	Library string `json:"library"`
	URL     string `json:"url"`
	TTLMs   int    `json:"ttlMs"`
}

type window struct {
	AfterMs float64 `json:"afterMs"`
	ForMs   float64 `json:"forMs"`
}

type order struct {
	Lock      string   `json:"lock"`
	Unlock    string   `json:"unlock"`
	Contend   string   `json:"contend"`
	ContendMs float64  `json:"contendMs"`
	Queue     string   `json:"queue"`
	Count     int      `json:"count"`
	HoldMs    float64  `json:"holdMs"`
	Window    window   `json:"window"`
	Hold      []string `json:"hold"`
	HoldMany  int      `json:"holdMany"`
	KeepMs    float64  `json:"keepMs"`
}

type unlock func() error

// A library with an open connection.
type locker interface {
	// Waits as the library does.
	lock(ctx context.Context, resource string) (unlock, error)
	// A locker that competes with this one, as another program would.
	rival() (locker, error)
	// Whether the locks may be lost, as far as the library knows without a request.
	isLost() bool
}

const waitMax = 120 * time.Second

func main() {
	var given settings
	check(json.Unmarshal([]byte(os.Args[len(os.Args)-1]), &given))
	own, err := open(given)
	check(err)
	answer("ready")
	unlocks := map[string]unlock{}
	held := 0
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var do order
		check(json.Unmarshal(lines.Bytes(), &do))
		switch {
		case do.Lock != "":
			unlocks[do.Lock] = take(own, do.Lock)
			answer(hostMs())
		case do.Unlock != "":
			at := hostMs()
			check(unlocks[do.Unlock]())
			answer(at)
		case do.Contend != "":
			answer(contend(own, do))
		case do.Queue != "":
			answer(queue(own, do))
		case do.Hold != nil:
			hold(own, do.Hold)
			answer(hostMs())
		case do.HoldMany > 0:
			held = do.HoldMany
			holdMany(own, held)
			answer(0)
		default:
			answer(keep(own, do.KeepMs, held))
		}
	}
}

func open(given settings) (locker, error) {
	switch given.Library {
	case "redislock":
		return openRedislock(given)
	case "etcd-mutex":
		return openEtcdMutex(given)
	}
	return nil, fmt.Errorf("there is no library %q", given.Library)
}

func take(own locker, resource string) unlock {
	ctx, cancel := context.WithTimeout(context.Background(), waitMax)
	defer cancel()
	free, err := own.lock(ctx, resource)
	check(err)
	return free
}

func contend(own locker, do order) map[string]any {
	until := hostMs() + do.ContendMs
	locks, taken, longestMs := 0, 0, 0.0
	for now := hostMs(); now < until; {
		free := take(own, do.Contend)
		longestMs = max(longestMs, hostMs()-now)
		check(free())
		taken++
		if now = hostMs(); now < until {
			locks++
		}
	}
	return map[string]any{"locks": locks, "taken": taken, "longestMs": longestMs}
}

// Also measures the CPU share of this process in a window in which all of them only wait.
func queue(own locker, do order) map[string]any {
	var waiting sync.WaitGroup
	for range do.Count {
		waiting.Go(func() {
			rival, err := own.rival()
			check(err)
			free := take(rival, do.Queue)
			sleep(do.HoldMs)
			check(free())
		})
	}
	sleep(do.Window.AfterMs)
	beforeMs, startedAt := cpuMs(), hostMs()
	sleep(do.Window.ForMs)
	cpuShare := (cpuMs() - beforeMs) / (hostMs() - startedAt)
	waiting.Wait()
	return map[string]any{"turns": do.Count, "cpuShare": cpuShare}
}

func hold(own locker, resources []string) {
	const atATime = 64
	slots := make(chan struct{}, atATime)
	var taking sync.WaitGroup
	for _, resource := range resources {
		slots <- struct{}{}
		taking.Go(func() {
			take(own, resource)
			<-slots
		})
	}
	taking.Wait()
}

func holdMany(own locker, count int) {
	resources := make([]string, count)
	for index := range resources {
		resources[index] = fmt.Sprintf("many-%d-%d", os.Getpid(), index)
	}
	hold(own, resources)
}

func keep(own locker, forMs float64, held int) map[string]any {
	beforeMs := cpuMs()
	sleep(forMs)
	lost := 0
	if own.isLost() {
		lost = held
	}
	return map[string]any{"cpuMs": cpuMs() - beforeMs, "rssMB": rssMB(), "lost": lost}
}

// Milliseconds on CLOCK_MONOTONIC, which is one clock for all processes of a host.
func hostMs() float64 {
	var now unix.Timespec
	check(unix.ClockGettime(unix.CLOCK_MONOTONIC, &now))
	return float64(now.Nano()) / 1e6
}

func cpuMs() float64 {
	var used unix.Rusage
	check(unix.Getrusage(unix.RUSAGE_SELF, &used))
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e6
}

func rssMB() float64 {
	text, err := os.ReadFile("/proc/self/statm")
	check(err)
	var size, resident int
	_, err = fmt.Sscan(string(text), &size, &resident)
	check(err)
	return float64(resident*os.Getpagesize()) / 1e6
}

func sleep(ms float64) {
	time.Sleep(time.Duration(ms * float64(time.Millisecond)))
}

func answer(value any) {
	check(json.NewEncoder(os.Stdout).Encode(value))
}

func check(err error) {
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "Error:", err)
	os.Exit(1)
}
