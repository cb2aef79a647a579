package main

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"precept/store/storetest"
)

// lockFile keeps everybody else from writing to a directory's store, as a stray sqlite3 does.
func lockFile(t *testing.T, dir string) (unlock func()) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "precept.db")+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(t.Context())
	if err == nil {
		_, err = conn.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		_, err := conn.ExecContext(context.WithoutCancel(t.Context()), "ROLLBACK")
		if err != nil {
			t.Error(err)
		}
		_ = conn.Close()
		_ = db.Close()
	}
}

// loud counts the lines of a log that want a person's eye.
func (p *process) loud() int {
	return strings.Count(p.log.String(), "level=WARN") + strings.Count(p.log.String(), "level=ERROR")
}

// R081: another program holds the database.
func TestChaosLocked(t *testing.T) {
	dir, model := t.TempDir(), brief(t)
	p := begins(t, dir, model.URL)
	l := newLoad(t, 10*time.Millisecond)
	ctx, stop := context.WithCancel(t.Context())
	wait := l.start(ctx, p.Data, 4)
	l.more(40)
	unlock := lockFile(t, dir)
	p.notices(true)
	l.more(longer[int64](40, 1000))
	p.eventually("something that waits", func() bool { return doctor(t, dir).Spooled > 0 })
	unlock()
	l.more(40)
	stop()
	wait()
	n := l.all()
	d := p.drained(dir)
	p.stops()
	once(t, "locked", l.endedBefore(time.Now()), inFile(t, dir))
	if d.Admitted < int64(n) || d.Stored != d.Admitted {
		t.Errorf("%d answered, %+v", n, d.Account)
	}
	if p.loud() > 10 {
		t.Errorf("%d lines:\n%s", p.loud(), p.log.String())
	}
}

// R081: the database is overwritten with garbage while precept runs, and before it starts.
func TestChaosGarbage(t *testing.T) {
	dir, model := t.TempDir(), brief(t)
	l := newLoad(t, 5*time.Millisecond)
	run := func(p *process, during func()) {
		ctx, stop := context.WithCancel(t.Context())
		wait := l.start(ctx, p.Data, 4)
		l.more(100)
		during()
		l.more(200)
		stop()
		wait()
	}
	garbage := []byte(strings.Repeat("this is no database ", 1000))
	path := filepath.Join(dir, "precept.db")
	p := begins(t, dir, model.URL)
	run(p, func() {
		if err := os.WriteFile(path, garbage, 0o600); err != nil {
			t.Fatal(err)
		}
	})
	p.eventually("a word of it", func() bool { return strings.Contains(p.log.String(), "damaged") })
	d := doctor(t, dir)
	if d.Spooled == 0 || d.Trouble == "" {
		t.Errorf("beside: %+v", d)
	}
	p.signal(syscall.SIGTERM)
	p.exit()
	p = begins(t, dir, model.URL)
	d = p.drained(dir)
	run(p, func() {})
	p.stops()
	l.all()
	aside, err := filepath.Glob(path + ".corrupt-*")
	if err != nil || len(aside) == 0 {
		t.Fatalf("the garbage was not set aside: %v %v", aside, err)
	}
	if b, err := os.ReadFile(aside[0]); err != nil || string(b) != string(garbage) {
		t.Errorf("what was set aside is not what was there: %d bytes, %v", len(b), err)
	}
	if have := inFile(t, dir); len(have) == 0 {
		t.Error("the new store is empty")
	}
}

// R081: the data directory can only be read: precept serves from memory and leaves it alone.
func TestChaosReadOnly(t *testing.T) {
	disk := storetest.SmallDisk(t, 64<<20)
	dir, model := filepath.Join(disk.Dir, "data"), brief(t)
	run := func(p *process) *load {
		l := newLoad(t, 5*time.Millisecond)
		ctx, stop := context.WithTimeout(t.Context(), longer[time.Duration](400, 3000)*time.Millisecond)
		defer stop()
		l.start(ctx, p.Data, 4)()
		return l
	}
	p := begins(t, dir, model.URL)
	n := run(p).all()
	p.stops()
	disk.ReadOnly(t, true)
	p = launch(t, dir, nil, "--upstream", model.URL+"/v1")
	line := regexp.MustCompile(`data=(http://\S+) admin`)
	p.eventually("the ready line", func() bool { return line.MatchString(p.log.String()) })
	p.Data = line.FindStringSubmatch(p.log.String())[1]
	if run(p).all() == 0 {
		t.Error("nothing was answered")
	}
	if !strings.Contains(p.log.String(), "runs from memory") || p.loud() > 10 {
		t.Errorf("the log says:\n%s", p.log.String())
	}
	if d := doctor(t, dir); d.Stored != int64(n) || d.Admitted != int64(n) {
		t.Errorf("%d answered before, %+v", n, d.Account)
	}
	p.stops()
	disk.ReadOnly(t, false)
	p = begins(t, dir, model.URL)
	n += run(p).all()
	p.stops()
	if d := doctor(t, dir); d.Stored != int64(n) || d.Admitted != int64(n) {
		t.Errorf("%d answered while it could be written, %+v", n, d.Account)
	}
}

// R084, R085: the disk is full, and freed.
func TestChaosFullDisk(t *testing.T) {
	disk := storetest.SmallDisk(t, 8<<20)
	dir, model := filepath.Join(disk.Dir, "data"), brief(t)
	p := begins(t, dir, model.URL, "--limits-capture-total-bytes", "1MiB")
	l := newLoad(t, 2*time.Millisecond)
	ctx, stop := context.WithCancel(t.Context())
	wait := l.start(ctx, p.Data, 4)
	l.more(200)
	for range longer(3, 15) {
		disk.Fill(t, 0)
		l.more(200)
	}
	full := l.next.Load()
	disk.Free(t)
	before := doctor(t, dir).Stored
	p.eventually("capture", func() bool { return doctor(t, dir).Stored > before+10 })
	stop()
	wait()
	n := l.all()
	// What waits in memory for a disk that was full is not in the books yet.
	p.eventually("all of it in the books", func() bool { return doctor(t, dir).Admitted >= int64(n) })
	d := p.drained(dir)
	p.stops()
	dropped := int64(0)
	for reason, n := range d.Dropped {
		if reason != "full" {
			t.Errorf("%d dropped as %s", n, reason)
		}
		dropped += n
	}
	if d.Stored+dropped != int64(n) {
		t.Errorf("%d answered, %+v", n, d.Account)
	}
	if have := inFile(t, dir); int64(len(have)) != d.Stored || len(twice(have)) > 0 {
		t.Errorf("%d in the store, %+v", len(have), d.Account)
	}
	t.Logf("full until request %d of %d, %+v", full, n, d.Account)
}

// A start on a full disk, with a store there and without one: precept serves from memory and says
// so. With room again the next start goes on where the last one with a store was.
func TestChaosStartsOnAFullDisk(t *testing.T) {
	disk := storetest.SmallDisk(t, 8<<20)
	dir, model := filepath.Join(disk.Dir, "data"), brief(t)
	line := regexp.MustCompile(`data=(http://\S+) admin`)
	full := func(dir string) {
		t.Helper()
		disk.Fill(t, 0)
		p := launch(t, dir, nil, "--upstream", model.URL+"/v1")
		p.eventually("the ready line", func() bool { return line.MatchString(p.log.String()) })
		p.Data = line.FindStringSubmatch(p.log.String())[1]
		l := newLoad(t, 0)
		for range 5 {
			l.one(t.Context(), p.Data)
		}
		if l.all() != 5 || !strings.Contains(p.log.String(), "runs from memory") || p.loud() > 10 {
			t.Errorf("the log says:\n%s", p.log.String())
		}
		p.stops()
		disk.Free(t)
	}
	full(dir)
	p := begins(t, dir, model.URL)
	l := newLoad(t, 0)
	for range 5 {
		l.one(t.Context(), p.Data)
	}
	n := l.all()
	p.drained(dir)
	p.stops()
	full(dir)
	p = begins(t, dir, model.URL)
	if d := p.drained(dir); d.Stored != int64(n) || d.Admitted != int64(n) {
		t.Errorf("%d answered with a store, %+v", n, d.Account)
	}
	p.stops()
}

// R091: a stop lets streams end, and nothing of them is lost.
func TestChaosStop(t *testing.T) {
	model, finish := slowModel(t)
	quick := brief(t)
	dir := t.TempDir()
	p := launch(t, dir, nil, "--upstream", model.URL+"/v1", "--limits-drain-timeout", "25s").ready(dir)
	const streams = 50
	ended := make([]<-chan error, streams)
	for i := range ended {
		ended[i] = stream(t, p.Data)
	}
	p.signal(syscall.SIGTERM)
	p.eventually("a closed door", func() bool { return !alive(t.Context(), p.Data) })
	close(finish)
	for _, c := range ended {
		if err := <-c; err != nil {
			t.Errorf("a stream was cut: %v", err)
		}
	}
	if code := p.exit(); code != exitDone {
		t.Errorf("exit %d\n%s", code, p.log.String())
	}
	d := doctor(t, dir)
	if d.Stored != streams || d.Admitted != streams {
		t.Errorf("%+v", d.Account)
	}
	for id, list := range inFile(t, dir) {
		if len(list) != 1 || list[0].Outcome != "complete" || list[0].Reply.Text == "" {
			t.Errorf("%s: %+v", id, list)
		}
	}

	// Under load: what was answered is there.
	p = begins(t, dir, quick.URL)
	l := newLoad(t, time.Millisecond)
	ctx, stop := context.WithCancel(t.Context())
	wait := l.start(ctx, p.Data, 8)
	l.more(200)
	stop()
	p.signal(syscall.SIGTERM)
	wait()
	if code := p.exit(); code != exitDone {
		t.Errorf("exit %d\n%s", code, p.log.String())
	}
	have := inFile(t, dir)
	once(t, "stopped", l.endedBefore(time.Now()), have)
	if d := doctor(t, dir); d.Spooled != 0 || d.Stored != d.Admitted || int64(len(have)) != d.Stored {
		t.Errorf("%d in the store, %+v", len(have), d.Account)
	}
}

// R092: a stream that does not end is cut, and kept as far as it came.
func TestChaosStopCuts(t *testing.T) {
	model, _ := slowModel(t)
	dir := t.TempDir()
	p := launch(t, dir, nil, "--upstream", model.URL+"/v1", "--limits-drain-timeout", "500ms").ready(dir)
	ended := stream(t, p.Data)
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != exitCut {
		t.Errorf("exit %d, want %d\n%s", code, exitCut, p.log.String())
	}
	if <-ended == nil {
		t.Error("the client saw a clean end")
	}
	d := doctor(t, dir)
	have := inFile(t, dir)
	if d.Admitted != 1 || d.Stored != 1 || len(have) != 1 {
		t.Errorf("%d in the store, %+v", len(have), d.Account)
	}
	for _, list := range have {
		if list[0].Outcome == "complete" {
			t.Errorf("it is kept as %+v", list[0])
		}
	}
}
