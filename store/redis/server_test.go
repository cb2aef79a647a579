package redis_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"precept/bandit/trial"
	"precept/internal/session"
	"precept/store/redis"
	"precept/store/storetest"
)

// newMaxima returns n maxima for RaiseMaxima, which sends at most 200 of them in one script call.
func newMaxima(n int) (list []trial.Delta) {
	for i := range n {
		list = append(list, trial.Delta{Key: trial.Key{Scope: fmt.Sprint("arm", i), Field: "max"}, Value: int64(i + 1)})
	}
	return list
}

// The server in this test replies only after it has received all script calls, so a client that waited for each reply
// would time out.
func TestScriptCallsShareOneRoundTrip(t *testing.T) {
	const scriptCalls = 3
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		in, waiting := bufio.NewReader(c), -1 // number of script calls without a reply; begins at -1, because the first call only reads the shard count
		for {
			name, _, err := readCommand(in)
			if err != nil {
				return
			}
			switch name {
			case "HELLO":
				_, _ = c.Write([]byte("-ERR unknown command 'HELLO'\r\n"))
			case "EVALSHA":
				if waiting++; waiting == 0 {
					_, _ = c.Write([]byte(":256\r\n"))
				} else if waiting == scriptCalls {
					_, _ = c.Write([]byte(strings.Repeat(":1\r\n", scriptCalls)))
				}
			default:
				_, _ = c.Write([]byte(":1\r\n"))
			}
		}
	}()
	s := openWithLongTimeout(t, "redis://"+l.Addr().String())
	if err := s.RaiseMaxima(t.Context(), testTenant, newMaxima(200*scriptCalls)); err != nil {
		t.Errorf("RaiseMaxima with a server that replies after the last call: got error %v, want none", err)
	}
	_ = s.Close()
	_ = l.Close()
	<-done
}

func TestScriptSourceIsSentOnlyIfUnknown(t *testing.T) {
	server := storetest.StartRedis(t)
	s := open(t, server.URL())
	if _, err := s.Tenants(t.Context()); err != nil { // so that the store has already read the shard count
		t.Fatal(err)
	}
	countCalls := func() (digests, sources int) {
		t.Helper()
		stop := server.Monitor(t)
		if err := s.RaiseMaxima(t.Context(), testTenant, newMaxima(450)); err != nil {
			t.Fatal(err)
		}
		for _, line := range stop() {
			digests += strings.Count(strings.ToLower(line), `] "evalsha"`)
			sources += strings.Count(strings.ToLower(line), `] "eval"`)
		}
		return digests, sources
	}
	for i, want := range [][2]int{{5, 1}, {3, 0}, {5, 1}} { // if the server does not know the script: three refused calls by digest, then one with the source and two more by digest
		if i == 2 {
			server.MustDo(t, "SCRIPT", "FLUSH")
		}
		if digests, sources := countCalls(); [2]int{digests, sources} != want {
			t.Errorf("script calls in round %d: got %d by digest and %d with the source, want %v", i, digests, sources, want)
		}
	}
	list, err := s.Maxima(t.Context(), testTenant)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 450 {
		t.Errorf("Maxima = %+v, want 450 deltas", list)
	}
}

func TestCallsDuringBlockingScriptReturnErrBusy(t *testing.T) {
	server := storetest.StartRedis(t, "--lua-time-limit", "5")
	s := openWithLongTimeout(t, server.URL())
	if err := s.Write(t.Context(), newBatch(0)); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = server.Do("EVAL", "while true do end", "0")
	}()
	defer func() { <-ended }()
	err := waitForError(t, "write", redis.ErrBusy, func() error { return s.Write(t.Context(), newBatch(1)) })
	if !strings.Contains(err.Error(), "BUSY") {
		t.Errorf("Write during an endless script: got error %v, want an error with \"BUSY\"", err)
	}
	_, _, err = s.Session(t.Context(), testTenant, sessionID(0))
	checkUnavailable(t, "Session", err, redis.ErrBusy)
	server.MustDo(t, "SCRIPT", "KILL")
	eventually(t, "write", func() error { return s.Write(t.Context(), newBatch(1)) })
	checkStored(t, s, 2)
}

func TestOversizedWriteFails(t *testing.T) {
	server := storetest.StartRedis(t, "--proto-max-bulk-len", "1mb")
	s := openWithLongTimeout(t, server.URL())
	large := newBatch(1)
	large.Rows[0].Data = make([]byte, 2<<20)
	if err := s.Write(t.Context(), large); err == nil {
		t.Error("Write(value above the server limit) error = nil, want an error")
	}
	eventually(t, "the next write", func() error { return s.Write(t.Context(), newBatch(2)) })
	if _, ok, err := s.Session(t.Context(), testTenant, sessionID(2)); err != nil {
		t.Error(err)
	} else if !ok {
		t.Error("Session after the next write: ok = false, want true")
	}
	if _, ok, err := s.Session(t.Context(), testTenant, sessionID(1)); err != nil {
		t.Error(err)
	} else if ok {
		t.Error("Session(session of the refused write): ok = true, want false")
	}
}

func TestRowTooLargeForAnyServerIsNotSent(t *testing.T) {
	server := storetest.StartRedis(t)
	s := openWithLongTimeout(t, server.URL())
	row := newBatch(1)
	row.Rows[0].Data = make([]byte, 64<<20+1)
	if err := s.Write(t.Context(), row); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("Write(oversized row) error = %v, want session.ErrInvalid", err)
	} else if !strings.Contains(err.Error(), sessionID(1).String()) {
		t.Errorf("Write(oversized row): error = %q, want substring %q", err.Error(), sessionID(1).String())
	}
	if keys := listKeys(t, server, "*"); len(keys) > 0 {
		t.Errorf("stored keys: got %q, want none", keys)
	}
}

// Redis may evict the row of an open session. DueSessions must skip this session and return the other sessions.
func TestDueSessionsSkipsEvictedSession(t *testing.T) {
	server := storetest.StartRedis(t)
	s := open(t, server.URL())
	for n := range 6 {
		if err := s.Write(t.Context(), newBatch(n)); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 3 { // delete the rows of the three oldest sessions
		for _, key := range listKeys(t, server, "*:s:"+sessionID(n).String()) {
			server.MustDo(t, "DEL", key)
		}
	}
	checkDue := func(after session.Row, limit int, want []int) session.Row {
		t.Helper()
		list, err := s.DueSessions(t.Context(), atSecond(60), after, limit)
		var got, wanted []string
		for _, r := range list {
			got = append(got, r.ID.String())
		}
		for _, n := range want {
			wanted = append(wanted, sessionID(n).String())
		}
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(got) != fmt.Sprint(wanted) {
			t.Fatalf("DueSessions = %v, want %v", got, wanted)
		}
		return list[len(list)-1]
	}
	last := checkDue(session.Row{}, 2, []int{3, 4})
	checkDue(last, 2, []int{5})
	checkDue(session.Row{}, 100, []int{3, 4, 5})
	if list, err := s.ListSessions(t.Context(), testTenant, session.ListRange{Limit: 10}); err != nil {
		t.Error(err)
	} else if len(list.List) != 3 {
		t.Errorf("ListSessions: List = %+v, want 3 items", list.List)
	}
	if ok, err := s.Forget(t.Context(), testTenant, sessionID(0)); err != nil {
		t.Error(err)
	} else if !ok {
		t.Error("Forget(evicted session): ok = false, want true")
	}
	if err := s.Write(t.Context(), newBatch(1)); err != nil {
		t.Fatal(err)
	}
	checkDue(session.Row{}, 100, []int{1, 3, 4, 5})
	accepted, err := s.Settle(t.Context(), []session.Settlement{{Tenant: testTenant, ID: sessionID(1)}, {Tenant: testTenant, ID: sessionID(2)}})
	if err != nil {
		t.Fatal(err)
	}
	if !accepted[0] {
		t.Error("Settle(two sessions): accepted[0] = false, want true")
	}
	if !accepted[1] {
		t.Error("Settle(two sessions): accepted[1] = false, want true")
	}
	checkDue(session.Row{}, 100, []int{3, 4, 5})
}

func TestCanceledCallDoesNotOpenTheBreaker(t *testing.T) {
	server := storetest.StartRedis(t)
	s := openWithTimeout(t, server.URL(), 2*time.Second)
	if err := s.Write(t.Context(), newBatch(1)); err != nil {
		t.Fatal(err)
	}
	server.Freeze(t)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Millisecond, cancel)
	for range 5 {
		_, _, err := s.Session(ctx, testTenant, sessionID(1))
		writeErr := s.Write(ctx, newBatch(2))
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Session and Write with a canceled context: error = %v, want context.Canceled", err)
		}
		if !errors.Is(writeErr, context.Canceled) {
			t.Errorf("Session and Write with a canceled context: error = %v, want context.Canceled", writeErr)
		}
	}
	server.Thaw(t)
	if _, ok, err := s.Session(t.Context(), testTenant, sessionID(1)); err != nil {
		t.Error(err)
	} else if !ok {
		t.Error("Session after the thaw: ok = false, want true")
	}
	if err := s.Write(t.Context(), newBatch(2)); err != nil {
		t.Errorf("Write after the thaw: got error %v, want none", err)
	}
}

// An open circuit breaker permits one call per second, the probe. The breaker must stay open after a canceled probe,
// because this probe does not show whether the server is available.
func TestCanceledProbeDoesNotCloseTheBreaker(t *testing.T) {
	server := storetest.StartRedis(t)
	now := time.Now()
	s, err := redis.Open(redis.Options{URL: server.URL(), Now: func() time.Time { return now }, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	server.Freeze(t)
	defer server.Thaw(t)
	checkUnavailable(t, "write", s.Write(t.Context(), newBatch(1)), redis.ErrDown)
	now = now.Add(2 * time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Millisecond, cancel)
	if err := s.Write(ctx, newBatch(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled probe: got error %v, want context.Canceled", err)
	}
	if err := s.Write(t.Context(), newBatch(1)); !errors.Is(err, redis.ErrDown) {
		t.Errorf("Write after a canceled probe: error = %v, want redis.ErrDown", err)
	} else if !strings.Contains(err.Error(), "tries again every") {
		t.Errorf(`Write after a canceled probe: error = %q, want substring "tries again every"`, err.Error())
	}
}
