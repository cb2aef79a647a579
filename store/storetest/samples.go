package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"time"

	"precept/internal/sample"
	"precept/internal/session"
)

func sampleCases() map[string]func(tester, Store) {
	return map[string]func(tester, Store){
		"exchange is returned as written": func(t tester, s Store) {
			write(t, s, session.Batch{Exchanges: []sample.Exchange{exchange(tenantA, 1, 1)}})
			checkEqual(t, "exchanges", exchanges(t, s, tenantA, 1), []sample.Exchange{exchange(tenantA, 1, 1)})
		},
		"new items are stored byte by byte": func(t tester, s Store) {
			for i, items := range [][]json.RawMessage{nil, {[]byte("{\"a\" : 1.0, \"b\":\"\\u00e9<&\xff\"}"), []byte("null"), []byte("12345678901234567890")}} {
				e := exchange(tenantA, 1, i)
				e.New = items
				write(t, s, session.Batch{Exchanges: []sample.Exchange{e}})
				checkEqual(t, "new items", exchanges(t, s, tenantA, 1)[i].New, items)
			}
		},
		"invalid JSON item does not affect other exchanges": func(t tester, s Store) {
			bad := exchange(tenantA, 1, 2)
			bad.New = []json.RawMessage{json.RawMessage(`{"cut":`)}
			if err := s.Write(t.Context(), session.Batch{Exchanges: []sample.Exchange{exchange(tenantA, 1, 1), bad}}); err != nil {
				write(t, s, session.Batch{Exchanges: []sample.Exchange{exchange(tenantA, 1, 1)}}) // written separately, because the store may refuse the whole batch
			}
			checkEqual(t, "valid exchange", exchanges(t, s, tenantA, 1)[0], exchange(tenantA, 1, 1))
			for _, e := range exchanges(t, s, tenantA, 1) {
				if _, err := json.Marshal(e); err != nil {
					t.Error(err)
				}
			}
		},
		"exchanges are sorted by turn, then by arrival": func(t tester, s Store) {
			retry := exchange(tenantA, 1, 2)
			retry.ID = "a-retry"
			write(t, s, session.Batch{Exchanges: []sample.Exchange{exchange(tenantA, 1, 3), exchange(tenantA, 1, 2), exchange(tenantA, 2, 1)}})
			write(t, s, session.Batch{Exchanges: []sample.Exchange{retry, exchange(tenantA, 1, 1)}})
			checkEqual(t, "ids", exchangeIDs(exchanges(t, s, tenantA, 1)), []string{"default-1-1", "default-1-2", "a-retry", "default-1-3"})
			checkEqual(t, "exchanges in an unknown session", len(exchanges(t, s, tenantA, 9)), 0)
			checkEqual(t, "another tenant's exchanges", len(exchanges(t, s, tenantB, 1)), 0)
		},
		"repeated exchanges are stored once": func(t tester, s Store) {
			b := session.Batch{
				Exchanges: []sample.Exchange{exchange(tenantA, 1, 1), exchange(tenantA, 1, 1), exchange(tenantA, 1, 2)},
				Samples:   []session.StoredSample{storedSample(tenantA, 1, 1), storedSample(tenantA, 1, 1), storedSample(tenantA, 2, 2)},
			}
			write(t, s, b)
			write(t, s, b)
			checkEqual(t, "exchanges", len(exchanges(t, s, tenantA, 1)), 2)
			checkEqual(t, "samples", len(walkSamples(t, s, tenantA, time.Time{}, time.Time{})), 2)
			st := stats(t, s)
			checkEqual(t, "exchanges, exchanges ever, samples and samples ever", []int64{st["exchanges"], st["exchanges_ever"], st["samples"], st["samples_ever"]}, []int64{2, 2, 2, 2})
		},
		"rated sample replaces the unrated sample": func(t tester, s Store) {
			write(t, s, session.Batch{Samples: []session.StoredSample{storedSample(tenantA, 1, 1), storedSample(tenantA, 1, 2)}})
			rated := storedSample(tenantA, 1, 1)
			rated.Sample.Feedback = sample.Feedback{Source: "user", Type: "approval", QualityLabel: "good", Details: map[string]any{"rated": true}}
			write(t, s, session.Batch{Samples: []session.StoredSample{rated}})
			checkEqual(t, "samples", walkSamples(t, s, tenantA, time.Time{}, time.Time{}), []session.StoredSample{rated, storedSample(tenantA, 1, 2)})
			st := stats(t, s)
			checkEqual(t, "samples and samples ever", []int64{st["samples"], st["samples_ever"]}, []int64{2, 2})
		},
		"invalid exchange refuses the whole batch": func(t tester, s Store) {
			for _, sid := range []string{"", "xyz", "zz" + exchange(tenantA, 1, 1).Session[2:], exchange(tenantA, 1, 1).Session + "00"} {
				bad := exchange(tenantA, 1, 2)
				bad.Session = sid
				if err := s.Write(t.Context(), session.Batch{Rows: []session.Row{row(tenantA, 1, 1)}, Exchanges: []sample.Exchange{exchange(tenantA, 1, 1), bad}}); err == nil {
					t.Errorf("Write(exchange with the session id %q): got no error, want an error", sid)
				}
			}
			checkEqual(t, "exchanges", len(exchanges(t, s, tenantA, 1)), 0)
			checkNoSession(t, s, tenantA, 1)
		},
		"missing id is refused": func(t tester, s Store) {
			withoutID, sampleWithoutID := exchange(tenantA, 1, 1), storedSample(tenantA, 1, 1)
			withoutID.ID, sampleWithoutID.Sample.ID = "", ""
			for _, b := range []session.Batch{{Exchanges: []sample.Exchange{withoutID}}, {Samples: []session.StoredSample{sampleWithoutID}}} {
				if err := s.Write(t.Context(), b); !errors.Is(err, session.ErrInvalid) {
					t.Errorf("Write(data without an id): got error %v, want session.ErrInvalid", err)
				}
			}
			checkEqual(t, "exchanges", len(exchanges(t, s, tenantA, 1)), 0)
		},
		"unencodable sample refuses the whole batch": func(t tester, s Store) {
			bad := storedSample(tenantA, 1, 1)
			bad.Sample.Meta["q"] = math.NaN()
			err := s.Write(t.Context(), session.Batch{Rows: []session.Row{row(tenantA, 1, 1)}, Samples: []session.StoredSample{storedSample(tenantA, 1, 2), bad}})
			if !errors.Is(err, session.ErrInvalid) {
				t.Errorf("Write(sample with the number NaN): got error %v, want session.ErrInvalid", err)
			}
			checkNoSession(t, s, tenantA, 1)
			checkEqual(t, "samples", stats(t, s)["samples"], int64(0))
		},
		"walk visits all samples in write order":   testWalkAll,
		"walk filters samples by tenant and time":  testWalkFilters,
		"walk filters sessions by tenant and time": testWalkSessions,
		"walk returns the callback's error":        testWalkError,
		"walk's callback may write":                testWalkWrites,
		"samples are returned as written": func(t tester, s Store) {
			write(t, s, session.Batch{Samples: []session.StoredSample{storedSample(tenantA, 1, 1)}})
			checkEqual(t, "samples", walkSamples(t, s, tenantA, time.Time{}, time.Time{}), []session.StoredSample{storedSample(tenantA, 1, 1)})
		},
		"sample's session is found": func(t tester, s Store) {
			write(t, s, session.Batch{Samples: []session.StoredSample{storedSample(tenantA, 1, 1), storedSample(tenantB, 2, 2)}})
			for _, c := range []struct {
				tenant, sample string
				want           session.ID
				ok             bool
			}{
				{tenantA, "sample-default-1", id(1), true},
				{tenantB, "sample-other-2", id(2), true},
				{tenantB, "sample-default-1", session.ID{}, false},
				{tenantA, "sample-default-2", session.ID{}, false},
				{"unknown", "sample-default-1", session.ID{}, false},
			} {
				got, ok, err := s.SampleSession(t.Context(), c.tenant, c.sample)
				if err != nil || ok != c.ok || got != c.want {
					t.Errorf("SampleSession(%s, %s): got %x, found = %v, error %v, want %x, found = %v and no error", c.tenant, c.sample, got, ok, err, c.want, c.ok)
				}
			}
		},
	}
}

func exchanges(t tester, s Store, tenant string, n int) []sample.Exchange {
	t.Helper()
	return mustGet[[]sample.Exchange](t)(s.Exchanges(t.Context(), tenant, id(n)))
}

func exchangeIDs(list []sample.Exchange) (ids []string) {
	for _, e := range list {
		ids = append(ids, e.ID)
	}
	return ids
}

// EachExchange calls fn with each exchange in the store, session by session.
func EachExchange(ctx context.Context, s Samples, fn func(sample.Exchange) error) error {
	return s.EachSession(ctx, "", time.Time{}, time.Time{}, func(r session.Row, _ session.SettledState) error {
		list, err := s.Exchanges(ctx, r.Tenant, r.ID)
		for i := range list {
			err = errors.Join(err, fn(list[i]))
		}
		return err
	})
}

func walkSamples(t tester, s Store, tenant string, since, until time.Time) (list []session.StoredSample) {
	t.Helper()
	must(t, s.EachSample(t.Context(), tenant, since, until, func(m session.StoredSample) error {
		list = append(list, m)
		return nil
	}))
	return list
}

// testWalkAll tests that a walk over several pages visits each sample once, in the order in which the samples were
// written.
func testWalkAll(t tester, s Store) {
	const sessions, turns = 15, 24
	var want []string
	for turn := range turns { // more samples than fit on a page
		var b session.Batch
		for n := range sessions {
			m := storedSample(tenantA, n, turn*sessions+n)
			if n == 7 && turn%4 == 0 {
				m.Sample.Output["text"] = strings.Repeat("long ", 60_000)
			}
			b.Samples = append(b.Samples, m)
			want = append(want, m.Sample.ID)
		}
		write(t, s, b)
	}
	checkEqual(t, "first walk", sampleIDs(walkSamples(t, s, "", time.Time{}, time.Time{})), want)
	checkEqual(t, "second walk", sampleIDs(walkSamples(t, s, tenantA, time.Time{}, time.Time{})), want)
}

func testWalkFilters(t tester, s Store) {
	write(t, s, session.Batch{Samples: []session.StoredSample{storedSample(tenantA, 1, 2), storedSample(tenantB, 1, 3), storedSample(tenantA, 1, 4)}})
	for _, c := range []struct {
		tenant       string
		since, until time.Time
		samples      int
	}{
		{"", time.Time{}, time.Time{}, 3},
		{tenantA, time.Time{}, time.Time{}, 2},
		{tenantB, time.Time{}, time.Time{}, 1},
		{"unknown", time.Time{}, time.Time{}, 0},
		{"", atMinute(3), time.Time{}, 2},
		{"", time.Time{}, atMinute(3), 1},
		{tenantA, atMinute(3), atMinute(5), 1},
		{tenantA, atMinute(5), atMinute(3), 0},
	} {
		if n := len(walkSamples(t, s, c.tenant, c.since, c.until)); n != c.samples {
			t.Errorf("EachSample(%q, %v, %v): got %d samples, want %d", c.tenant, c.since, c.until, n, c.samples)
		}
	}
}

func testWalkSessions(t tester, s Store) {
	write(t, s, session.Batch{Rows: []session.Row{row(tenantA, 2, 2), row(tenantB, 1, 1), row(tenantA, 3, 3)}, Echoes: []session.Echo{echo(tenantA, 1, 9, 9)}})
	settle(t, s, settlement(tenantA, 3, 0))
	closed := row(tenantA, 3, 3)
	closed.Closed = true
	type pair struct {
		Row     session.Row
		Version int64
	}
	for _, c := range []struct {
		tenant       string
		since, until time.Time
		want         []pair
	}{
		{"", time.Time{}, time.Time{}, []pair{{row(tenantA, 2, 2), 0}, {row(tenantB, 1, 1), 0}, {closed, 1}}},
		{tenantA, time.Time{}, time.Time{}, []pair{{row(tenantA, 2, 2), 0}, {closed, 1}}},
		{tenantA, atMinute(3), time.Time{}, []pair{{closed, 1}}},
		{"", atMinute(1), atMinute(2), []pair{{row(tenantB, 1, 1), 0}}},
	} {
		var got []pair
		must(t, s.EachSession(t.Context(), c.tenant, c.since, c.until, func(r session.Row, a session.SettledState) error {
			got = append(got, pair{r, a.Version})
			return nil
		}))
		checkEqual(t, "sessions in "+c.tenant, got, c.want)
	}
}

func testWalkError(t tester, s Store) {
	write(t, s, session.Batch{Samples: []session.StoredSample{storedSample(tenantA, 1, 1), storedSample(tenantA, 1, 2)}})
	stop, calls := errors.New("enough"), 0
	err := s.EachSample(t.Context(), tenantA, time.Time{}, time.Time{}, func(session.StoredSample) error {
		calls++
		return stop
	})
	if !errors.Is(err, stop) || calls != 1 {
		t.Errorf("EachSample with a callback that fails: got %d calls, error %v, want 1 call and the callback's error", calls, err)
	}
	if err := s.EachSample(canceledContext(t), tenantA, time.Time{}, time.Time{}, func(session.StoredSample) error { return nil }); !isContextError(err) {
		t.Errorf("EachSample(canceled context): got error %v, want the context's error", err)
	}
}

func testWalkWrites(t tester, s Store) {
	write(t, s, session.Batch{Samples: []session.StoredSample{storedSample(tenantA, 1, 1), storedSample(tenantA, 1, 2)}})
	must(t, s.EachSample(t.Context(), tenantA, time.Time{}, time.Time{}, func(m session.StoredSample) error {
		return s.Write(t.Context(), session.Batch{Exchanges: []sample.Exchange{exchange(tenantA, 1, m.Sample.CreatedAt.Minute())}})
	}))
	checkEqual(t, "exchanges", len(exchanges(t, s, tenantA, 1)), 2)
}
