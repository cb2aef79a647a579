package session_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"

	"precept/bandit/trial"
	"precept/internal/price"
	"precept/internal/session"
	"precept/internal/wire"
)

// Two replicas take random steps. In each step, a replica counts a turn or tokens, writes its copy of the record, or
// merges the stored record into its copy.
func TestReplicasCountRunTurnsOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		stored := newRun("ci-1", testStart)
		copies := []*session.Record{newRun("ci-1", testStart), newRun("ci-1", testStart)}
		copies[0].Unit.Replica, copies[1].Unit.Replica = "a", "b"
		var want trial.Totals
		var used trial.Usage
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			replica := rapid.IntRange(0, 1).Draw(rt, "replica")
			switch rapid.IntRange(0, 3).Draw(rt, "step") {
			case 0:
				copies[replica].AddTotals(trial.Totals{Turns: 1, Errors: 2})
				want.Turns, want.Errors = want.Turns+1, want.Errors+2
			case 1:
				copies[replica].AddUsage("m", wire.Usage{Input: 10, Cached: 4, Output: 3})
				want.Tokens, used.Input, used.Cached = want.Tokens+13, used.Input+10, used.Cached+4
			case 2:
				stored = recordAfterWrite(rt, stored, copies[replica])
			default:
				copies[replica].MergeUnit(stored)
			}
		}
		for _, replica := range []int{0, 1, 0} {
			stored = recordAfterWrite(rt, stored, copies[replica])
			copies[replica].MergeUnit(stored)
		}
		for _, rec := range copies {
			if rec.Thread.Totals != want || rec.Thread.Used != used {
				rt.Fatalf("replica %s: got totals %+v, usage %+v, want %+v, %+v", rec.Unit.Replica, rec.Thread.Totals, rec.Thread.Used, want, used)
			}
		}
	})
}

// Two replicas take random steps. In each step, a replica counts a parent session's tokens by model, writes its copy of
// the record, or merges the stored record into its copy. All models beyond the limit are counted under one name, and no
// token is lost.
func TestReplicasCountModelTokensOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		stored := newRecord("parent")
		stored.AddUsage("m0", wire.Usage{Input: 1, Output: 1}) // before the first sub-agent
		copies := []*session.Record{recordAfterWrite(rt, stored, stored), recordAfterWrite(rt, stored, stored)}
		want, all := session.ModelTokens{"m0": {Input: 1, Output: 1}}, price.Tokens{Input: 1, Output: 1}
		for i, replica := range []string{"a", "b"} {
			copies[i].Unit.Replica = replica
			copies[i].AddMember(newRecord("sub"))
		}
		models := rapid.IntRange(1, 12).Draw(rt, "models")
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			replica := rapid.IntRange(0, 1).Draw(rt, "replica")
			switch rapid.IntRange(0, 2).Draw(rt, "step") {
			case 0:
				model := fmt.Sprint("m", rapid.IntRange(0, models-1).Draw(rt, "model"))
				copies[replica].AddUsage(model, wire.Usage{Input: 10, Cached: 4, Written: 5, WrittenHour: 2, Output: 3})
				turn := price.Tokens{Input: 10, Cached: 4, Written: 5, WrittenHour: 2, Output: 3}
				want[model], all = want[model].Plus(turn), all.Plus(turn)
			case 1:
				stored = recordAfterWrite(rt, stored, copies[replica])
			default:
				copies[replica].MergeUnit(stored)
			}
		}
		for _, replica := range []int{0, 1, 0} {
			stored = recordAfterWrite(rt, stored, copies[replica])
			copies[replica].MergeUnit(stored)
		}
		for _, rec := range append(copies, stored) {
			got, sum := rec.TokensByModel(0), price.Tokens{}
			for _, tokens := range got {
				sum = sum.Plus(tokens)
			}
			if sum != all || len(want) <= 8 && !maps.Equal(got, want) || len(got) > 9 {
				rt.Fatalf("replica %q: got %+v, by model %v, want %+v, by model %v", rec.Unit.Replica, sum, got, all, want)
			}
		}
	})
}

// A record from an earlier release has no token counts by model.
func TestTokensWithoutAModelBelongToTheNewest(t *testing.T) {
	id := newRecord("s").Identity.ID
	old, err := session.Decode(id, []byte(`{"version":2,"identity":{"tenant":"default","agent":"coder","name":"s","method":"header","started":"2026-01-02T03:04:05Z","seen":"2026-01-02T03:04:05Z","model":"large","dialect":3},"unit":{},"thread":{"turns":2,"used":{"in":100,"cached":40}},"assignment":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := old.TokensByModel(7), (session.ModelTokens{"large": {Input: 100, Cached: 40, Output: 7}}); !maps.Equal(got, want) {
		t.Errorf("record from an earlier release: got tokens by model %v, want %v", got, want)
	}
	old.AddUsage("small", wire.Usage{Input: 10, Cached: 2, Written: 3, Output: 1})
	want := session.ModelTokens{"large": {Input: 100, Cached: 40, Output: 7}, "small": {Input: 10, Cached: 2, Written: 3, Output: 1}}
	if got := old.TokensByModel(8); !maps.Equal(got, want) {
		t.Errorf("after a turn with another model: got tokens by model %v, want %v", got, want)
	}
}

// recordAfterWrite returns the stored record after a replica has written rec, its copy of the record, without first
// reading the stored record.
func recordAfterWrite(rt *rapid.T, stored, rec *session.Record) *session.Record {
	rows := make([]session.Row, 2)
	for i, r := range []*session.Record{stored, rec} {
		data, err := r.Encode()
		if err != nil {
			rt.Fatal(err)
		}
		rows[i] = session.Row{Tenant: r.Identity.Tenant, ID: r.Identity.ID, Started: r.Identity.Started, Seen: r.Identity.Seen, IsUnit: true, Data: data}
	}
	row, err := session.MergeRows(rows[0], rows[1])
	if err != nil {
		rt.Fatal(err)
	}
	out, err := session.Decode(row.ID, row.Data)
	if err != nil {
		rt.Fatal(err)
	}
	return out
}

// The remote replica's record can be older or newer.
func TestMergeUnitAddsSubAgentCounts(t *testing.T) {
	for _, offset := range []time.Duration{-time.Second, time.Second} {
		local, remote := newRecord("s"), newRecord("s")
		local.Unit.Replica, remote.Unit.Replica = "a", "b"
		local.AddTotals(trial.Totals{Turns: 3}) // turns before the first sub-agent, known to both replicas
		remote.AddTotals(trial.Totals{Turns: 3})
		local.AddMember(newRecord("m1"))
		remote.AddMember(newRecord("m1"))
		local.AddTotals(trial.Totals{Turns: 1, Errors: 1})
		remote.AddTotals(trial.Totals{Turns: 2})
		remote.Identity.Seen = local.Identity.Seen.Add(offset)
		if local.MergeUnit(remote); local.Thread.Totals.Turns != 6 || local.Thread.Totals.Errors != 1 || local.Unit.Replica != "a" {
			t.Errorf("got totals %+v from replica %q, want 6 turns and 1 error from replica a", local.Thread.Totals, local.Unit.Replica)
		}
	}
}

// During a rolling upgrade, a replica that still runs an earlier release writes only totals, without counts per
// replica. The new replica must count these totals once, even if it merges the record twice.
func TestEarlierReleaseTurnsAreCountedOnce(t *testing.T) {
	newer, older := newRun("ci-1", testStart), newRun("ci-1", testStart)
	newer.Unit.Replica = "a"
	var want trial.Totals
	for range 5 {
		newer.AddTotals(trial.Totals{Turns: 1})
		newer.AddUsage("m", wire.Usage{Input: 10, Cached: 4, Output: 3})
		want.Turns, want.Tokens = want.Turns+1, want.Tokens+13
		older.Thread.Totals, older.Thread.Used, older.Thread.ReplicaCounts = newer.Thread.Totals, newer.Thread.Used, nil // the earlier release reads the row
		older.Thread.Totals.Turns, older.Thread.Totals.Tokens, older.Thread.Used.Input = older.Thread.Totals.Turns+2, older.Thread.Totals.Tokens+26, older.Thread.Used.Input+20
		want.Turns, want.Tokens = want.Turns+2, want.Tokens+26
		newer.MergeUnit(older)
		newer.MergeUnit(older)
		// In each added usage, 10 of 13 tokens are input tokens.
		if newer.Thread.Totals != want || newer.Thread.Used.Input != want.Tokens*10/13 {
			t.Fatalf("new replica: got totals %+v and %d input tokens, want %+v and %d", newer.Thread.Totals, newer.Thread.Used.Input, want, want.Tokens*10/13)
		}
	}
}
