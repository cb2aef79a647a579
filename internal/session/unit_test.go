package session_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"precept/bandit/trial"
	"precept/internal/session"
	"precept/internal/wire"
)

func newRun(name string, at time.Time) *session.Record {
	return session.NewRun("default", session.Claim{Agent: "coder"}, name, session.RunID("default", name), at)
}

// A run counts its members' turns. A session with sub-agents does not.
func TestRunCountsTurnsTokensAndMembers(t *testing.T) {
	run, one, two := newRun("ci-1", testStart), newRecord("one"), newRecord("two")
	run.AddMember(one)
	run.AddMember(two)
	run.CountTurn(testStart.Add(time.Minute))
	run.CountTurn(testStart)
	run.AddUsage("m", wire.Usage{Input: 10, Cached: 4})
	run.AddUsage("m", wire.Usage{Input: -1, Cached: -1}) // unknown
	if one.Unit.MemberNumber != 1 || two.Unit.MemberNumber != 2 || run.Unit.Members != 2 || run.Thread.Turns != 2 || !run.Identity.Seen.Equal(testStart.Add(time.Minute)) || run.Thread.Used != (trial.Usage{Input: 10, Cached: 4}) {
		t.Errorf("got run %+v, Turns = %d, Used = %+v, MemberNumber = %d and %d, want Members = 2, Turns = 2, 10 input and 4 cached tokens, MemberNumber = 1 and 2", run.Member(), run.Thread.Turns, run.Thread.Used, one.Unit.MemberNumber, two.Unit.MemberNumber)
	}
	parent := newRecord("parent")
	if parent.IsShared() {
		t.Error("session without members: got IsShared = true, want false")
	}
	parent.AddMember(one)
	parent.CountTurn(testStart)
	if !parent.IsShared() || parent.Thread.Turns != 0 {
		t.Errorf("parent after a member's turn: got IsShared = %v, Turns = %d, want true, 0", parent.IsShared(), parent.Thread.Turns)
	}
	one.Unit.ID = parent.Identity.ID.String()
	if id, ok := one.UnitID(); !ok || id != parent.Identity.ID {
		t.Errorf("UnitID = %v, %v, want %v, true", id, ok, parent.Identity.ID)
	}
	if _, ok := two.UnitID(); ok {
		t.Error("UnitID(session without a unit): ok = true, want false")
	}
	if m := one.Member(); m.Unit != parent.Identity.ID || m.MemberNumber != 1 || m.Name != "one" || m.Run != "" {
		t.Errorf(`session: got Member = %+v, want Unit = %v, MemberNumber = 1, Name = "one", empty Run`, m, parent.Identity.ID)
	}
	if m := run.Member(); m.Run != "ci-1" || m.Name != "" || m.Members != 2 {
		t.Errorf(`run: got Member = %+v, want Run = "ci-1", empty Name, Members = 2`, m)
	}
}

// MergeRows returns the same data for both orders of the two rows.
func TestMergeRowsKeepsPicksAndNumbers(t *testing.T) {
	earlier, later := newRun("ci-1", testStart), newRun("ci-1", testStart.Add(time.Second))
	earlier.Assignment = trial.Assignment{Decided: true, Category: "a", Picks: []trial.Pick{{Slug: "x", Injected: true}}}
	later.Assignment = trial.Assignment{Decided: true, Category: "b", Picks: []trial.Pick{{Slug: "y"}}}
	earlier.Thread.Turns, earlier.Unit.Members, earlier.Thread.Used.Input = 5, 1, 100
	later.Thread.Turns, later.Unit.Members, later.Thread.Used.Input = 2, 3, 40
	later.State.Closed = true
	for _, pair := range [][2]*session.Record{{earlier, later}, {later, earlier}} {
		old, _ := mustRow(t, pair[0])
		row, _ := mustRow(t, pair[1])
		got, err := session.MergeRows(old, row)
		if err != nil {
			t.Fatal(err)
		}
		rec, err := session.Decode(got.ID, got.Data)
		if err != nil {
			t.Fatal(err)
		}
		if !got.Started.Equal(testStart) || !got.Seen.Equal(testStart.Add(time.Second)) || !got.Closed {
			t.Errorf("merged row: got %+v, want Started = %v, Seen = %v, Closed = true", got, testStart, testStart.Add(time.Second))
		}
		_, x := rec.Assignment.Pick("x")
		_, y := rec.Assignment.Pick("y")
		if !rec.State.Closed || rec.Thread.Turns != 5 || rec.Unit.Members != 3 || rec.Thread.Used.Input != 100 || rec.Assignment.Category != "a" || !x || !y {
			t.Errorf(`merged record: got %+v, want State.Closed = true, Thread.Turns = 5, Unit.Members = 3, Thread.Used.Input = 100, Assignment.Category = "a" and the picks x and y`, rec)
		}
	}
}

// While the store is unavailable, precept creates an offline record. MergeRows replaces its row with the stored row, in
// either order of the arguments.
func TestMergeRowsPrefersStoredToOfflineRecord(t *testing.T) {
	stored, offline := newRun("ci-1", testStart.Add(time.Hour)), newRun("ci-1", testStart)
	stored.Thread.Turns, offline.Thread.Turns, offline.State.StartedOffline = 2, 9, true
	a, _ := mustRow(t, stored)
	b, _ := mustRow(t, offline)
	for _, pair := range [][2]session.Row{{a, b}, {b, a}} {
		got, err := session.MergeRows(pair[0], pair[1])
		if err != nil || got.StartedOffline || string(got.Data) != string(a.Data) {
			t.Errorf("MergeRows = %+v, %v, want StartedOffline = false, Data = %s, no error", got, err, a.Data)
		}
	}
	if _, err := session.MergeRows(session.Row{Data: []byte("{")}, a); err == nil {
		t.Error("MergeRows(damaged row) error = nil, want an error")
	}
}

type fakeFinder struct {
	known   map[session.EchoKey][]session.ID
	lookups []int
	err     error
}

func (f *fakeFinder) FindEcho(_ context.Context, _ string, keys []session.EchoKey) (map[session.EchoKey][]session.ID, error) {
	f.lookups = append(f.lookups, len(keys))
	return f.known, f.err
}

func TestEachMemberReadsMembersInBatches(t *testing.T) {
	unit := session.RunID("default", "ci-1")
	f := &fakeFinder{known: map[session.EchoKey][]session.ID{}}
	const members = 600 // members 257 to 512 are deleted
	want := 0
	for number := 1; number <= members; number++ {
		if number <= 256 || number > 512 {
			f.known[session.MemberKey("default", unit, number)] = []session.ID{session.NamedID("default", session.NamespaceSession, strconv.Itoa(number))}
			want++
		}
	}
	seen, calls := map[session.ID]bool{}, 0
	use := func(ids []session.ID) error {
		calls++
		for _, id := range ids {
			seen[id] = true
		}
		return nil
	}
	run := &session.Member{ID: unit, Members: members}
	if err := session.EachMember(t.Context(), f, "default", run, use); err != nil || len(seen) != want || calls != 2 {
		t.Errorf("EachMember: err = %v, got %d members in %d calls to use, want no error and %d members in 2 calls", err, len(seen), calls, want)
	}
	if len(f.lookups) != 3 || f.lookups[2] != members-512 {
		t.Errorf("got lookups for %v keys, want 3 lookups, the last for %d keys", f.lookups, members-512)
	}
	stop := errors.New("stop")
	if err := session.EachMember(t.Context(), f, "default", run, func([]session.ID) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("use fails: err = %v, want %v", err, stop)
	}
	f.err = stop
	if err := session.EachMember(t.Context(), f, "default", run, use); !errors.Is(err, stop) {
		t.Errorf("lookup fails: err = %v, want %v", err, stop)
	}
}
