package redis_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"precept/bandit/feedback"
	"precept/bandit/trial"
	"precept/inject/bank"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/store/redis"
	"precept/store/storetest"
)

const testTenant = "default"

// storeCall is a call of a store method that a test can repeat.
type storeCall struct {
	name string
	do   func(ctx context.Context, s *redis.Store) (result any, err error)
}

func writeCall(name string, do func(ctx context.Context, s *redis.Store) error) storeCall {
	return storeCall{name: name, do: func(ctx context.Context, s *redis.Store) (any, error) { return nil, do(ctx, s) }}
}

func readCall(name string, do func(ctx context.Context, s *redis.Store) (any, error)) storeCall {
	return storeCall{name: name, do: do}
}

func wrapResult(a any, err error) (any, error) { return a, err }

func wrapTwoResults(a, b any, err error) (any, error) { return []any{a, b}, err }

// fullBatch returns a batch with all kinds of values in two tenants, and with the row of a run.
func fullBatch() session.Batch {
	b := newBatch(1)
	other := newBatch(2)
	for i := range other.Rows {
		other.Rows[i].Tenant = "other"
	}
	for i := range other.Exchanges {
		other.Exchanges[i].Tenant = "other"
	}
	run := session.Record{
		Identity: session.Identity{ID: sessionID(3), Tenant: testTenant, Name: "r", Started: atSecond(3), Seen: atSecond(3)},
		Unit:     session.Unit{IsRun: true},
		OptOut:   session.OptOut{HasStorableSession: true},
	}
	unit, err := run.Row(func(text string) (string, bool) { return text, true })
	if err != nil || !unit.IsUnit {
		panic(fmt.Sprint("run row: got ", unit, ", error ", err))
	}
	b.Rows = append(append(b.Rows, other.Rows...), unit)
	b.Exchanges = append(b.Exchanges, other.Exchanges...)
	b.Echoes = []session.Echo{{Tenant: testTenant, Key: 7, ID: sessionID(1), At: atSecond(1)}, {Tenant: "other", Key: 7, ID: sessionID(2), At: atSecond(2)}}
	b.Samples = []session.StoredSample{{Tenant: testTenant, Agent: "coder", ID: sessionID(1), Sample: sample.Sample{ID: "m1", CreatedAt: atSecond(1)}}}
	b.ReplacedSamples = []session.Ref{{Tenant: testTenant, ID: sessionID(1)}}
	return b
}

func newEntry(id string) feedback.Entry {
	return feedback.Entry{ID: id, At: atSecond(1), Source: "user", Type: "score", Score: 1, Tier: 1}
}

func firstSettlement() []session.Settlement {
	deltas := []trial.Delta{{Key: trial.Key{Scope: "arm", Field: "n", Day: 7}, Value: 3}, {Key: trial.Key{Field: "closed", Day: 7}, Value: 1}}
	return []session.Settlement{{
		Tenant: testTenant, ID: sessionID(1), Deltas: deltas, FeedbackState: 2, To: session.SettledState{Version: 1, Rewarded: true, Reward: 0.5, Tier: 1, AssignmentAtClose: []byte("{}")},
	}}
}

// addingCallCount is the number of calls that add data. They come first in the result of changeCalls.
const addingCallCount = 13

// changeCalls returns calls of all methods that change the store. In the order of the list, each call has an effect.
func changeCalls() []storeCall {
	return []storeCall{
		writeCall("write", func(ctx context.Context, s *redis.Store) error { return s.Write(ctx, fullBatch()) }),
		writeCall("add feedback", func(ctx context.Context, s *redis.Store) error {
			_, err := s.AddFeedback(ctx, testTenant, map[session.ID][]feedback.Entry{sessionID(1): {newEntry("a")}, sessionID(3): {newEntry("b")}})
			return err
		}),
		writeCall("park", func(ctx context.Context, s *redis.Store) error {
			return errors.Join(s.Park(ctx, testTenant, 9, newEntry("p")), s.Park(ctx, testTenant, 10, newEntry("q")))
		}),
		writeCall("unpark", func(ctx context.Context, s *redis.Store) error {
			_, err := s.Unpark(ctx, testTenant, map[session.EchoKey]session.ID{9: sessionID(3), 11: sessionID(1)})
			return err
		}),
		writeCall("settle", func(ctx context.Context, s *redis.Store) error {
			_, err := s.Settle(ctx, firstSettlement())
			return err
		}),
		writeCall("raise maxima", func(ctx context.Context, s *redis.Store) error {
			return s.RaiseMaxima(ctx, testTenant, []trial.Delta{{Key: trial.Key{Scope: "arm", Field: "max", Day: 7}, Value: 5}})
		}),
		writeCall("put priors", func(ctx context.Context, s *redis.Store) error {
			_, err := s.PutPriors(ctx, testTenant, 0, []byte("priors"))
			return err
		}),
		writeCall("init meta", func(ctx context.Context, s *redis.Store) error {
			_, err := s.InitMeta(ctx, "salt", []byte("s"))
			return err
		}),
		writeCall("set aside", func(ctx context.Context, s *redis.Store) error {
			return s.SetAside(ctx, []session.DeadLetter{{Tenant: "other", ID: sessionID(2), Step: "close", Why: "panic", At: atSecond(4)}})
		}),
		writeCall("write notes", func(ctx context.Context, s *redis.Store) error {
			return s.WriteNotes(ctx, testTenant, map[session.ID][]byte{sessionID(1): []byte("m")}, map[string][]byte{"n": []byte("1")})
		}),
		writeCall("put opt-out marks", func(ctx context.Context, s *redis.Store) error {
			return s.PutOptOutMarks(ctx, map[session.ID]session.OptOutMark{sessionID(5): {Turns: 2, Items: 3}})
		}),
		writeCall("put answer", func(ctx context.Context, s *redis.Store) error {
			return s.PutAnswer(ctx, testTenant, sessionID(1), "name", "text")
		}),
		writeCall("add consultations", func(ctx context.Context, s *redis.Store) error {
			return s.AddConsultations(ctx, "batch", map[string]bank.Consultation{"a": {Count: 2, Last: atSecond(1)}, "b": {Count: 3, Last: atSecond(2)}})
		}),
		writeCall("forget", func(ctx context.Context, s *redis.Store) error {
			_, err := s.Forget(ctx, testTenant, sessionID(3))
			return err
		}),
		writeCall("purge parked", func(ctx context.Context, s *redis.Store) error { _, err := s.PurgeParked(ctx, atSecond(9)); return err }),
		writeCall("readmit", func(ctx context.Context, s *redis.Store) error { _, err := s.Readmit(ctx, 3); return err }),
		writeCall("purge sessions", func(ctx context.Context, s *redis.Store) error {
			_, err := s.PurgeSessions(ctx, atSecond(0))
			return err
		}),
		writeCall("forget tenant", func(ctx context.Context, s *redis.Store) error { _, err := s.ForgetTenant(ctx, "other"); return err }),
	}
}

func readCalls() []storeCall {
	return []storeCall{
		readCall("session", func(ctx context.Context, s *redis.Store) (any, error) {
			return wrapTwoResults(s.Session(ctx, testTenant, sessionID(1)))
		}),
		readCall("find echo", func(ctx context.Context, s *redis.Store) (any, error) {
			return wrapResult(s.FindEcho(ctx, testTenant, []session.EchoKey{7, 8}))
		}),
		readCall("due sessions", func(ctx context.Context, s *redis.Store) (any, error) {
			list, err := s.DueSessions(ctx, atSecond(60), session.Row{}, 10)
			return sortedIDs(list, func(r session.Row) string { return fmt.Sprint(r.Tenant, r.ID, r.Started) }), err
		}),
		readCall("session feedback", func(ctx context.Context, s *redis.Store) (any, error) {
			return wrapTwoResults(s.SessionFeedback(ctx, testTenant, sessionID(1)))
		}),
		readCall("unsettled sessions", func(ctx context.Context, s *redis.Store) (any, error) {
			return wrapResult(s.UnsettledSessions(ctx, 10))
		}),
		readCall("rated open sessions", func(ctx context.Context, s *redis.Store) (any, error) {
			rows, entries, _, err := s.RatedOpenSessions(ctx, testTenant, "", 10)
			return []any{rows, entries}, err
		}),
		readCall("are settled", func(ctx context.Context, s *redis.Store) (any, error) {
			return wrapResult(s.AreSettled(ctx, testTenant, []session.ID{sessionID(1), sessionID(3)}))
		}),
		readCall("settled state", func(ctx context.Context, s *redis.Store) (any, error) {
			return wrapResult(s.SettledState(ctx, testTenant, sessionID(1)))
		}),
		readCall("counters", func(ctx context.Context, s *redis.Store) (any, error) { return wrapResult(s.Counters(ctx, testTenant)) }),
		readCall("maxima", func(ctx context.Context, s *redis.Store) (any, error) { return wrapResult(s.Maxima(ctx, testTenant)) }),
		readCall("priors", func(ctx context.Context, s *redis.Store) (any, error) {
			return wrapTwoResults(s.Priors(ctx, testTenant))
		}),
		readCall("meta", func(ctx context.Context, s *redis.Store) (any, error) { return wrapTwoResults(s.Meta(ctx, "salt")) }),
		readCall("tenants", func(ctx context.Context, s *redis.Store) (any, error) { return wrapResult(s.Tenants(ctx)) }),
		readCall("exchanges", func(ctx context.Context, s *redis.Store) (any, error) {
			list, err := s.Exchanges(ctx, testTenant, sessionID(1))
			return sortedIDs(list, func(x sample.Exchange) string { return x.ID }), err
		}),
		readCall("sample's session", func(ctx context.Context, s *redis.Store) (any, error) {
			return wrapTwoResults(s.SampleSession(ctx, testTenant, "m1"))
		}),
		readCall("all samples", func(ctx context.Context, s *redis.Store) (any, error) {
			var list []session.StoredSample
			err := s.EachSample(ctx, "", time.Time{}, time.Time{}, func(m session.StoredSample) error { list = append(list, m); return nil })
			return list, err
		}),
		readCall("all sessions", func(ctx context.Context, s *redis.Store) (any, error) {
			var list []string
			err := s.EachSession(ctx, "", time.Time{}, time.Time{}, func(r session.Row, a session.SettledState) error {
				list = append(list, fmt.Sprint(r.Tenant, r.ID, a.Version))
				return nil
			})
			slices.Sort(list)
			return list, err
		}),
		readCall("list sessions", func(ctx context.Context, s *redis.Store) (any, error) {
			p, err := s.ListSessions(ctx, testTenant, session.ListRange{Limit: 10})
			return sortedIDs(p.List, func(l session.ListedSession) string { return l.Row.ID.String() }), err
		}),
		readCall("list samples", func(ctx context.Context, s *redis.Store) (any, error) {
			p, err := s.ListSamples(ctx, testTenant, session.ListRange{Limit: 10})
			return sortedIDs(p.List, func(m session.StoredSample) string { return m.Sample.ID }), err
		}),
		readCall("dead letters", func(ctx context.Context, s *redis.Store) (any, error) {
			list, _, err := s.DeadLetters(ctx, 10)
			return sortedIDs(list, func(a session.DeadLetter) string { return a.Tenant + a.Step }), err
		}),
		readCall("count unsampled", func(ctx context.Context, s *redis.Store) (any, error) { return wrapResult(s.CountUnsampled(ctx)) }),
		readCall("stats", func(ctx context.Context, s *redis.Store) (any, error) {
			m, err := s.Stats(ctx)
			delete(m, "bytes")
			return m, err
		}),
		readCall("session note", func(ctx context.Context, s *redis.Store) (any, error) {
			return wrapResult(s.SessionNote(ctx, testTenant, sessionID(1)))
		}),
		readCall("note", func(ctx context.Context, s *redis.Store) (any, error) {
			return wrapResult(s.TenantNote(ctx, testTenant, "n"))
		}),
		readCall("notes", func(ctx context.Context, s *redis.Store) (any, error) {
			var list []string
			err := s.EachNote(ctx, testTenant, "", func(k string, v []byte) error { list = append(list, k+string(v)); return nil })
			return list, err
		}),
		readCall("opt-out mark", func(ctx context.Context, s *redis.Store) (any, error) {
			return wrapTwoResults(s.OptOutMark(ctx, sessionID(5)))
		}),
		readCall("positions", func(ctx context.Context, s *redis.Store) (any, error) {
			m, err := s.Positions(ctx, []string{testTenant})
			return m[testTenant].Counters, err
		}),
		readCall("consultations", func(ctx context.Context, s *redis.Store) (any, error) {
			return wrapResult(s.Consultations(ctx, []string{"a", "b"}))
		}),
		readCall("epoch", func(ctx context.Context, s *redis.Store) (any, error) { return wrapResult(s.Epoch(ctx)) }),
	}
}

func sortedIDs[T any](list []T, getID func(T) string) (out []string) {
	for i := range list {
		out = append(out, getID(list[i]))
	}
	slices.Sort(out)
	return out
}

// openFaulty returns a function that opens a store behind a faultProxy. Each reading advances the store's clock by 10
// seconds, so that the circuit breaker refuses no call.
func openFaulty(t *testing.T) (openStore func(prefix string) *redis.Store, proxy *faultProxy) {
	t.Helper()
	server := storetest.StartRedis(t)
	proxy = newFaultProxy(t, server.Addr)
	t.Cleanup(proxy.close) // this cleanup runs after the cleanups that close the stores
	var seconds atomic.Int64
	now := func() time.Time { return time.Unix(1_900_000_000+10*seconds.Add(1), 0) }
	return func(prefix string) *redis.Store {
		prefix = strings.Map(func(c rune) rune { return max(c, '0') }, prefix) // a prefix must not contain spaces
		s, err := redis.Open(redis.Options{URL: proxy.url() + "?prefix=" + prefix, Now: now, Shards: 2})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}, proxy
}

// readAllData makes all calls of readCalls, and returns the results as text, except for the epoch.
func readAllData(t *testing.T, s *redis.Store) string {
	t.Helper()
	text := ""
	for _, call := range readCalls() {
		if call.name == "epoch" {
			continue
		}
		v, err := call.do(t.Context(), s)
		if err != nil {
			t.Fatalf("call %s: %v", call.name, err)
		}
		text += fmt.Sprintf("%s: %+v\n", call.name, v)
	}
	return text
}

// diffLines returns the lines that occur in only one of the two texts.
func diffLines(got, want string) (out string) {
	for line := range strings.Lines(got) {
		if !strings.Contains(want, line) {
			out += "\nhave " + line
		}
	}
	for line := range strings.Lines(want) {
		if !strings.Contains(got, line) {
			out += "\nwant " + line
		}
	}
	return out
}

// faults returns the faults that tests inject, each with the error that the store must return for it.
func faults() map[fault]error {
	return map[fault]error{
		cutBefore: redis.ErrDown,
		cutAfter:  redis.ErrDown,
		"READONLY You can't write against a read only replica.":                   redis.ErrBusy,
		"LOADING Redis is loading the dataset in memory":                          redis.ErrBusy,
		"MOVED 1 127.0.0.1:1":                                                     redis.ErrBusy,
		"MISCONF Redis is configured to save RDB snapshots, but it can't persist": redis.ErrDisk,
		"OOM command not allowed when used memory > 'maxmemory'.":                 redis.ErrFull,
		"NOPERM this user has no permissions to run the 'hget' command":           redis.ErrACL,
		"NOAUTH Authentication required.":                                         redis.ErrAuth,
		"ERR max number of clients reached":                                       redis.ErrDown,
	}
}

// The test repeats each read with a fault at each of its commands.
func TestFaultAtEachReadCommand(t *testing.T) {
	open, proxy := openFaulty(t)
	s := open("reads")
	for _, call := range changeCalls()[:addingCallCount] {
		if _, err := call.do(t.Context(), s); err != nil {
			t.Fatalf("call %s: %v", call.name, err)
		}
	}
	all := faults()
	all["WRONGTYPE Operation against a key holding the wrong kind of value"] = redis.ErrCorrupt
	for injected, wantErr := range all {
		for _, call := range readCalls() {
			proxy.setFault(-1, "")
			want, err := call.do(t.Context(), s)
			if err != nil {
				t.Fatalf("%s without a fault: %v", call.name, err)
			}
			total, _ := proxy.commands()
			for at := range total {
				proxy.setFault(at, injected)
				got, err := call.do(t.Context(), s)
				_, happened := proxy.commands()
				temporary := !errors.Is(wantErr, redis.ErrCorrupt)
				switch {
				case !happened && call.name == "positions": // the repeated call sends fewer commands, and may not reach this one
				case !happened:
					t.Errorf("commands that %s sent before a fault: got %d, want %d as without a fault", call.name, at, total)
				case err == nil && fmt.Sprint(got) != fmt.Sprint(want):
					t.Errorf("%s, %.9s at command %d: got result %v, want %v", call.name, injected, at, got, want)
				case err != nil && (!errors.Is(err, wantErr) || errors.Is(err, session.ErrUnavailable) != temporary):
					t.Errorf("%s, %.9s at command %d: got error %v, want %v, and errors.Is(err, session.ErrUnavailable) = %v", call.name, injected, at, err, wantErr, temporary)
				}
			}
		}
	}
}
