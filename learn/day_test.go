//go:build !race

package learn_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"precept/bandit/feedback"
	"precept/bandit/trial"
	"precept/internal/session"
	"precept/store"
	"precept/store/redis"
	"precept/store/storetest"
)

var (
	daySessions = flag.Int("day.sessions", 300, "number of sessions in TestFleetCountersEqualSingleProcess")                   //nolint:gochecknoglobals // a test flag
	dayRequests = flag.Int("day.requests", 20, "number of requests per session in TestFleetCountersEqualSingleProcess")        //nolint:gochecknoglobals // a test flag
	daySettings = flag.String("day.redis", "", "Redis settings for TestFleetCountersEqualSingleProcess, each as --name value") //nolint:gochecknoglobals // a test flag
)

const (
	dayReplicas        = 10
	dayTenants         = 50
	dayLessons         = 2000
	dayHot             = 6 * time.Hour // learning.hot
	dayStep            = 10 * time.Minute
	daySteps           = int(24 * time.Hour / dayStep)
	partitionedReplica = 3                                // the replica that loses its connection to Redis for an hour
	cutFrom            = int(10 * time.Hour / dayStep)    // the first step in which this replica has no connection to Redis
	cutUntil           = cutFrom + int(time.Hour/dayStep) // the first step in which this replica is connected again
)

// The test runs the sessions of one day on ten replicas with Redis, and in a single process with SQLite. The fleet has
// restarts, late rewards, and a replica without a connection for an hour.
func TestFleetCountersEqualSingleProcess(t *testing.T) {
	server := storetest.StartRedis(t, strings.Fields(*daySettings)...)
	d := &daySimulation{
		t: t, clock: &clock{at: time.Date(2032, 4, 5, 0, 0, 0, 0, time.UTC)}, rng: rand.New(rand.NewPCG(1, 2)), //nolint:gosec // a simulation
		events: map[int][]dayEvent{}, exported: map[string]string{}, startedAt: time.Now(),
	}
	d.single = openFixture(t, t.TempDir(), d.clock, nil)
	d.link, d.addrs = newLink(t, server.Addr), slices.Repeat([]string{server.Addr}, dayReplicas)
	d.addrs[partitionedReplica] = d.link.addr
	for i := range dayReplicas {
		d.dirs = append(d.dirs, t.TempDir())
		d.fleet = append(d.fleet, d.openReplica(i))
	}
	d.lake = openStore(t, server.URL())
	d.exchangeDeleter = d.lake.NewExchangeDeleter("lake", "exporter")
	newSessions := make([]int, daySteps) // the number of new sessions in each step
	for range *daySessions {
		newSessions[d.rng.IntN(daySteps)]++
	}
	for step := range daySteps + int(3*time.Hour/dayStep) {
		if step < daySteps {
			for range newSessions[step] {
				d.startSession(step)
			}
		}
		d.runStep(step)
		if (step+1)%int(3*time.Hour/dayStep) == 0 {
			d.export()
			d.report(server)
		}
	}
	d.finishWork()
	counters := 0
	for i := range dayTenants {
		tenant := fmt.Sprint("tenant-", i)
		got, want := d.fleet[0].counters(tenant), d.single.counters(tenant)
		if got != want {
			t.Errorf("counters of %s differ: %d bytes in the fleet, %d bytes in the single process", tenant, len(got), len(want))
		}
		counters += strings.Count(got, `"Key"`)
	}
	t.Logf("compared %d counters", counters)
	if d.moved == 0 {
		t.Error("events in the simulated day: moved = 0, want at least 1")
	}
	if d.lateRewards == 0 {
		t.Error("events in the simulated day: lateRewards = 0, want at least 1")
	}
	if d.restarts < 20 {
		t.Errorf("events in the simulated day: restarts = %d, want at least 20", d.restarts)
	}
	if d.deleted == 0 {
		t.Error("events in the simulated day: deleted = 0, want at least 1")
	}
	d.report(server)
	d.reportKinds(server)
}

type daySimulation struct {
	t       *testing.T
	clock   *clock
	rng     *rand.Rand
	single  *fixture
	fleet   []*fixture
	link    *link    // the partitioned replica's connection to Redis
	addrs   []string // the Redis address that each replica uses
	dirs    []string
	events  map[int][]dayEvent
	actions [dayReplicas + 1][]func(f *fixture) // the actions in the current step for each replica, and in the last element for the single process

	lake            *redis.Store
	exchangeDeleter *redis.ExchangeDeleter
	exported        map[string]string // for each stream of samples, the position up to which the test has read

	startedAt time.Time

	sessions, moved, rewards, lateRewards, restarts, deleted, samples int
}

// dayEvent is an event in a session: a request if y is negative, and otherwise the reward y.
type dayEvent struct {
	session      int32
	tenant, home int8
	y            float32
}

func (d *daySimulation) openReplica(i int) *fixture {
	return openFixture(d.t, d.dirs[i], d.clock, func(o *options) {
		db, err := redis.Open(redis.Options{URL: "redis://" + d.addrs[i], Now: time.Now})
		if err != nil {
			d.t.Fatal(err)
		}
		f := o.Backend.(*faultyBackend)
		if err := f.backend.Close(); err != nil {
			d.t.Fatal(err)
		}
		f.backend = db
		o.Backend, o.Fleet, o.Queue.Path, o.Queue.MaxMemoryBytes = remoteBackend{f, db}, remoteBackend{f, db}, filepath.Join(d.dirs[i], "outbox.db"), 4<<20
	})
}

func (d *daySimulation) schedule(step int, e dayEvent) { d.events[step] = append(d.events[step], e) }

func isDisconnected(replica, step int) bool {
	return replica == partitionedReplica && step >= cutFrom && step < cutUntil
}

// addAction adds an action that a replica and the single process both run in the current step.
func (d *daySimulation) addAction(replica int, action func(f *fixture)) {
	for _, i := range []int{replica, dayReplicas} {
		d.actions[i] = append(d.actions[i], action)
	}
}

// startSession starts a session, and schedules its later request and its rewards.
func (d *daySimulation) startSession(step int) {
	i, home := d.sessions, d.rng.IntN(dayReplicas)
	e := dayEvent{session: int32(i), tenant: int8(min(d.rng.IntN(dayTenants), d.rng.IntN(dayTenants))), home: int8(home), y: -1}
	d.sessions++
	d.addAction(home, func(f *fixture) {
		tenant, name := e.names()
		id := session.NamedID(tenant, session.NamespaceSession, name)
		f.Release(f.Add(&session.Record{
			Identity:   session.Identity{ID: id, Tenant: tenant, Agent: "coder", Name: name, Method: session.ByHeader, Started: f.clock.now(), Seen: f.clock.now()},
			Thread:     session.Thread{Turns: *dayRequests, Used: trial.Usage{Input: int64(*dayRequests) * 9000, Cached: int64(*dayRequests) * 8000}},
			Assignment: d.assignment(i),
		}), store.DecisionsChanged)
		d.offerTurn(f, tenant, name, 1)
	})
	isCutOff := home == partitionedReplica && step >= cutFrom-1 && step < cutUntil
	if d.rng.IntN(5) == 0 && !isCutOff { // the session continues on another replica
		d.schedule(step+1, e)
	}
	closed := int(closeAge/dayStep) + 3
	reward := func(step int, y float64) {
		e := e
		e.y = float32(y)
		d.schedule(step, e)
	}
	switch n := d.rng.IntN(10); {
	case n < 5 && !isCutOff:
		reward(step+2+d.rng.IntN(closed-5), float64(i%5)/4)
	case n < 7: // a reward after close, when Redis already has the rows of the partitioned replica
		d.lateRewards++
		reward(min(step+closed+int(closeAge/dayStep)+d.rng.IntN(daySteps/3), daySteps+10), float64(i%2))
	}
	if d.rng.IntN(10) == 0 { // a later post changes the reward
		reward(min(step+2*closed+daySteps/3, daySteps+15), .5)
	}
}

func (e *dayEvent) names() (tenant, name string) {
	return fmt.Sprint("tenant-", e.tenant), fmt.Sprint("s", e.session)
}

// assignment returns the assignment of session i, which is the same in the fleet and in the single process.
func (d *daySimulation) assignment(i int) trial.Assignment {
	arm := trial.Arm(fmt.Sprintf("lesson-%04d@0123456789ab", i*7919%dayLessons))
	a := trial.Assignment{
		ControlP: .05, Category: "coder", Base: .5, Centre: .5, Decided: true, Day: 22740, Control: i%20 == 7,
		Matched: []trial.Match{{Arm: arm, MatchEffect: .01}},
	}
	if !a.Control {
		a.Picks = []trial.Pick{{Slug: arm.Slug(), Arm: arm, Eps: .2, Injected: i%5 != 3, MeanEffect: .02, Offset: .51, Centre: .52, Tokens: 40, Turn: 1, Propensity: .76}}
	}
	return a
}

// offerTurn offers turn n of a session to a replica.
func (d *daySimulation) offerTurn(f *fixture, tenant, name string, n int) {
	if !f.Offer(store.Turn{Exchange: newExchange(tenant, name, n, d.clock.now()), Size: 100}) {
		d.t.Error("Offer(turn) = false, want true")
	}
}

func (d *daySimulation) runEvent(step int, e dayEvent) {
	tenant, name := e.names()
	replica := d.rng.IntN(dayReplicas)
	if e.y < 0 {
		replica = (int(e.home) + 1 + replica%(dayReplicas-1)) % dayReplicas
	}
	if isDisconnected(replica, step) {
		replica = (partitionedReplica + 1) % dayReplicas
	}
	if e.y < 0 {
		d.moved++
		d.addAction(replica, func(f *fixture) { d.continueSession(f, tenant, name) })
		return
	}
	d.rewards++
	id := session.NamedID(tenant, session.NamespaceSession, name)
	entry := feedback.Entry{ID: fmt.Sprint("f", e.session), At: d.clock.now(), Source: feedback.SourceUser, Type: feedback.TypeScore, Score: float64(e.y), Tier: feedback.TierUser}
	d.addAction(replica, func(f *fixture) {
		if got, err := f.Post(d.t.Context(), tenant, []session.ID{id}, 0, entry); err != nil {
			d.t.Error(err)
		} else if got.Status != store.Joined {
			d.t.Errorf("Post: Status = %s, want %s", got.Status, store.Joined)
		}
	})
}

// continueSession records the second turn of a session on a replica that has not started the session.
func (d *daySimulation) continueSession(f *fixture, tenant, name string) {
	ses, late := f.Acquire(d.t.Context(), tenant, session.NamedID(tenant, session.NamespaceSession, name))
	if ses == nil {
		d.t.Errorf("Acquire(%s) on another replica: ses = nil", name)
		return
	}
	if late {
		d.t.Errorf("Acquire(%s) on another replica: late = true, want false", name)
		return
	}
	ses.Record.Lock()
	ses.Record.Identity.Seen = d.clock.now()
	ses.Record.Unlock()
	f.Release(ses, store.DecisionsChanged)
	d.offerTurn(f, tenant, name, 2)
}

// runStep runs the events of one step, in all replicas and in the single process at the same time.
func (d *daySimulation) runStep(step int) {
	d.link.setOpen(step < cutFrom || step >= cutUntil)
	if step == cutUntil {
		if len(d.fleet[partitionedReplica].takeFailures()) == 0 {
			d.t.Error("the replica without a connection reported no failure")
		}
		d.reconnect(d.fleet[partitionedReplica])
	}
	for _, e := range d.events[step] {
		d.runEvent(step, e)
	}
	delete(d.events, step)
	var all sync.WaitGroup
	for i, f := range append(slices.Clone(d.fleet), d.single) {
		all.Go(func() {
			for _, action := range d.actions[i] {
				action(f)
			}
			d.actions[i] = nil
			f.deliverAndCorrect()
			if f == d.single || step%3 == i%3 && !isDisconnected(i, step) {
				f.closeDue(d.t.Context())
			}
			if f != d.single {
				f.LoadAndEvict(d.t.Context())
			}
			f.backend.takeCalls()
		})
	}
	all.Wait()
	if i := step / 6 % dayReplicas; step%6 == 3 && !isDisconnected(i, step) {
		d.restarts++
		d.fleet[i].stop()
		d.fleet[i] = d.openReplica(i)
	}
	d.clock.add(dayStep)
}

// export reads and acknowledges the new samples, and then deletes the exchanges of old sessions from Redis.
func (d *daySimulation) export() {
	streams, err := d.lake.SampleStreams(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	for stream, newest := range streams {
		for position := d.exported[stream]; position != newest; {
			list, last, err := d.lake.SamplesAfter(d.t.Context(), stream, position, newest)
			if err != nil {
				d.t.Fatal(err)
			}
			d.samples += len(list)
			if position == last {
				break
			}
			position = last
		}
		d.exported[stream] = newest
	}
	if err := d.lake.AckSamples(d.t.Context(), "lake", streams); err != nil {
		d.t.Fatal(err)
	}
	n, _, err := d.exchangeDeleter.DeleteExchanges(d.t.Context(), d.clock.now().Add(-dayHot), time.Minute)
	if err != nil {
		d.t.Fatal(err)
	}
	d.deleted += n
}

// reconnect waits until the partitioned replica is connected to Redis again.
func (d *daySimulation) reconnect(f *fixture) {
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
	defer cancel()
	for {
		if _, err := f.backend.Tenants(ctx); err == nil {
			return
		}
		if ctx.Err() != nil {
			d.t.Fatal("timed out after a minute waiting for the partitioned replica to connect to Redis")
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (d *daySimulation) finishWork() {
	for range 4 {
		d.clock.add(closeAge)
		for _, f := range append(slices.Clone(d.fleet), d.single) {
			f.deliverAndCorrect()
			f.closeDue(d.t.Context())
			f.recomputeRewards(d.t.Context())
		}
	}
}

func (d *daySimulation) report(server *storetest.Redis) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	info := strings.Fields(fmt.Sprint(server.MustDo(d.t, "INFO", "memory"), server.MustDo(d.t, "INFO", "cpu")))
	field := func(name string) (value string) {
		for _, f := range info {
			if v, ok := strings.CutPrefix(f, name+":"); ok {
				value = v
			}
		}
		return value
	}
	figures := map[string]any{
		"time": d.clock.now().Format("15:04"), "sessions": d.sessions, "requests": d.sessions * *dayRequests, "moved": d.moved, "rewards": d.rewards, "late rewards": d.lateRewards,
		"restarts": d.restarts, "samples exported": d.samples, "exchanges out of redis": d.deleted, "redis keys": server.MustDo(d.t, "DBSIZE"), "redis bytes": field("used_memory"),
		"redis cpu": field("used_cpu_user"), "outboxes": fileBytes(d.t, d.dirs...), "sqlite": fileBytes(d.t, d.single.dir), "heap for eleven processes": m.HeapAlloc, "seconds": int(time.Since(d.startedAt).Seconds()),
	}
	text, err := json.Marshal(figures)
	if err != nil {
		d.t.Error(err)
	}
	d.t.Logf("%s", text)
}

func fileBytes(t *testing.T, dirs ...string) (n int64) {
	t.Helper()
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			info, err := e.Info()
			if err != nil {
				t.Fatal(err)
			}
			n += info.Size()
		}
	}
	return n
}

// reportKinds logs how many keys of each kind Redis has, and the estimated size of these keys.
func (d *daySimulation) reportKinds(server *storetest.Redis) {
	count, sampled, bytes := map[string]int{}, map[string]int{}, map[string]int64{}
	for cursor := "0"; ; {
		reply, _ := server.MustDo(d.t, "SCAN", cursor, "COUNT", "10000").([]any)
		keys, _ := reply[1].([]any)
		for _, key := range keys {
			kind := strings.Split(fmt.Sprint(key, ":::"), ":")[3]
			if count[kind]++; sampled[kind] < 500 && count[kind]%7 == 1 {
				n, _ := server.MustDo(d.t, "MEMORY", "USAGE", fmt.Sprint(key)).(int64)
				sampled[kind]++
				bytes[kind] += n
			}
		}
		if cursor = fmt.Sprint(reply[0]); cursor == "0" {
			break
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(count)) {
		mean := bytes[kind] / int64(sampled[kind])
		d.t.Logf("%9d %-9s keys, %5d bytes each: %6d KB", count[kind], kind, mean, int64(count[kind])*mean/1000)
	}
}

// link is a TCP proxy to Redis that a test can cut and open again.
type link struct {
	addr, target string
	mu           sync.Mutex
	isOpen       bool
	conns        []net.Conn
}

func newLink(t *testing.T, target string) *link {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &link{addr: l.Addr().String(), target: target, isOpen: true}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { k.serve(t.Context(), c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		k.setOpen(false)
		all.Wait()
	})
	return k
}

func (l *link) serve(ctx context.Context, c net.Conn) {
	defer c.Close() //nolint:errcheck // this error does not matter in a test
	s, err := new(net.Dialer).DialContext(ctx, "tcp", l.target)
	if err != nil {
		return
	}
	defer s.Close() //nolint:errcheck // this error does not matter in a test
	l.mu.Lock()
	isOpen := l.isOpen
	l.conns = append(l.conns, c, s)
	l.mu.Unlock()
	if !isOpen {
		return
	}
	done := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{c, s}, {s, c}} {
		go func() {
			_, _ = io.Copy(pair[0], pair[1])
			done <- struct{}{}
		}()
	}
	<-done
	_, _ = c.Close(), s.Close()
	<-done
}

// setOpen opens the link for connections, or cuts all connections and refuses new ones.
func (l *link) setOpen(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isOpen = on; on {
		return
	}
	for _, c := range l.conns {
		_ = c.Close()
	}
	l.conns = nil
}
