package chaos

import (
	"context"
	"database/sql"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"precept/store/storetest"
	"precept/test/harness"
)

// readyLine matches the log line that contains the address of the data listener.
var readyLine = regexp.MustCompile(`data=(http://\S+) admin`)

// lockDatabase locks the database in dir so that no other process can write to it, as an sqlite3 shell with an open
// transaction does.
func lockDatabase(t *testing.T, dir string) (unlock func()) {
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

func countWarnings(p *harness.Process) int {
	return strings.Count(p.Log.String(), "level=WARN") + strings.Count(p.Log.String(), "level=ERROR")
}

func TestChaosLockedDatabaseLosesNothing(t *testing.T) {
	dir, model := t.TempDir(), harness.InstantModel(t)
	p := harness.StartWithUpstream(t, dir, model.URL)
	l := harness.NewLoad(t, 10*time.Millisecond)
	ctx, stop := context.WithCancel(t.Context())
	wait := l.Start(ctx, p.DataURL, 4)
	l.WaitForRequests(40)
	unlock := lockDatabase(t, dir)
	p.WaitUntilDegraded()
	l.WaitForRequests(harness.UsualOrChaos[int64](40, 1000))
	p.Eventually("rows in the outbox", func() bool { return harness.Doctor(t, dir).Spooled > 0 })
	unlock()
	l.WaitForRequests(40)
	stop()
	wait()
	n := l.CountAnswered()
	d := p.WaitUntilDrained(dir)
	p.Stop()
	harness.CheckOneExchangePerRequest(t, "locked", l.EndedBefore(time.Now()), harness.ExchangesInFile(t, dir))
	if d.Admitted < int64(n) || d.Stored != d.Admitted {
		t.Errorf("doctor after %d answered requests: got %+v, want all exchanges admitted and stored", n, d)
	}
	if countWarnings(p) > 10 {
		t.Errorf("warnings in the log: got %d, want at most 10:\n%s", countWarnings(p), p.Log.String())
	}
}

func TestChaosGarbageDatabaseIsSetAside(t *testing.T) {
	dir, model := t.TempDir(), harness.InstantModel(t)
	l := harness.NewLoad(t, 5*time.Millisecond)
	runLoad := func(p *harness.Process, during func()) {
		ctx, stop := context.WithCancel(t.Context())
		wait := l.Start(ctx, p.DataURL, 4)
		l.WaitForRequests(100)
		during()
		l.WaitForRequests(200)
		stop()
		wait()
	}
	garbage := []byte(strings.Repeat("this is not a database ", 1000))
	path := filepath.Join(dir, "precept.db")
	p := harness.StartWithUpstream(t, dir, model.URL)
	runLoad(p, func() {
		if err := os.WriteFile(path, garbage, 0o600); err != nil {
			t.Fatal(err)
		}
	})
	p.Eventually("the log line about the damage", func() bool { return strings.Contains(p.Log.String(), "damaged") })
	d := harness.Doctor(t, dir)
	if d.Spooled == 0 || d.StoreError == "" {
		t.Errorf("doctor with a damaged database: got %+v, want Spooled > 0 and a store error", d)
	}
	p.Signal(syscall.SIGTERM)
	p.ExitCode()
	p = harness.StartWithUpstream(t, dir, model.URL)
	d = p.WaitUntilDrained(dir)
	runLoad(p, func() {})
	p.Stop()
	l.CountAnswered()
	aside, err := filepath.Glob(path + ".corrupt-*")
	if err != nil || len(aside) == 0 {
		t.Fatalf("files set aside: got %v, error %v, want only the overwritten database file", aside, err)
	}
	if b, err := os.ReadFile(aside[0]); err != nil || string(b) != string(garbage) {
		t.Errorf("damaged file that was set aside: got %d bytes, error %v, want the %d bytes that the test wrote", len(b), err, len(garbage))
	}
	if got := harness.ExchangesInFile(t, dir); len(got) == 0 {
		t.Error("exchanges in the new database: got 0, want at least 1")
	}
}

func TestChaosReadOnlyDirectoryServesFromMemory(t *testing.T) {
	disk := storetest.SmallDisk(t, 64<<20)
	dir, model := filepath.Join(disk.Dir, "data"), harness.InstantModel(t)
	runLoad := func(p *harness.Process) *harness.Load {
		l := harness.NewLoad(t, 5*time.Millisecond)
		ctx, stop := context.WithTimeout(t.Context(), harness.UsualOrChaos[time.Duration](400, 3000)*time.Millisecond)
		defer stop()
		l.Start(ctx, p.DataURL, 4)()
		return l
	}
	p := harness.StartWithUpstream(t, dir, model.URL)
	n := runLoad(p).CountAnswered()
	p.Stop()
	disk.SetReadOnly(t, true)
	p = harness.Launch(t, dir, nil, "--upstream", model.URL+"/v1")
	p.Eventually("the ready line", func() bool { return readyLine.MatchString(p.Log.String()) })
	p.DataURL = readyLine.FindStringSubmatch(p.Log.String())[1]
	if runLoad(p).CountAnswered() == 0 {
		t.Error("answered requests with a read-only directory: got 0, want at least 1")
	}
	if !strings.Contains(p.Log.String(), "runs from memory") || countWarnings(p) > 10 {
		t.Errorf("warnings in the log: got %d, want at most 10, and \"runs from memory\":\n%s", countWarnings(p), p.Log.String())
	}
	if d := harness.Doctor(t, dir); d.Stored != int64(n) || d.Admitted != int64(n) {
		t.Errorf("doctor with a read-only directory: got %+v, want Stored and Admitted = %d, the requests answered before the directory became read-only", d, n)
	}
	p.Stop()
	disk.SetReadOnly(t, false)
	p = harness.StartWithUpstream(t, dir, model.URL)
	n += runLoad(p).CountAnswered()
	p.Stop()
	if d := harness.Doctor(t, dir); d.Stored != int64(n) || d.Admitted != int64(n) {
		t.Errorf("doctor with a writable directory: got %+v, want Stored and Admitted = %d, the requests answered while the directory was writable", d, n)
	}
}

func TestChaosFullDiskRecovers(t *testing.T) {
	disk := storetest.SmallDisk(t, 8<<20)
	dir, model := filepath.Join(disk.Dir, "data"), harness.InstantModel(t)
	p := harness.StartWithUpstream(t, dir, model.URL, "--limits-capture-total-bytes", "1MiB")
	l := harness.NewLoad(t, 2*time.Millisecond)
	ctx, stop := context.WithCancel(t.Context())
	wait := l.Start(ctx, p.DataURL, 4)
	l.WaitForRequests(200)
	for range harness.UsualOrChaos(3, 15) {
		disk.Fill(t, 0)
		l.WaitForRequests(200)
	}
	full := l.Started.Load()
	before := harness.Doctor(t, dir).Stored
	disk.RemoveFiller(t)
	l.WaitForRequests(100)
	stop()
	wait()
	n := l.CountAnswered()
	p.Eventually("more than 10 further exchanges in the store", func() bool { return harness.Doctor(t, dir).Stored > before+10 })
	// While the disk is full, exchanges wait in memory. They are counted as admitted a moment after the disk has room
	// again.
	p.Eventually("all exchanges admitted", func() bool { return harness.Doctor(t, dir).Admitted >= int64(n) })
	d := p.WaitUntilDrained(dir)
	p.Stop()
	dropped := int64(0)
	for reason, n := range d.Dropped {
		if reason != "full" {
			t.Errorf("reason for %d dropped exchanges: got %s, want full", n, reason)
		}
		dropped += n
	}
	if d.Stored+dropped != int64(n) {
		t.Errorf("doctor after %d answered requests: got %+v, want each exchange stored or dropped", n, d)
	}
	if got := harness.ExchangesInFile(t, dir); int64(len(got)) != d.Stored || len(harness.RepeatedRequests(got)) > 0 {
		t.Errorf("exchanges in the store: got %d, want the number Stored in %+v, and at most one exchange per request", len(got), d)
	}
	t.Logf("the disk was full until request %d of %d; doctor: %+v", full, n, d)
}

func TestChaosStartOnAFullDiskServesFromMemory(t *testing.T) {
	disk := storetest.SmallDisk(t, 8<<20)
	dir, model := filepath.Join(disk.Dir, "data"), harness.InstantModel(t)
	startOnFullDisk := func(dir string) {
		t.Helper()
		disk.Fill(t, 0)
		p := harness.Launch(t, dir, nil, "--upstream", model.URL+"/v1")
		p.Eventually("the ready line", func() bool { return readyLine.MatchString(p.Log.String()) })
		p.DataURL = readyLine.FindStringSubmatch(p.Log.String())[1]
		l := harness.NewLoad(t, 0)
		for range 5 {
			l.Send(t.Context(), p.DataURL)
		}
		if l.CountAnswered() != 5 || !strings.Contains(p.Log.String(), "runs from memory") || countWarnings(p) > 10 {
			t.Errorf("start on a full disk: got %d answers and %d warnings, want 5 answers, at most 10 warnings, and \"runs from memory\":\n%s", l.CountAnswered(), countWarnings(p), p.Log.String())
		}
		p.Stop()
		disk.RemoveFiller(t)
	}
	startOnFullDisk(dir)
	p := harness.StartWithUpstream(t, dir, model.URL)
	l := harness.NewLoad(t, 0)
	for range 5 {
		l.Send(t.Context(), p.DataURL)
	}
	n := l.CountAnswered()
	p.WaitUntilDrained(dir)
	p.Stop()
	startOnFullDisk(dir)
	p = harness.StartWithUpstream(t, dir, model.URL)
	if d := p.WaitUntilDrained(dir); d.Stored != int64(n) || d.Admitted != int64(n) {
		t.Errorf("doctor: got %+v, want Stored and Admitted = %d, the requests answered while the store was available", d, n)
	}
	p.Stop()
}

func TestChaosStopStoresStreams(t *testing.T) {
	model, finish := harness.SlowModel(t)
	dir := t.TempDir()
	p := harness.Launch(t, dir, nil, "--upstream", model.URL+"/v1", "--limits-drain-timeout", "25s").WaitUntilReady(dir)
	const streams = 50
	ended := make([]<-chan error, streams)
	for i := range ended {
		ended[i] = harness.Stream(t, p.DataURL)
	}
	p.Signal(syscall.SIGTERM)
	p.Eventually("a refused connection to the data listener", func() bool {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(p.DataURL, "http://"))
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	close(finish)
	for _, c := range ended {
		if err := <-c; err != nil {
			t.Errorf("stream: got error %v, want a complete stream", err)
		}
	}
	if code := p.ExitCode(); code != harness.ExitOK {
		t.Errorf("precept after SIGTERM: got exit code %d, want 0\n%s", code, p.Log.String())
	}
	d := harness.Doctor(t, dir)
	if d.Stored != streams || d.Admitted != streams {
		t.Errorf("doctor: got %+v, want Stored and Admitted = %d, the number of streams", d, streams)
	}
	for id, list := range harness.ExchangesInFile(t, dir) {
		if len(list) != 1 || list[0].Outcome != "complete" || list[0].Reply.Text == "" {
			t.Errorf("exchanges for request %s: got %+v, want 1 complete exchange, with the text of the reply", id, list)
		}
	}
}

func TestChaosStopStoresAnsweredRequests(t *testing.T) {
	dir := t.TempDir()
	p := harness.StartWithUpstream(t, dir, harness.InstantModel(t).URL)
	l := harness.NewLoad(t, time.Millisecond)
	ctx, stop := context.WithCancel(t.Context())
	wait := l.Start(ctx, p.DataURL, 8)
	l.WaitForRequests(200)
	stop()
	p.Signal(syscall.SIGTERM)
	wait()
	if code := p.ExitCode(); code != harness.ExitOK {
		t.Errorf("precept after SIGTERM: got exit code %d, want 0\n%s", code, p.Log.String())
	}
	got := harness.ExchangesInFile(t, dir)
	harness.CheckOneExchangePerRequest(t, "stopped", l.EndedBefore(time.Now()), got)
	if d := harness.Doctor(t, dir); d.Spooled != 0 || d.Stored != d.Admitted || int64(len(got)) != d.Stored {
		t.Errorf("after the shutdown: got %d exchanges in the store, doctor %+v, want all admitted exchanges in the store and none in the outbox", len(got), d)
	}
}

func TestChaosStopStoresCutStreams(t *testing.T) {
	model, _ := harness.SlowModel(t)
	dir := t.TempDir()
	p := harness.Launch(t, dir, nil, "--upstream", model.URL+"/v1", "--limits-drain-timeout", "500ms").WaitUntilReady(dir)
	ended := harness.Stream(t, p.DataURL)
	p.Signal(syscall.SIGTERM)
	if code := p.ExitCode(); code != harness.ExitCut {
		t.Errorf("precept after SIGTERM: got exit code %d, want %d\n%s", code, harness.ExitCut, p.Log.String())
	}
	if <-ended == nil {
		t.Error("client whose stream was cut: got no error, want an error")
	}
	d := harness.Doctor(t, dir)
	got := harness.ExchangesInFile(t, dir)
	if d.Admitted != 1 || d.Stored != 1 || len(got) != 1 {
		t.Errorf("after the cut stream: got %d exchanges in the store, doctor %+v, want 1 exchange, admitted and stored", len(got), d)
	}
	for _, list := range got {
		if list[0].Outcome == "complete" {
			t.Errorf("exchange for the cut stream: got %+v, want an outcome other than complete", list[0])
		}
	}
}
