package chaos

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	"precept/store/storetest"
	"precept/test/harness"
)

// disruptDuringLoad calls disrupt while four workers send requests, and returns the finished load.
func disruptDuringLoad(t *testing.T, p *harness.Process, disrupt func(l *harness.Load)) *harness.Load {
	t.Helper()
	l := harness.NewLoad(t, 40*time.Millisecond)
	ctx, stop := context.WithCancel(t.Context())
	wait := l.Start(ctx, p.DataURL, 4)
	l.WaitForRequests(40)
	disrupt(l)
	l.WaitForRequests(40)
	stop()
	wait()
	return l
}

// checkStoredOnce checks that the store contains every answered request exactly once, and that the log has at most 10
// warnings. It then stops the process.
func checkStoredOnce(t *testing.T, p *harness.Process, dir, url string, l *harness.Load) {
	t.Helper()
	n := l.CountAnswered()
	// Exchanges that wait in memory, for example while the disk is full, are counted as admitted a moment later.
	p.Eventually("all exchanges admitted", func() bool { return harness.Doctor(t, dir).Admitted >= int64(n) })
	d := p.WaitUntilDrained(dir, "--store-url", url)
	got := harness.ExchangesInRedis(t, url)
	harness.CheckOneExchangePerRequest(t, "through Redis", l.EndedBefore(time.Now()), got)
	if d.Admitted != int64(n) || d.Stored != int64(n) || len(got) != n || len(harness.RepeatedRequests(got)) > 0 {
		t.Errorf("store: got %[2]d exchanges, repeated requests %[3]v, doctor %+[4]v, want %[1]d exchanges, one per answered request", n, len(got), harness.RepeatedRequests(got), d)
	}
	if countWarnings(p) > 10 {
		t.Errorf("warnings in the log: got %d, want at most 10:\n%s", countWarnings(p), p.Log.String())
	}
	p.Stop()
	t.Logf("%d answered, %+v", n, d)
}

func TestChaosFrozenRedisLosesNothing(t *testing.T) {
	t.Parallel()
	server, dir := storetest.StartRedis(t), t.TempDir()
	p := harness.StartWithUpstream(t, dir, harness.InstantModel(t).URL, "--store-url", server.URL())
	l := disruptDuringLoad(t, p, func(l *harness.Load) {
		server.Freeze(t)
		p.WaitUntilDegraded()
		l.WaitForRequests(harness.UsualOrChaos[int64](100, 2000))
		server.Thaw(t)
	})
	checkStoredOnce(t, p, dir, server.URL(), l)
}

// If Redis is killed, it can lose the last writes that it acknowledged. precept writes the lost rows again from the
// outbox.
func TestChaosKilledRedisLosesNothing(t *testing.T) {
	t.Parallel()
	server, dir := storetest.StartRedis(t, "--appendonly", "yes", "--appendfsync", "everysec"), t.TempDir()
	p := harness.StartWithUpstream(t, dir, harness.InstantModel(t).URL, "--store-url", server.URL())
	l := disruptDuringLoad(t, p, func(l *harness.Load) {
		for range harness.UsualOrChaos(1, 9) {
			server.Kill()
			l.WaitForRequests(30)
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
			l.WaitForRequests(harness.UsualOrChaos[int64](50, 300))
		}
	})
	checkStoredOnce(t, p, dir, server.URL(), l)
}

// Redis restarts without data. The outbox still contains the rows that were delivered, so precept writes them again.
func TestChaosEmptiedRedisIsRefilledFromOutbox(t *testing.T) {
	t.Parallel()
	for name, preceptDown := range map[string]bool{"while precept runs": false, "while precept was down": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, dir, model := storetest.StartRedis(t), t.TempDir(), harness.InstantModel(t)
			p := harness.StartWithUpstream(t, dir, model.URL, "--store-url", server.URL())
			emptyRedis := func(*harness.Load) {
				server.Kill()
				if err := server.Start(); err != nil {
					t.Fatal(err)
				}
			}
			if !preceptDown {
				checkStoredOnce(t, p, dir, server.URL(), disruptDuringLoad(t, p, emptyRedis))
				return
			}
			l := disruptDuringLoad(t, p, func(*harness.Load) {})
			p.Eventually("all exchanges admitted", func() bool { return harness.Doctor(t, dir).Admitted == int64(l.CountAnswered()) })
			p.WaitUntilDrained(dir)
			p.Kill()
			emptyRedis(l)
			p = harness.StartWithUpstream(t, dir, model.URL, "--store-url", server.URL())
			p.Eventually("every answered exchange in Redis", func() bool { return len(harness.ExchangesInRedis(t, server.URL())) == l.CountAnswered() })
			checkStoredOnce(t, p, dir, server.URL(), l)
		})
	}
}

func TestChaosFullRedisLosesNothing(t *testing.T) {
	t.Parallel()
	server, dir := storetest.StartRedis(t), t.TempDir()
	p := harness.StartWithUpstream(t, dir, harness.InstantModel(t).URL, "--store-url", server.URL())
	l := disruptDuringLoad(t, p, func(l *harness.Load) {
		server.MustDo(t, "CONFIG", "SET", "maxmemory", "1mb")
		p.WaitUntilDegraded()
		l.WaitForRequests(harness.UsualOrChaos[int64](100, 1500))
		p.Eventually("rows waiting in the outbox", func() bool { return harness.Doctor(t, dir, "--store-url", server.URL()).Spooled > 0 })
		server.MustDo(t, "CONFIG", "SET", "maxmemory", "0")
	})
	checkStoredOnce(t, p, dir, server.URL(), l)
}

// precept starts and answers requests while Redis is not usable, and the exchanges wait in the outbox. After a restart
// with a working Redis, each exchange must be stored exactly once.
func TestChaosUnusableRedisLosesNothing(t *testing.T) {
	t.Parallel()
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	for name, url := range map[string]string{
		"server that never answers": "redis://" + silent.Addr().String(),
		"not a Cluster":             storetest.StartRedis(t).URL() + "?cluster=true",
		"missing database":          storetest.StartRedis(t, "--databases", "1").URL() + "/1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, model := t.TempDir(), harness.InstantModel(t)
			p := harness.StartWithUpstream(t, dir, model.URL, "--store-url", url)
			l := disruptDuringLoad(t, p, func(l *harness.Load) { l.WaitForRequests(harness.UsualOrChaos[int64](200, 1500)) })
			p.Eventually("all rows in the outbox", func() bool { return harness.EndedTurns(dir) == int64(l.CountAnswered()) })
			if countWarnings(p) > 10 {
				t.Errorf("warnings in the log: got %d, want at most 10:\n%s", countWarnings(p), p.Log.String())
			}
			p.Kill()
			server := storetest.StartRedis(t)
			p = harness.StartWithUpstream(t, dir, model.URL, "--store-url", server.URL())
			checkStoredOnce(t, p, dir, server.URL(), l)
		})
	}
}

func TestChaosFullLocalDiskWithRedisDropsNothing(t *testing.T) {
	server, disk := storetest.StartRedis(t), storetest.SmallDisk(t, 8<<20)
	dir := filepath.Join(disk.Dir, "data")
	p := harness.StartWithUpstream(t, dir, harness.InstantModel(t).URL, "--store-url", server.URL())
	l := disruptDuringLoad(t, p, func(l *harness.Load) {
		for range harness.UsualOrChaos(3, 15) {
			disk.Fill(t, 0) // fills the disk again, as if another program used the bytes that precept freed
			l.WaitForRequests(100)
		}
		stored := len(harness.ExchangesInRedis(t, server.URL()))
		p.Eventually("more than 10 further exchanges in Redis", func() bool { return len(harness.ExchangesInRedis(t, server.URL())) > stored+10 })
		disk.RemoveFiller(t)
	})
	checkStoredOnce(t, p, dir, server.URL(), l)
}
