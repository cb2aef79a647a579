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
	shortTimeout = 300 * time.Millisecond
	longTimeout  = 20 * time.Second // so long that it does not expire on a busy machine
)

func openWithLongTimeout(t *testing.T, url string) *redis.Store {
	t.Helper()
	return openWithTimeout(t, url, longTimeout)
}

func openWithShortTimeout(t *testing.T, url string) *redis.Store {
	t.Helper()
	return openWithTimeout(t, url, shortTimeout)
}

func openWithTimeout(t *testing.T, url string, limit time.Duration) *redis.Store {
	t.Helper()
	s, err := redis.Open(redis.Options{URL: url, Now: time.Now, Timeout: limit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func sessionID(n int) (id session.ID) {
	copy(id[:], fmt.Sprintf("%08x-session", n*0x9e3779b))
	return id
}

// newBatch returns a batch with the row of session n and one of its exchanges.
func newBatch(n int) session.Batch {
	at := time.Date(2031, 5, 6, 7, 8, n, 0, time.UTC)
	id := sessionID(n)
	return session.Batch{
		Rows:      []session.Row{{Tenant: "default", ID: id, Started: at, Seen: at, Data: []byte("{}")}},
		Exchanges: []sample.Exchange{{ID: fmt.Sprint("x", n), Tenant: "default", Session: id.String(), At: at, Outcome: sample.Complete}},
	}
}

// checkUnavailable checks that err is both wantErr and session.ErrUnavailable.
func checkUnavailable(t *testing.T, call string, err, wantErr error) {
	t.Helper()
	if !errors.Is(err, session.ErrUnavailable) {
		t.Errorf("%s error = %v, want session.ErrUnavailable", call, err)
	}
	if !errors.Is(err, wantErr) {
		t.Errorf("%s error = %v, want %v", call, err, wantErr)
	}
	if errors.Is(err, session.ErrInvalid) {
		t.Errorf("%s error = %v, want another error than session.ErrInvalid", call, err)
	}
}

// eventually repeats fn until it succeeds, for at most a minute.
func eventually(t *testing.T, subject string, fn func() error) {
	t.Helper()
	err := errors.New("not called")
	for end := time.Now().Add(time.Minute); err != nil && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		err = fn()
	}
	if err != nil {
		t.Fatalf("%s: timed out after a minute, last error: %v", subject, err)
	}
}

// checkStored fails the test unless the wanted number of sessions is stored, each with one exchange.
func checkStored(t *testing.T, s *redis.Store, want int64) {
	t.Helper()
	var m map[string]int64
	eventually(t, "count", func() (err error) {
		m, err = s.Stats(t.Context())
		return err
	})
	if m["sessions"] != want {
		t.Errorf(`Stats["sessions"] = %d, want %d`, m["sessions"], want)
	}
	if m["exchanges"] != want {
		t.Errorf(`Stats["exchanges"] = %d, want %d`, m["exchanges"], want)
	}
	if m["exchanges_ever"] != want {
		t.Errorf(`Stats["exchanges_ever"] = %d, want %d`, m["exchanges_ever"], want)
	}
}

// waitForError calls fn until the error is wantErr. On a busy machine, the first error may be a timeout.
func waitForError(t *testing.T, subject string, wantErr error, fn func() error) (err error) {
	t.Helper()
	eventually(t, subject, func() error {
		if err = fn(); !errors.Is(err, wantErr) {
			return fmt.Errorf("got error %w, want %w", err, wantErr)
		}
		return nil
	})
	checkUnavailable(t, subject, err, wantErr)
	return err
}

// checkBreakerOpens calls a server that does not respond. After three look-ups and a write have timed out, later calls
// must fail without waiting. The store's clock stands still, so the breaker permits no probe.
func checkBreakerOpens(t *testing.T, url string) {
	t.Helper()
	now := time.Now()
	s, err := redis.Open(redis.Options{URL: url, Now: func() time.Time { return now }, Timeout: shortTimeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	checkRefused := func(call string, err error) {
		t.Helper()
		if !errors.Is(err, redis.ErrDown) {
			t.Fatalf("%s with an open breaker: error = %v, want redis.ErrDown", call, err)
		}
		if !strings.Contains(err.Error(), "tries again every") {
			t.Fatalf(`%s with an open breaker: error = %q, want substring "tries again every"`, call, err.Error())
		}
	}
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Millisecond)
		_, _, err := s.Session(ctx, "default", sessionID(1))
		cancel()
		timedOut := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, redis.ErrDown)
		if !timedOut {
			t.Error("Session before the breaker opens: timedOut = false, want true")
		}
		if strings.Contains(err.Error(), "tries again every") {
			t.Errorf(`Session before the breaker opens: error = %q, want no "tries again every"`, err.Error())
		}
	}
	for range 200 {
		_, _, err := s.Session(t.Context(), "default", sessionID(1))
		checkRefused("Session", err)
	}
	err = s.Write(t.Context(), newBatch(1))
	checkUnavailable(t, "first Write", err, redis.ErrDown)
	if strings.Contains(err.Error(), "tries again every") {
		t.Errorf("first Write: got error %v, want a timeout error", err)
	}
	checkRefused("second Write", s.Write(t.Context(), newBatch(1)))
}

func TestFrozenServerIsUnavailable(t *testing.T) {
	server := storetest.StartRedis(t)
	s := openWithShortTimeout(t, server.URL())
	eventually(t, "write", func() error { return s.Write(t.Context(), newBatch(0)) })
	server.Freeze(t)
	checkBreakerOpens(t, server.URL())
	server.Thaw(t)
	// After the thaw, the server may still execute commands that it received during the freeze.
	for n := range 5 {
		eventually(t, "write", func() error { return s.Write(t.Context(), newBatch(n)) })
	}
	checkStored(t, s, 5)
	eventually(t, "read of a session", func() error {
		_, ok, err := s.Session(t.Context(), "default", sessionID(3))
		if err == nil && !ok {
			t.Error("Session after the thaw: found = false, want true")
		}
		return err
	})
}

func TestPausedServerIsUnavailable(t *testing.T) {
	server := storetest.StartRedis(t)
	s := openWithShortTimeout(t, server.URL())
	eventually(t, "write", func() error { return s.Write(t.Context(), newBatch(0)) })
	server.MustDo(t, "CLIENT", "PAUSE", "5000", "ALL")
	checkBreakerOpens(t, server.URL())
	eventually(t, "write", func() error { return s.Write(t.Context(), newBatch(1)) })
	checkStored(t, s, 2)
}

func TestSilentServerIsUnavailable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	url := "redis://" + l.Addr().String() // the kernel accepts connections to this address, but no process responds
	checkBreakerOpens(t, url)
	s := openWithShortTimeout(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), shortTimeout)
	defer cancel()
	if err := s.Ping(ctx); err == nil {
		t.Error("Ping(silent server) error = nil, want an error")
	}
}

func TestClosedPortIsUnavailable(t *testing.T) {
	s := openWithLongTimeout(t, "redis://127.0.0.1:"+storetest.FreePort(t))
	checkUnavailable(t, "ping", s.Ping(t.Context()), redis.ErrDown)
	checkUnavailable(t, "write", s.Write(t.Context(), newBatch(1)), redis.ErrDown)
	_, err := s.Epoch(t.Context())
	checkUnavailable(t, "epoch", err, redis.ErrDown)
}

func TestKilledServerChangesTheEpoch(t *testing.T) {
	server := storetest.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	s := openWithLongTimeout(t, server.URL())
	if err := s.Write(t.Context(), newBatch(0)); err != nil {
		t.Fatal(err)
	}
	before, err := s.Epoch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if second, err := s.Epoch(t.Context()); err != nil {
		t.Error(err)
	} else if second != before {
		t.Errorf("Epoch without a restart = %q, want %q", second, before)
	}
	server.Kill()
	checkUnavailable(t, "write", s.Write(t.Context(), newBatch(1)), redis.ErrDown)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "write", func() error { return s.Write(t.Context(), newBatch(1)) }) // the restarted server has lost the scripts, and Write sends them again
	checkStored(t, s, 2)
	if after, err := s.Epoch(t.Context()); err != nil {
		t.Error(err)
	} else if after == before {
		t.Errorf("Epoch after a restart = %q, want a new one", after)
	}
}

func TestFlushedServerChangesTheEpoch(t *testing.T) {
	server := storetest.StartRedis(t)
	s := openWithLongTimeout(t, server.URL())
	if err := s.Write(t.Context(), newBatch(0)); err != nil {
		t.Fatal(err)
	}
	before, err := s.Epoch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	server.MustDo(t, "FLUSHALL")
	if after, err := s.Epoch(t.Context()); err != nil {
		t.Error(err)
	} else if after == before {
		t.Errorf("Epoch after FLUSHALL = %q, want a new one", after)
	}
	for n := range 2 { // the first of these batches was lost and is written again
		if err := s.Write(t.Context(), newBatch(n)); err != nil {
			t.Fatal(err)
		}
	}
	checkStored(t, s, 2)
}

func TestScriptsAreResentAfterScriptFlush(t *testing.T) {
	server := storetest.StartRedis(t)
	s := openWithLongTimeout(t, server.URL())
	for n := range 4 {
		server.MustDo(t, "SCRIPT", "FLUSH")
		if err := s.Write(t.Context(), newBatch(n)); err != nil {
			t.Fatal(err)
		}
		server.MustDo(t, "SCRIPT", "FLUSH")
		ok, err := s.Settle(t.Context(), []session.Settlement{{Tenant: "default", ID: sessionID(n), Deltas: []trial.Delta{{Key: trial.Key{Field: "n"}, Value: 1}}}})
		if err != nil {
			t.Fatal(err)
		}
		if !ok[0] {
			t.Fatal("Settle: ok[0] = false, want true")
		}
	}
	checkStored(t, s, 4)
	if c, err := s.Counters(t.Context(), "default"); err != nil {
		t.Error(err)
	} else if len(c) != 1 {
		t.Errorf("Counters after four settlements = %+v, want 1 delta", c)
	} else if c[0].Value != 4 {
		t.Errorf("Counters after four settlements: Value = %d, want 4", c[0].Value)
	}
}

func TestFullServerRefusesOnlyWrites(t *testing.T) {
	server := storetest.StartRedis(t, "--maxmemory-policy", "noeviction")
	s := openWithLongTimeout(t, server.URL())
	if err := s.Write(t.Context(), newBatch(0)); err != nil {
		t.Fatal(err)
	}
	server.MustDo(t, "CONFIG", "SET", "maxmemory", "1")
	checkUnavailable(t, "write", s.Write(t.Context(), newBatch(1)), redis.ErrFull)
	if _, ok, err := s.Session(t.Context(), "default", sessionID(0)); err != nil {
		t.Error(err)
	} else if !ok {
		t.Error("Session on a full server: ok = false, want true")
	}
	if ok, err := s.Forget(t.Context(), "default", sessionID(0)); err != nil {
		t.Error(err)
	} else if !ok {
		t.Error("Forget on a full server: ok = false, want true")
	}
	server.MustDo(t, "CONFIG", "SET", "maxmemory", "0")
	for n := range 2 {
		if err := s.Write(t.Context(), newBatch(n)); err != nil {
			t.Fatal(err)
		}
	}
	m, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if m["sessions"] != 2 {
		t.Errorf(`Stats["sessions"] = %d, want 2`, m["sessions"])
	}
	if m["exchanges"] != 2 {
		t.Errorf(`Stats["exchanges"] = %d, want 2`, m["exchanges"])
	}
}

// A retry does not help against a key of the wrong type.
func TestWrongKeyTypeReturnsErrCorrupt(t *testing.T) {
	server := storetest.StartRedis(t)
	s := open(t, server.URL())
	if err := s.Write(t.Context(), newBatch(1)); err != nil {
		t.Fatal(err)
	}
	keys, _ := server.MustDo(t, "KEYS", "*").([]any)
	for _, k := range keys {
		key, _ := k.(string)
		server.MustDo(t, "DEL", key)
		server.MustDo(t, "LPUSH", key, "x")
	}
	_, err := s.Exchanges(t.Context(), "default", sessionID(1))
	_, _, rowErr := s.Session(t.Context(), "default", sessionID(1))
	for call, err := range map[string]error{"Write": s.Write(t.Context(), newBatch(1)), "Session": rowErr, "Exchanges": err} {
		if !errors.Is(err, redis.ErrCorrupt) {
			t.Errorf("%s with a wrong key type: error = %v, want redis.ErrCorrupt", call, err)
		}
		if errors.Is(err, session.ErrUnavailable) {
			t.Errorf("%s with a wrong key type: error = %v, want another error than session.ErrUnavailable", call, err)
		}
	}
}

func TestWriteToReadOnlyReplicaReturnsErrBusy(t *testing.T) {
	server := storetest.StartRedis(t)
	s := openWithLongTimeout(t, server.URL())
	if err := s.Write(t.Context(), newBatch(0)); err != nil {
		t.Fatal(err)
	}
	server.MustDo(t, "REPLICAOF", "127.0.0.1", "1")
	checkUnavailable(t, "write", s.Write(t.Context(), newBatch(1)), redis.ErrBusy)
	server.MustDo(t, "REPLICAOF", "NO", "ONE")
	eventually(t, "write", func() error { return s.Write(t.Context(), newBatch(1)) })
	checkStored(t, s, 2)
}

func TestWrongPasswordReturnsErrAuth(t *testing.T) {
	const right, wrong = "right-canary-77", "wrong-canary-78"
	server := storetest.StartRedis(t, "--requirepass", right)
	var reports []string
	for url, wantErr := range map[string]error{
		"redis://:" + right + "@" + server.Addr:        nil,
		"redis://default:" + right + "@" + server.Addr: nil,
		"redis://:" + wrong + "@" + server.Addr:        redis.ErrAuth,
		"redis://nobody:" + wrong + "@" + server.Addr:  redis.ErrAuth,
		server.URL(): redis.ErrAuth,
	} {
		s := openWithLongTimeout(t, url)
		err := errors.Join(s.Ping(t.Context()), s.Write(t.Context(), newBatch(1)))
		if !errors.Is(err, wantErr) {
			t.Errorf("Ping and Write with URL %s: got error %v, want %v", url, err, wantErr)
		}
		if err != nil {
			reports = append(reports, err.Error())
		}
	}
	if text := strings.Join(reports, "\n"); strings.Contains(text, "canary") {
		t.Errorf("the errors contain a password:\n%s", text)
	}
}

func TestWrongAddressErrorNamesTheRemedy(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t, "--databases", "1", "--rename-command", "EVALSHA", "")
	secrets := storetest.NewTLSFiles(t)
	_, tlsAddr := storetest.StartRedisTLS(t, secrets, "no")
	for url, want := range map[string]string{
		server.URL():                                    "precept needs this command",
		server.URL() + "/1":                             "such as /0",
		server.URL() + "?cluster=true":                  "remove cluster=true from store.url",
		"redis-sentinel://" + server.Addr + "?master=m": "the server is not a Sentinel",
		storetest.StartCluster(t).Nodes[0].URL():        "add cluster=true to store.url",
		"rediss://" + server.Addr:                       "write redis:// instead of rediss://",
		"redis://" + tlsAddr:                            "write rediss:// in store.url",
	} {
		s := openWithLongTimeout(t, url)
		eventually(t, url, func() error {
			err := s.Write(t.Context(), newBatch(1))
			checkUnavailable(t, "Write to "+url, err, session.ErrUnavailable)
			if err == nil || !strings.Contains(err.Error(), want) {
				return fmt.Errorf("got error %w, want an error with %q", err, want)
			}
			return nil
		})
	}
}

func TestMissingPermissionErrorNamesTheRemedy(t *testing.T) {
	server := storetest.StartRedis(t)
	server.MustDo(t, "ACL", "SETUSER", "app", "on", ">secret", "~precept:*", "&precept:*", "+@all", "-hset")
	s := openWithLongTimeout(t, "redis://app:secret@"+server.Addr)
	err := s.Write(t.Context(), newBatch(1))
	checkUnavailable(t, "write", err, redis.ErrACL)
	if err != nil && !strings.Contains(err.Error(), "docs/OPERATIONS.md") {
		t.Errorf("Write without the permission for hset: got error %v, want an error that names docs/OPERATIONS.md", err)
	}
	server.MustDo(t, "ACL", "SETUSER", "app", "+hset")
	if err := s.Write(t.Context(), newBatch(1)); err != nil {
		t.Fatal(err)
	}
	checkStored(t, s, 1)
}

func TestStoreContractWithDocumentedPermissions(t *testing.T) {
	server := storetest.StartRedis(t)
	server.MustDo(t, append([]string{"ACL", "SETUSER", "precept", "on", ">secret", "~precept:*", "&precept:*"}, permissions(t)...)...)
	storetest.Run(t, opener(func(prefix string) string {
		return "redis://precept:secret@" + server.Addr + "/?prefix=precept:" + prefix
	}))
}
