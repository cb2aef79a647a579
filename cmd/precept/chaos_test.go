package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"precept/admin"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/store"
	"precept/store/redis"
	"precept/store/sqlite"
	"precept/store/storetest"
)

// The chaos tests kill, starve and damage the whole program under load. They are short here; `make
// chaos` runs the same ones for longer, with PRECEPT_CHAOS=1.

// longer is a number of a chaos test, in its short and in its long form.
func longer[T any](short, long T) T {
	if os.Getenv("PRECEPT_CHAOS") != "" {
		return long
	}
	return short
}

// sureAfter is how long after its end a response is sure to survive a crash: 100 ms, and more on a
// machine that runs other tests beside.
func sureAfter() time.Duration { return longer(500*time.Millisecond, 100*time.Millisecond) }

// answered is one request that was answered.
type answered struct {
	request string // Precept-Request-Id
	ended   time.Time
}

// load sends requests to a precept until it is stopped.
type load struct {
	t       *testing.T
	pause   time.Duration // of each worker between two requests
	client  *http.Client
	pick    func() string      // where the next request goes; nil: where start said
	streams func(n int64) bool // whether the nth asks for a stream; nil: none does
	alone   bool               // each request is a session of its own
	next    atomic.Int64
	mu      sync.Mutex
	answers []answered
	failed  []string
}

func newLoad(t *testing.T, pause time.Duration) *load {
	t.Helper()
	l := &load{t: t, pause: pause, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	t.Cleanup(l.client.CloseIdleConnections)
	return l
}

// start lets workers send until the context ends; wait returns when they have stopped.
func (l *load) start(ctx context.Context, data string, workers int) (wait func()) {
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for ctx.Err() == nil {
				l.one(ctx, data)
				select {
				case <-ctx.Done():
				case <-time.After(l.pause):
				}
			}
		})
	}
	return all.Wait
}

// more waits until so many more requests have gone out.
func (l *load) more(n int64) {
	l.t.Helper()
	until := l.next.Load() + n
	eventually(l.t, fmt.Sprint(n, " more requests"), func() bool { return l.next.Load() >= until })
}

// one sends one request. What fails after the context has ended is no failure.
func (l *load) one(ctx context.Context, data string) {
	n := l.next.Add(1)
	if l.pick != nil {
		data = l.pick()
	}
	stream := ""
	if l.streams != nil && l.streams(n) {
		stream = `"stream":true,`
	}
	body := fmt.Sprintf(`{`+stream+`"model":"m","messages":[{"role":"user","content":"question %d %s"}]}`, n, strings.Repeat("and so on ", 50))
	req, err := http.NewRequestWithContext(l.t.Context(), http.MethodPost, data+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		l.t.Error(err)
		return
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Precept-Session", "s"+strconv.FormatInt(n%20, 10)+"-"+strconv.FormatInt(n/200, 10))
	if l.alone {
		req.Header.Set("Precept-Session", "s"+strconv.FormatInt(n, 10))
	}
	res, err := l.client.Do(req)
	var said []byte
	if err == nil {
		said, err = io.ReadAll(res.Body)
		_ = res.Body.Close()
	}
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil && res.StatusCode == http.StatusOK:
		l.answers = append(l.answers, answered{res.Header.Get("Precept-Request-Id"), now})
	case ctx.Err() != nil:
	case err != nil:
		l.failed = append(l.failed, err.Error())
	default:
		l.failed = append(l.failed, res.Status+": "+string(said))
	}
}

// endedBefore lists the requests whose end the client saw before a time.
func (l *load) endedBefore(at time.Time) (requests []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.answers {
		if a.ended.Before(at) {
			requests = append(requests, a.request)
		}
	}
	return requests
}

// all is how many requests were answered, without one that failed.
func (l *load) all() int {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.failed) > 0 {
		l.t.Errorf("%d of %d requests failed: %v", len(l.failed), len(l.failed)+len(l.answers), l.failed[:min(3, len(l.failed))])
	}
	return len(l.answers)
}

// brief answers every chat request at once.
func brief(t *testing.T) *httptest.Server {
	t.Helper()
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, said(fmt.Sprint("chatcmpl-", n.Add(1)), "this is what there is to say of it"))
	}))
	t.Cleanup(s.Close)
	return s
}

// begins starts precept on a directory, with what every chaos test sets.
func begins(t *testing.T, dir, upstream string, flags ...string) *process {
	t.Helper()
	return launch(t, dir, []string{"PRECEPT_ADMIN_TOKEN=token"}, append([]string{"--upstream", upstream + "/v1"}, flags...)...).ready(dir)
}

// stops ends it as an operator does.
func (p *process) stops() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != exitDone {
		p.t.Errorf("exit %d\n%s", code, p.log.String())
	}
}

// kills ends it as a crash does, and tells when.
func (p *process) kills() time.Time {
	p.t.Helper()
	at := time.Now()
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	<-p.end
	return at
}

// ended is how many turns are in the books of a directory whose end is, too.
func ended(dir string) int64 {
	b, err := store.ReadAccount(filepath.Join(dir, "spool"), false)
	if err != nil {
		return 0
	}
	return b.Admitted - b.Incomplete
}

// doctor asks for the account of a directory, which balances.
func doctor(t *testing.T, dir string, flags ...string) diagnosis {
	t.Helper()
	out, complaints, code := verb(t, "", append([]string{"doctor", "--json", "--data-dir", dir}, flags...)...)
	var d diagnosis
	if err := json.Unmarshal([]byte(out), &d); err != nil || code != exitDone {
		t.Fatalf("doctor: exit %d, %v\n%s%s", code, err, out, complaints)
	}
	sum := d.Stored + d.Spooled + d.Incomplete
	for _, n := range d.Dropped {
		sum += n
	}
	if sum != d.Admitted {
		t.Errorf("the books do not balance: %s", out)
	}
	return d
}

// notices waits until precept knows that its store cannot be written, or that it can be again.
func (p *process) notices(broken bool) {
	p.t.Helper()
	p.eventually(fmt.Sprint("/readyz that says degraded: ", broken), func() bool {
		_, says := get(p.t, p.Data+"/readyz", "")
		return strings.Contains(says, "degraded") == broken
	})
}

// health is what the running server says of itself.
func (p *process) health() (h admin.Health) {
	p.t.Helper()
	status, body := get(p.t, p.Admin+"/api/health", "token")
	if err := json.Unmarshal([]byte(body), &h); err != nil || status != http.StatusOK {
		p.t.Fatalf("%d, %v\n%s", status, err, body)
	}
	return h
}

// drained waits until everything that was admitted is in the store.
func (p *process) drained(dir string, flags ...string) diagnosis {
	p.t.Helper()
	var d diagnosis
	p.eventually("an empty spool", func() bool {
		d = doctor(p.t, dir, flags...)
		return d.Spooled == 0
	})
	return d
}

// exchangesIn reads the exchanges of sessions: by request, with how often each is there.
func exchangesIn(t *testing.T, s storetest.Samples, sessions []session.ID) map[string][]sample.Exchange {
	t.Helper()
	byRequest, ids := map[string][]sample.Exchange{}, map[string]bool{}
	for _, id := range sessions {
		list, err := s.Exchanges(t.Context(), "default", id)
		if err != nil {
			t.Fatal(err)
		}
		for i := range list {
			x := &list[i]
			if ids[x.ID] {
				t.Errorf("the id %s is there twice", x.ID)
			}
			ids[x.ID] = true
			byRequest[x.RequestID] = append(byRequest[x.RequestID], *x)
		}
	}
	return byRequest
}

// inFile reads the exchanges of a directory's own store, which is sound.
func inFile(t *testing.T, dir string) map[string][]sample.Exchange {
	t.Helper()
	path := filepath.Join(dir, "precept.db")
	raw, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = raw.Close() }()
	var ok string
	if err := raw.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&ok); err != nil || ok != "ok" {
		t.Errorf("integrity check: %q, %v", ok, err)
	}
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, ReadOnly: true, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	return exchangesIn(t, db, sessionsIn(t, raw))
}

// sessionsIn lists the sessions that something is kept of, also those that have no row yet: of a
// stub.
func sessionsIn(t *testing.T, raw *sql.DB) (ids []session.ID) {
	t.Helper()
	rows, err := raw.QueryContext(t.Context(), "SELECT id FROM sessions")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id []byte
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, session.ID(id))
	}
	if rows.Err() != nil {
		t.Fatal(rows.Err())
	}
	return ids
}

// inRedis reads the exchanges of a store in Redis.
func inRedis(t *testing.T, url string) map[string][]sample.Exchange {
	t.Helper()
	db, err := redis.Open(redis.Options{URL: url, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var ids []session.ID
	err = db.EachSession(t.Context(), "", time.Time{}, time.Time{}, func(r session.Row, _ session.Applied) error {
		ids = append(ids, r.ID)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return exchangesIn(t, db, ids)
}

// once says that each of the requests has exactly one exchange, whole.
func once(t *testing.T, what string, requests []string, have map[string][]sample.Exchange) {
	t.Helper()
	var missing, bad []string
	for _, id := range requests {
		switch list := have[id]; {
		case len(list) == 0:
			missing = append(missing, id)
		case len(list) > 1 || list[0].Outcome != sample.Complete || list[0].Reply.Text == "" || len(list[0].New) != 1:
			bad = append(bad, fmt.Sprintf("%+v", list))
		}
	}
	if len(missing)+len(bad) > 0 {
		t.Errorf("%s: of %d answered requests %d have no exchange, %d none that is whole: %v %v", what, len(requests), len(missing), len(bad), missing[:min(3, len(missing))], bad[:min(2, len(bad))])
	}
}

// twice lists the requests that have more than one exchange.
func twice(have map[string][]sample.Exchange) (requests []string) {
	for id, list := range have {
		if len(list) > 1 {
			requests = append(requests, id)
		}
	}
	slices.Sort(requests)
	return requests
}
