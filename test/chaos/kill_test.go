package chaos

import (
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"precept/internal/sample"
	"precept/test/harness"
)

// A turn is durable if the response ended at least harness.DurableAfter before the server was killed. No durable turn
// may be lost.
func TestChaosKillLosesNoDurableTurn(t *testing.T) {
	dir, model := t.TempDir(), harness.InstantModel(t)
	l := harness.NewLoad(t, 5*time.Millisecond)
	var durable []string
	for round := range harness.UsualOrChaos(5, 20) {
		p := harness.StartWithUpstream(t, dir, model.URL)
		ctx, stop := context.WithCancel(t.Context())
		wait := l.Start(ctx, p.DataURL, 8)
		harness.Eventually(t, "more than 20 answers older than harness.DurableAfter", func() bool { return len(l.EndedBefore(time.Now().Add(-harness.DurableAfter()))) > 20 })
		l.WaitForRequests(int64(7 * round)) // so that the server is killed at a different moment in each round
		stop()                              // requests that the kill interrupts do not count
		killed := p.Kill()
		wait()
		durable = append(durable, l.EndedBefore(killed.Add(-harness.DurableAfter()))...)
		l.Mu.Lock()
		l.Answers = nil
		l.Mu.Unlock()
		if d := harness.Doctor(t, dir); d.Admitted < int64(len(durable)) {
			t.Errorf("round %d: admitted turns: got %d, want at least %d, the number of durable turns", round, d.Admitted, len(durable))
		}
	}
	if len(durable) < 50 {
		t.Fatalf("durable requests: got %d, want at least 50", len(durable))
	}
	l.CountAnswered()
	p := harness.StartWithUpstream(t, dir, model.URL)
	d := p.WaitUntilDrained(dir)
	p.Stop()
	got := harness.ExchangesInFile(t, dir)
	harness.CheckOneExchangePerRequest(t, "killed", durable, got)
	if list := harness.RepeatedRequests(got); len(list) > 0 {
		t.Errorf("requests with several exchanges: got %v, want none", list)
	}
	if n := int64(len(got)); n != d.Stored+d.Incomplete {
		t.Errorf("exchanges in the store: got %d, want Stored + Incomplete in %+v", n, d)
	}
	t.Logf("%d answered, %+v", len(durable), d)
}

// For each request that was in progress at the kill, the store gets a stub: an incomplete exchange without messages and
// without a reply.
func TestChaosKillLeavesStubs(t *testing.T) {
	model, _ := harness.SlowModel(t)
	dir := t.TempDir()
	p := harness.StartWithUpstream(t, dir, model.URL)
	const streams = 50
	var all sync.WaitGroup
	for i := range streams {
		all.Go(func() { streamUntilKilled(t, p.DataURL, fmt.Sprint("stream-", i)) })
	}
	p.Eventually("every started stream in the outbox", func() bool { return harness.Doctor(t, dir).Admitted == streams })
	p.Kill()
	all.Wait()
	if d := harness.Doctor(t, dir); d.Incomplete != streams || d.Admitted != streams {
		t.Errorf("doctor after the kill: got %+v, want %d exchanges, all admitted and incomplete", d, streams)
	}
	for range 2 { // a restart adds no stub
		p = harness.StartWithUpstream(t, dir, model.URL)
		if d := p.WaitUntilDrained(dir); d.Incomplete != streams || d.Admitted != streams {
			t.Errorf("doctor after a restart: got %+v, want %d exchanges, all admitted and incomplete", d, streams)
		}
		p.Kill()
	}
	p = harness.StartWithUpstream(t, dir, model.URL)
	p.Stop()
	got := harness.ExchangesInFile(t, dir)
	for id, list := range got {
		if len(list) != 1 || list[0].Outcome != sample.Incomplete || list[0].Reply.Text != "" || len(list[0].New) != 0 || !strings.HasPrefix(list[0].SessionName, "stream-") {
			t.Errorf(`exchanges for request %s: got %+v, want 1 exchange with outcome %q and a session name "stream-*", without messages and without a reply`, id, list, sample.Incomplete)
		}
	}
	if len(got) != streams {
		t.Errorf("stubs in the store: got %d, want %d", len(got), streams)
	}
	out, _, code := harness.RunCommand(t, "", "export", "--format", "openai", "--data-dir", dir)
	for line := range strings.Lines(out) {
		if !json.Valid([]byte(line)) {
			t.Errorf("exported line %q: want JSON", line)
		}
	}
	if code != harness.ExitOK {
		t.Errorf("export: got exit code %d, want 0", code)
	}
}

// streamUntilKilled reads a stream until the test kills the server. It ignores read errors, which the kill causes.
func streamUntilKilled(t *testing.T, baseURL, session string) {
	t.Helper()
	body := strings.NewReader(`{"model":"m","stream":true,"messages":[{"role":"user","content":"count"}]}`)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, baseURL+"/v1/chat/completions", body)
	if err != nil {
		t.Error(err)
		return
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Precept-Session", session)
	if res, err := http.DefaultTransport.RoundTrip(req); err == nil {
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
}

// The outbox contains undelivered rows that five processes wrote, one after the other. The test damages part of the
// rows.
func TestChaosDamagedBacklogLosesOnlyDamagedRows(t *testing.T) {
	dir, model := t.TempDir(), harness.InstantModel(t)
	unreachable := "redis://" + closingListener(t)
	l := harness.NewLoad(t, time.Millisecond)
	for range 5 {
		p := harness.StartWithUpstream(t, dir, model.URL, "--store-url", unreachable)
		ctx, stop := context.WithTimeout(t.Context(), harness.UsualOrChaos[time.Duration](300, 3000)*time.Millisecond)
		l.Start(ctx, p.DataURL, 4)()
		stop()
		p.Eventually("all rows in the outbox", func() bool { return harness.EndedTurns(dir) == int64(l.CountAnswered()) })
		p.Kill()
	}
	answered := int64(l.CountAnswered())
	before := harness.Doctor(t, dir, "--store-url", unreachable)
	if before.Admitted != answered || before.Stored != 0 || before.StoreError == "" {
		t.Fatalf("doctor before the damage: got %+v, want %d admitted, none stored, and a store error", before, answered)
	}
	damageOutbox(t, dir)
	p := harness.StartWithUpstream(t, dir, model.URL)
	d := p.WaitUntilDrained(dir)
	p.Stop()
	lost := d.Dropped["damaged"]
	if d.Admitted != answered || lost == 0 || lost > answered/2 || d.Stored+d.Incomplete != answered-lost {
		t.Errorf("doctor after %d answered requests: got %+v, want at least 1 row and at most half of the rows dropped as damaged, and all other rows stored", answered, d)
	}
	if got := harness.ExchangesInFile(t, dir); int64(len(got)) != d.Stored+d.Incomplete {
		t.Errorf("exchanges in the store: got %d, want Stored + Incomplete in %+v", len(got), d)
	}
	if aside, err := filepath.Glob(filepath.Join(dir, "outbox.db.corrupt-*")); err != nil || len(aside) == 0 {
		t.Errorf("files set aside: got %v, error %v, want the damaged outbox", aside, err)
	}
	t.Logf("%d answered, %+v", answered, d)
}

// closingListener starts a server that closes every connection immediately, and returns its address.
func closingListener(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}

// damageOutbox overwrites every third database page that contains rows with zeros, and flips one bit in every twelfth.
// Pages without rows stay intact, because precept needs these pages to find the rows.
func damageOutbox(t *testing.T, dir string) {
	t.Helper()
	path := filepath.Join(dir, "outbox.db")
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), "PRAGMA wal_checkpoint(TRUNCATE)")
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const tableLeaf = 13 // the first byte of a page with rows, according to SQLite's file format
	pageBytes := int(binary.BigEndian.Uint16(b[16:]))
	rowPages := 0
	for page := range slices.Chunk(b, pageBytes) {
		if page[0] != tableLeaf {
			continue
		}
		switch rowPages++; {
		case rowPages%3 == 0:
			clear(page)
		case rowPages%12 == 1:
			page[len(page)/2] ^= 4
		}
	}
	if rowPages < 3 {
		t.Fatalf("row pages in the outbox: got %d, want at least 3", rowPages)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
