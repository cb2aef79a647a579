package redis_test

import (
	"crypto/sha256"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"precept/feedback"
	"precept/sample"
	"precept/session"
	"precept/store/redis"
	"precept/store/storetest"
	"precept/trial"
)

// Sessions that are past every retention leave nothing behind, however many there were: the same
// keys of the same size, but for marks that end by themselves.
func TestGoneSessionsLeaveNothing(t *testing.T) {
	server := storetest.StartRedis(t)
	s := open(t, server.URL())
	day := time.Date(2031, 5, 6, 0, 0, 0, 0, time.UTC)
	const each = 40
	round := func(n int) {
		for i := range each {
			live(t, s, n*each+i, day.Add(time.Duration(n)*time.Hour))
		}
		gone, err := s.Retain(t.Context(), day.Add(1000*time.Hour))
		if err != nil || gone < each {
			t.Fatalf("%d sessions are gone, %v", gone, err)
		}
		if _, err := s.PurgeParked(t.Context(), day.Add(1000*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	round(0)
	few := sizes(t, server)
	for n := range 9 {
		round(n + 1)
	}
	many := sizes(t, server)
	if have, want := slices.Sorted(maps.Keys(many)), slices.Sorted(maps.Keys(few)); !slices.Equal(have, want) {
		t.Errorf("keys after ten times as many sessions:\n%q\nafter the first ones:\n%q", have, want)
	}
	for key, n := range many {
		if n > few[key]+64 { // digits of totals
			t.Errorf("%s takes %d bytes, and took %d", key, n, few[key])
		}
	}
}

// live is a session with something of every kind, from its first turn to its settlement.
func live(t *testing.T, s *redis.Store, n int, now time.Time) {
	t.Helper()
	ctx, sid := t.Context(), sha(n)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	echo := session.EchoKey(n) * 0x9e3779b97f4a7c15
	must(s.Write(ctx, session.Batch{
		Rows:      []session.Row{{Tenant: "default", ID: sid, Started: now, Seen: now, Data: []byte("{}")}},
		Echoes:    []session.Echo{{Tenant: "default", Key: echo, ID: sid, At: now}, {Tenant: "default", Key: 7, ID: sid, At: now}},
		Exchanges: []sample.Exchange{{ID: sid.String(), Tenant: "default", Session: sid.String(), Turn: 1, At: now}},
		Samples:   []session.StoredSample{{Tenant: "default", ID: sid, Sample: sample.Sample{ID: "s" + sid.String(), CreatedAt: now}}},
	}))
	said := feedback.Entry{ID: "f", At: now, Type: feedback.TypeScore}
	must(s.Park(ctx, "default", echo, said))
	must(s.Park(ctx, "default", echo+1, said)) // nobody comes for it
	_, err := s.Join(ctx, "default", map[session.EchoKey]session.ID{echo: sid})
	must(err)
	must(s.Leave(ctx, "default", sid, "report", "text"))
	must(s.Jot(ctx, "default", map[session.ID][]byte{sid: []byte("mark")}, nil))
	must(s.KeepOptOuts(ctx, map[session.ID]session.OptOutMark{sid: {Turns: 1, Items: 2}}))
	must(s.SetAside(ctx, []session.DeadLetter{{Tenant: "default", ID: sid, At: now}, {Tenant: "default", ID: sid, Exchange: "x", At: now}}))
	_, err = s.Settle(ctx, []session.Settlement{{Tenant: "default", ID: sid, Deltas: []trial.Delta{{Key: trial.Key{Scope: "a@1", Field: "n"}, Value: 1}}}})
	must(err)
	// What comes late, of a session that is settled or was never there.
	must(s.Write(ctx, session.Batch{Exchanges: []sample.Exchange{{ID: "late" + sid.String(), Tenant: "default", Session: sid.String(), Turn: 2, At: now}}}))
	must(s.Leave(ctx, "default", sha(-n-1), "report", "text"))
}

// sha is a session's id, which is a hash.
func sha(n int) session.ID {
	sum := sha256.Sum256([]byte(strconv.Itoa(n)))
	return session.ID(sum[:16])
}

// sizes are the bytes of every key that does not end by itself.
func sizes(t *testing.T, server *storetest.Redis) map[string]int64 {
	t.Helper()
	out := map[string]int64{}
	keys, _ := server.Must(t, "KEYS", "*").([]any)
	for _, k := range keys {
		key, _ := k.(string)
		if ttl, _ := server.Must(t, "PTTL", key).(int64); ttl < 0 {
			out[key], _ = server.Must(t, "MEMORY", "USAGE", key).(int64)
		}
	}
	return out
}
