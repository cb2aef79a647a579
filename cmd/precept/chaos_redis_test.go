package main

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	"precept/store/storetest"
)

// played runs a load at about 100 requests a second against a fleet's replica, and does something
// to its store meanwhile.
func played(t *testing.T, p *process, harm func(l *load)) *load {
	t.Helper()
	l := newLoad(t, 40*time.Millisecond)
	ctx, stop := context.WithCancel(t.Context())
	wait := l.start(ctx, p.Data, 4)
	l.more(40)
	harm(l)
	l.more(40)
	stop()
	wait()
	return l
}

// whole says that everything that was answered is in the store, once, and that the log kept its
// voice down.
func whole(t *testing.T, p *process, dir, url string, l *load) {
	t.Helper()
	n := l.all()
	// What a full disk kept waiting in memory is not in the books yet.
	p.eventually("all of it in the books", func() bool { return doctor(t, dir).Admitted >= int64(n) })
	d := p.drained(dir, "--store-url", url)
	have := inRedis(t, url)
	once(t, "through Redis", l.endedBefore(time.Now()), have)
	if d.Admitted != int64(n) || d.Stored != int64(n) || len(have) != n || len(twice(have)) > 0 {
		t.Errorf("%d answered, %d in the store, %v of them twice, %+v", n, len(have), twice(have), d.Account)
	}
	if p.loud() > 10 {
		t.Errorf("%d lines:\n%s", p.loud(), p.log.String())
	}
	p.stops()
	t.Logf("%d answered, %+v", n, d.Account)
}

// R071: Redis is frozen.
func TestChaosRedisFrozen(t *testing.T) {
	t.Parallel()
	server, dir := storetest.StartRedis(t), t.TempDir()
	p := begins(t, dir, brief(t).URL, "--store-url", server.URL())
	l := played(t, p, func(l *load) {
		server.Freeze(t)
		p.notices(true)
		l.more(longer[int64](100, 2000))
		server.Thaw(t)
	})
	whole(t, p, dir, server.URL(), l)
}

// R073: Redis is killed, and loses what it had acknowledged last.
func TestChaosRedisKilled(t *testing.T) {
	t.Parallel()
	server, dir := storetest.StartRedis(t, "--appendonly", "yes", "--appendfsync", "everysec"), t.TempDir()
	p := begins(t, dir, brief(t).URL, "--store-url", server.URL())
	l := played(t, p, func(l *load) {
		for range longer(1, 9) {
			server.Kill()
			l.more(30)
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
			l.more(longer[int64](50, 300))
		}
	})
	whole(t, p, dir, server.URL(), l)
}

// Redis comes back empty: what the spool still holds is written again. The test's load is younger
// than what the spool keeps.
func TestChaosRedisEmptied(t *testing.T) {
	t.Parallel()
	for name, down := range map[string]bool{"beside precept": false, "while precept was down": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, dir, model := storetest.StartRedis(t), t.TempDir(), brief(t)
			p := begins(t, dir, model.URL, "--store-url", server.URL())
			empty := func(*load) {
				server.Kill()
				if err := server.Start(); err != nil {
					t.Fatal(err)
				}
			}
			if !down {
				whole(t, p, dir, server.URL(), played(t, p, empty))
				return
			}
			l := played(t, p, func(*load) {})
			p.eventually("everything in the books", func() bool { return doctor(t, dir).Admitted == int64(l.all()) })
			p.drained(dir)
			p.kills()
			empty(l)
			p = begins(t, dir, model.URL, "--store-url", server.URL())
			p.eventually("all of it", func() bool { return len(inRedis(t, server.URL())) == l.all() })
			whole(t, p, dir, server.URL(), l)
		})
	}
}

// R075: Redis has no memory left, and gets more.
func TestChaosRedisFull(t *testing.T) {
	t.Parallel()
	server, dir := storetest.StartRedis(t), t.TempDir()
	p := begins(t, dir, brief(t).URL, "--store-url", server.URL())
	l := played(t, p, func(l *load) {
		server.Must(t, "CONFIG", "SET", "maxmemory", "1mb")
		p.notices(true)
		l.more(longer[int64](100, 1500))
		p.eventually("something that waits", func() bool { return doctor(t, dir, "--store-url", server.URL()).Spooled > 0 })
		server.Must(t, "CONFIG", "SET", "maxmemory", "0")
	})
	whole(t, p, dir, server.URL(), l)
}

// R079: something takes the connection and never answers.
func TestChaosRedisBlackhole(t *testing.T) {
	t.Parallel()
	hole, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = hole.Close() }()
	dir, model := t.TempDir(), brief(t)
	p := begins(t, dir, model.URL, "--store-url", "redis://"+hole.Addr().String())
	l := played(t, p, func(l *load) { l.more(longer[int64](200, 1500)) })
	p.eventually("all of it in the spool", func() bool { return ended(dir) == int64(l.all()) })
	if p.loud() > 10 {
		t.Errorf("%d lines:\n%s", p.loud(), p.log.String())
	}
	p.kills()
	server := storetest.StartRedis(t)
	p = begins(t, dir, model.URL, "--store-url", server.URL())
	whole(t, p, dir, server.URL(), l)
}

// The local disk is full, and Redis is well: nothing is dropped.
func TestChaosFullDiskBesideRedis(t *testing.T) {
	server, disk := storetest.StartRedis(t), storetest.SmallDisk(t, 8<<20)
	dir := filepath.Join(disk.Dir, "data")
	p := begins(t, dir, brief(t).URL, "--store-url", server.URL())
	l := played(t, p, func(l *load) {
		for range longer(3, 15) {
			disk.Fill(t, 0) // somebody takes whatever is given back
			l.more(100)
		}
		stored := len(inRedis(t, server.URL()))
		p.eventually("capture on a full disk", func() bool { return len(inRedis(t, server.URL())) > stored+10 })
		disk.Free(t)
	})
	whole(t, p, dir, server.URL(), l)
}
