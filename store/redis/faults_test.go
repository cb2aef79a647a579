package redis_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"precept/bandit/trial"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/store/redis"
	"precept/store/storetest"
)

const (
	shortTimeout = 300 * time.Millisecond // timeout of openWithShortTimeout
	longTimeout  = 20 * time.Second       // timeout of openWithLongTimeout and openBank, for a busy machine
)

// openWithLongTimeout opens a store whose calls may take 20 seconds.
func openWithLongTimeout(t *testing.T, url string) *redis.Store {
	t.Helper()
	return openWithTimeout(t, url, longTimeout)
}

// openWithShortTimeout opens a store whose calls may take 300 ms.
func openWithShortTimeout(t *testing.T, url string) *redis.Store {
	t.Helper()
	return openWithTimeout(t, url, shortTimeout)
}

// openWithTimeout opens a store whose calls may take limit.
func openWithTimeout(t *testing.T, url string, limit time.Duration) *redis.Store {
	t.Helper()
	s, err := redis.Open(redis.Options{URL: url, Now: time.Now, Timeout: limit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// sid returns the id of the session with number n.
func sid(n int) (id session.ID) {
	copy(id[:], fmt.Sprintf("%08x-session", n*0x9e3779b))
	return id
}

// batch returns a row and an exchange of session n.
func batch(n int) session.Batch {
	at := time.Date(2031, 5, 6, 7, 8, n, 0, time.UTC)
	id := sid(n)
	return session.Batch{
		Rows:      []session.Row{{Tenant: "default", ID: id, Started: at, Seen: at, Data: []byte("{}")}},
		Exchanges: []sample.Exchange{{ID: fmt.Sprint("x", n), Tenant: "default", Session: id.String(), At: at, Outcome: sample.Complete}},
	}
}

// checkUnavailable fails the test unless err is of a kind and says that a later repetition may succeed.
func checkUnavailable(t *testing.T, call string, err, kind error) {
	t.Helper()
	if !errors.Is(err, session.ErrUnavailable) || !errors.Is(err, kind) || errors.Is(err, session.ErrInvalid) {
		t.Errorf("%s: err = %v, want an error that is ErrUnavailable and \"%v\", and not ErrInvalid", call, err, kind)
	}
}

// eventually repeats fn until fn succeeds, for a minute at most. After a failure, the breaker of a store refuses calls,
// and permits one call per second, the probe.
func eventually(t *testing.T, what string, fn func() error) {
	t.Helper()
	err := errors.New("not tried")
	for end := time.Now().Add(time.Minute); err != nil && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		err = fn()
	}
	if err != nil {
		t.Fatalf("%s: got error %v after a minute, want none", what, err)
	}
}

// checkStored fails the test unless the store has want sessions and as many exchanges.
func checkStored(t *testing.T, s *redis.Store, want int64) {
	t.Helper()
	var m map[string]int64
	eventually(t, "count", func() (err error) {
		m, err = s.Stats(t.Context())
		return err
	})
	if m["sessions"] != want || m["exchanges"] != want || m["exchanges_ever"] != want {
		t.Errorf("statistics: got %v, want %d sessions, exchanges and exchanges ever", m, want)
	}
}

// waitForError repeats fn until its error is of a kind, and returns the error. On a loaded machine the first error may
// be a timeout.
func waitForError(t *testing.T, what string, kind error, fn func() error) (err error) {
	t.Helper()
	eventually(t, what, func() error {
		if err = fn(); !errors.Is(err, kind) {
			return fmt.Errorf("want error %w, got: %w", kind, err)
		}
		return nil
	})
	checkUnavailable(t, what, err, kind)
	return err
}

// checkBreakerOpens checks the calls to a server that does not respond. Three look-ups wait until their timeout, and
// later look-ups fail at once. One write waits until the timeout of the client, and later writes fail at once. The
// clock of the store does not move, so that the breaker permits no probe.
func checkBreakerOpens(t *testing.T, url string) {
	t.Helper()
	now := time.Now()
	s, err := redis.Open(redis.Options{URL: url, Now: func() time.Time { return now }, Timeout: shortTimeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	checkRefused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, redis.ErrDown) || !strings.Contains(err.Error(), "asked again every") {
			t.Fatalf("%s with an open breaker: err = %v, want redis.ErrDown with the time of the next try", what, err)
		}
	}
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Millisecond)
		_, _, err := s.Session(ctx, "default", sid(1))
		cancel()
		// The error is that of the context or that of the connection's timeout, whichever comes first.
		waited := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, redis.ErrDown)
		if !waited || strings.Contains(err.Error(), "asked again every") {
			t.Errorf("a look-up before the breaker opens: err = %v, want the error of its timeout", err)
		}
	}
	for range 200 {
		_, _, err := s.Session(t.Context(), "default", sid(1))
		checkRefused("a look-up", err)
	}
	err = s.Write(t.Context(), batch(1))
	checkUnavailable(t, "write", err, redis.ErrDown)
	if strings.Contains(err.Error(), "asked again every") {
		t.Errorf("the first write: err = %v, want the error of its timeout", err)
	}
	checkRefused("the next write", s.Write(t.Context(), batch(1)))
}

func TestFrozenServerIsUnavailable(t *testing.T) {
	server := storetest.StartRedis(t)
	s := openWithShortTimeout(t, server.URL())
	eventually(t, "write", func() error { return s.Write(t.Context(), batch(0)) })
	server.Freeze(t)
	checkBreakerOpens(t, server.URL())
	server.Thaw(t)
	// The server may execute commands from before the freeze after the thaw. A repeated write is stored once.
	for n := range 5 {
		eventually(t, "write", func() error { return s.Write(t.Context(), batch(n)) })
	}
	checkStored(t, s, 5)
	if _, ok, err := s.Session(t.Context(), "default", sid(3)); !ok || err != nil {
		t.Errorf("a look-up after the thaw: found = %v, err = %v, want true, nil", ok, err)
	}
}

func TestPausedServerIsUnavailable(t *testing.T) {
	server := storetest.StartRedis(t)
	s := openWithShortTimeout(t, server.URL())
	eventually(t, "write", func() error { return s.Write(t.Context(), batch(0)) })
	server.Must(t, "CLIENT", "PAUSE", "5000", "ALL")
	checkBreakerOpens(t, server.URL())
	eventually(t, "write", func() error { return s.Write(t.Context(), batch(1)) })
	checkStored(t, s, 2)
}

func TestSilentServerIsUnavailable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	url := "redis://" + l.Addr().String() // the kernel accepts connections, and no process responds
	checkBreakerOpens(t, url)
	s := openWithShortTimeout(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), shortTimeout)
	defer cancel()
	if err := s.Ping(ctx); err == nil {
		t.Error("Ping of a silent server succeeded, want an error")
	}
}

func TestClosedPortIsUnavailable(t *testing.T) {
	s := openWithLongTimeout(t, "redis://127.0.0.1:"+storetest.FreePort(t))
	checkUnavailable(t, "ping", s.Ping(t.Context()), redis.ErrDown)
	checkUnavailable(t, "write", s.Write(t.Context(), batch(1)), redis.ErrDown)
	_, err := s.Epoch(t.Context())
	checkUnavailable(t, "epoch", err, redis.ErrDown)
}

func TestKilledServerChangesTheEpoch(t *testing.T) {
	server := storetest.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	s := openWithLongTimeout(t, server.URL())
	if err := s.Write(t.Context(), batch(0)); err != nil {
		t.Fatal(err)
	}
	before, err := s.Epoch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if second, err := s.Epoch(t.Context()); second != before || err != nil {
		t.Errorf("epoch without a restart: got %s, error %v, want %s", second, err, before)
	}
	server.Kill()
	checkUnavailable(t, "write", s.Write(t.Context(), batch(1)), redis.ErrDown)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "write", func() error { return s.Write(t.Context(), batch(1)) }) // the restarted server does not know the scripts
	checkStored(t, s, 2)
	if after, err := s.Epoch(t.Context()); after == before || err != nil {
		t.Errorf("epoch after a restart: got %s, error %v, want another than %s", after, err, before)
	}
}

func TestFlushedServerChangesTheEpoch(t *testing.T) {
	server := storetest.StartRedis(t)
	s := openWithLongTimeout(t, server.URL())
	if err := s.Write(t.Context(), batch(0)); err != nil {
		t.Fatal(err)
	}
	before, err := s.Epoch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	server.Must(t, "FLUSHALL")
	if after, err := s.Epoch(t.Context()); after == before || err != nil {
		t.Errorf("epoch after FLUSHALL: got %s, error %v, want another than %s", after, err, before)
	}
	for n := range 2 { // the lost batch is written again
		if err := s.Write(t.Context(), batch(n)); err != nil {
			t.Fatal(err)
		}
	}
	checkStored(t, s, 2)
}

func TestFlushedScriptsAreSentAgain(t *testing.T) {
	server := storetest.StartRedis(t)
	s := openWithLongTimeout(t, server.URL())
	for n := range 4 {
		server.Must(t, "SCRIPT", "FLUSH")
		if err := s.Write(t.Context(), batch(n)); err != nil {
			t.Fatal(err)
		}
		server.Must(t, "SCRIPT", "FLUSH")
		ok, err := s.Settle(t.Context(), []session.Settlement{{Tenant: "default", ID: sid(n), Deltas: []trial.Delta{{Key: trial.Key{Field: "n"}, Value: 1}}}})
		if err != nil || !ok[0] {
			t.Fatalf("Settle: got accepted %v, error %v, want true, nil", ok, err)
		}
	}
	checkStored(t, s, 4)
	if c, err := s.Counters(t.Context(), "default"); err != nil || len(c) != 1 || c[0].Value != 4 {
		t.Errorf("counters after four settlements: got %v, error %v, want one of value 4", c, err)
	}
}

func TestFullServerRefusesWritesOnly(t *testing.T) {
	server := storetest.StartRedis(t, "--maxmemory-policy", "noeviction")
	s := openWithLongTimeout(t, server.URL())
	if err := s.Write(t.Context(), batch(0)); err != nil {
		t.Fatal(err)
	}
	server.Must(t, "CONFIG", "SET", "maxmemory", "1")
	checkUnavailable(t, "write", s.Write(t.Context(), batch(1)), redis.ErrFull)
	if _, ok, err := s.Session(t.Context(), "default", sid(0)); !ok || err != nil {
		t.Errorf("Session of a full Redis: found = %v, err = %v, want true, nil", ok, err)
	}
	if ok, err := s.Forget(t.Context(), "default", sid(0)); !ok || err != nil {
		t.Errorf("Forget in a full Redis: found = %v, err = %v, want true, nil", ok, err)
	}
	server.Must(t, "CONFIG", "SET", "maxmemory", "0")
	for n := range 2 {
		if err := s.Write(t.Context(), batch(n)); err != nil {
			t.Fatal(err)
		}
	}
	m, err := s.Stats(t.Context())
	if err != nil || m["sessions"] != 2 || m["exchanges"] != 2 {
		t.Errorf("statistics: got %v, error %v, want 2 sessions and 2 exchanges", m, err)
	}
}

// Calls return ErrCorrupt for keys with a foreign type, and not ErrUnavailable, because a repetition would not help.
func TestForeignKeysAreCorrupt(t *testing.T) {
	server := storetest.StartRedis(t)
	s := open(t, server.URL())
	if err := s.Write(t.Context(), batch(1)); err != nil {
		t.Fatal(err)
	}
	keys, _ := server.Must(t, "KEYS", "*").([]any)
	for _, k := range keys {
		key, _ := k.(string)
		server.Must(t, "DEL", key)
		server.Must(t, "LPUSH", key, "x")
	}
	_, err := s.Exchanges(t.Context(), "default", sid(1))
	_, _, rowErr := s.Session(t.Context(), "default", sid(1))
	for call, err := range map[string]error{"Write": s.Write(t.Context(), batch(1)), "Session": rowErr, "Exchanges": err} {
		if !errors.Is(err, redis.ErrCorrupt) || errors.Is(err, session.ErrUnavailable) {
			t.Errorf("%s of a key with a foreign type: err = %v, want redis.ErrCorrupt and not session.ErrUnavailable", call, err)
		}
	}
}

func TestReadOnlyReplicaIsBusy(t *testing.T) {
	server := storetest.StartRedis(t)
	s := openWithLongTimeout(t, server.URL())
	if err := s.Write(t.Context(), batch(0)); err != nil {
		t.Fatal(err)
	}
	server.Must(t, "REPLICAOF", "127.0.0.1", "1")
	checkUnavailable(t, "write", s.Write(t.Context(), batch(1)), redis.ErrBusy)
	server.Must(t, "REPLICAOF", "NO", "ONE")
	eventually(t, "write", func() error { return s.Write(t.Context(), batch(1)) })
	checkStored(t, s, 2)
}

func TestWrongPasswordIsAnAuthError(t *testing.T) {
	const right, wrong = "right-canary-77", "wrong-canary-78"
	server := storetest.StartRedis(t, "--requirepass", right)
	var reports []string
	for url, kind := range map[string]error{
		"redis://:" + right + "@" + server.Addr:        nil,
		"redis://default:" + right + "@" + server.Addr: nil,
		"redis://:" + wrong + "@" + server.Addr:        redis.ErrAuth,
		"redis://nobody:" + wrong + "@" + server.Addr:  redis.ErrAuth,
		server.URL(): redis.ErrAuth,
	} {
		s := openWithLongTimeout(t, url)
		err := errors.Join(s.Ping(t.Context()), s.Write(t.Context(), batch(1)))
		if !errors.Is(err, kind) {
			t.Errorf("Ping and Write with address %s: err = %v, want %v", url, err, kind)
		}
		if err != nil {
			reports = append(reports, err.Error())
		}
	}
	if text := strings.Join(reports, "\n"); strings.Contains(text, "canary") {
		t.Errorf("the errors contain a password, want none:\n%s", text)
	}
}

func TestMissingPermissionNamesTheRemedy(t *testing.T) {
	server := storetest.StartRedis(t)
	server.Must(t, "ACL", "SETUSER", "app", "on", ">secret", "~precept:*", "&precept:*", "+@all", "-hset")
	s := openWithLongTimeout(t, "redis://app:secret@"+server.Addr)
	err := s.Write(t.Context(), batch(1))
	checkUnavailable(t, "write", err, redis.ErrACL)
	if err != nil && !strings.Contains(err.Error(), "docs/OPERATIONS.md") {
		t.Errorf("a refused command: err = %v, want an error that names docs/OPERATIONS.md", err)
	}
	server.Must(t, "ACL", "SETUSER", "app", "+hset")
	if err := s.Write(t.Context(), batch(1)); err != nil {
		t.Fatal(err)
	}
	checkStored(t, s, 1)
}

// The permissions in docs/OPERATIONS.md suffice for the conformance suite.
func TestDocumentedPermissionsSuffice(t *testing.T) {
	server := storetest.StartRedis(t)
	server.Must(t, append([]string{"ACL", "SETUSER", "precept", "on", ">secret", "~precept:*", "&precept:*"}, permissions(t)...)...)
	storetest.Run(t, opener(func(prefix string) string {
		return "redis://precept:secret@" + server.Addr + "/?prefix=precept:" + prefix
	}))
}
