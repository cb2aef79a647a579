package store

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"precept/internal/guard"
	"precept/internal/label"
	"precept/internal/sample"
	"precept/store/spool"
)

// newJournal is a journal over a spool of its own.
func newJournal(t *testing.T, hold int64) *journal {
	t.Helper()
	log, _, err := spool.Open(t.TempDir(), spool.Options{Quota: 1 << 30, Now: when, Count: admittedBy})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	return &journal{
		spool: log, hold: hold, tally: &Tally{}, state: &state{}, failed: func(step label.Step, err error) { t.Error(step, err) },
		guard: guard.New(guard.Options{Now: func() time.Time { return when }, Panicked: func(label.Step, any) {}}),
	}
}

// arrive puts exchanges into what waits, each of ten bytes.
func (j *journal) arrive(names ...string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, name := range names {
		j.next.exchanges = append(j.next.exchanges, *exchange(us, name, 1, when))
		j.next.held += 10
	}
	j.state.held.Add(int64(10 * len(names)))
	j.flushes++
	j.next.flush = j.flushes
}

// down puts down what waits.
func (j *journal) down() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.putDown(when)
}

func namesOf(list []sample.Exchange) string {
	text := ""
	for i := range list {
		text += list[i].SessionName
	}
	return text
}

// readBack reads what lies in the spool.
func (j *journal) readBack(t *testing.T, until spool.Place) string {
	t.Helper()
	r, text := reader{from: j.spool.Reader(), most: replayBytes}, ""
	for at := (spool.Place{Segment: 1}); at.Before(until); {
		b, err := r.next(at, until)
		if err != nil {
			t.Fatal(err)
		}
		text += namesOf(b.exchanges)
		at = b.end
	}
	return text
}

// What is put down is taken once, in the order in which it came.
func TestAJournalIsTakenInOrder(t *testing.T) {
	t.Parallel()
	j := newJournal(t, 1<<20)
	var tail batch
	for _, names := range [][]string{{"a", "b"}, {"c"}} {
		j.arrive(names...)
		j.down()
	}
	j.arrive("d") // not put down yet
	j.take(&tail)
	same(t, "taken", namesOf(tail.exchanges), "abc")
	end, seq := j.spool.End()
	same(t, "where it ends", tail.end, end)
	same(t, "sequence number", seq, 3)
	same(t, "flush", tail.flush, 2)
	j.take(&tail)
	same(t, "once", namesOf(tail.exchanges), "abc")
	same(t, "in the spool", j.readBack(t, end), "abc")
}

// What the delivery does not take as fast as it comes leaves memory, and is read back.
func TestAJournalLeavesABacklogToTheSpool(t *testing.T) {
	t.Parallel()
	j := newJournal(t, 80)
	j.arrive("a")
	j.down()
	at, lagging := j.backlog(spool.Place{})
	same(t, "lagging", lagging, false)
	j.arrive("b", "c") // more than a quarter of what may be held
	j.down()
	at, lagging = j.backlog(at)
	same(t, "lagging then", lagging, true)
	same(t, "held", j.state.held.Load(), 0)
	same(t, "to be read back", j.readBack(t, at), "abc")
	if _, err := j.turnOver(&batch{}); !errors.Is(err, errBacklog) {
		t.Errorf("turned over: %v", err)
	}
	j.arrive("d")
	j.down()
	from, lagging := j.backlog(at)
	same(t, "so is what comes meanwhile", fmt.Sprintf("%v %s", lagging, j.readBack(t, from)), "true abcd")
	_, lagging = j.backlog(from)
	same(t, "when it is delivered", lagging, false)
	same(t, "delivered", j.state.delivered.Load(), 3)
}

// What was taken and cannot be handed over goes back before what came meanwhile; what a backend
// lost is read again from where the spool has it.
func TestAJournalTakesBack(t *testing.T) {
	t.Parallel()
	j := newJournal(t, 1<<20)
	var tail batch
	j.arrive("a")
	j.down()
	j.take(&tail)
	j.arrive("b")
	j.down()
	j.putBack(&tail)
	same(t, "nothing is left in hand", tail.empty(), true)
	from, lagging := j.backlog(spool.Place{})
	same(t, "to be read back", fmt.Sprintf("%v %s", lagging, j.readBack(t, from)), "true ab")
	j.backlog(from)
	j.arrive("c")
	j.down()
	j.readAgain()
	end, _ := j.spool.End()
	from, lagging = j.backlog(spool.Place{})
	same(t, "all of it again", fmt.Sprintf("%v %v %s", lagging, from == end, j.readBack(t, from)), "true true abc")
	same(t, "sessions may be unknown meanwhile", j.state.blind.Load(), true)
	same(t, "held", j.state.held.Load(), 0)
}

// A segment is left when all of it is delivered and it shall not stay; before that, what comes now
// gets a segment of its own.
func TestAJournalTidiesUp(t *testing.T) {
	t.Parallel()
	j := newJournal(t, 1<<20)
	j.arrive("a")
	j.down()
	at, _ := j.spool.End()
	j.setScrub(true)
	left, _ := j.tidy(at, true, false)
	same(t, "it is not due", left, at)
	left, _ = j.tidy(at, true, true)
	same(t, "something is to be taken yet", left, at)
	j.arrive("b")
	j.down()
	end, _ := j.spool.End()
	same(t, "a segment of its own", end.Segment, at.Segment+1)
	j.take(&batch{})
	left, _ = j.tidy(end, true, true)
	same(t, "left behind", left.Segment, end.Segment+1)
	j.mu.Lock()
	j.full = true
	j.mu.Unlock()
	_, full := j.tidy(left, true, false)
	same(t, "full: at once", full, true)
	_, full = j.tidy(left, true, false)
	same(t, "and once", full, false)
}

// What the spool has no room for may go past it, and only when nothing is on its way before it. It
// takes its sequence numbers; what was not handed over waits again, before what came meanwhile.
func TestAJournalIsPassedBy(t *testing.T) {
	t.Parallel()
	j := newJournal(t, 1<<20)
	_, ok := j.unput()
	same(t, "nothing waits", ok, false)
	j.arrive("a")
	j.down()
	j.arrive("b")
	_, ok = j.unput()
	same(t, "behind what is put down", ok, false)
	j.take(&batch{})
	b, ok := j.unput()
	same(t, "taken", fmt.Sprintf("%v %s", ok, namesOf(b.exchanges)), "true b")
	same(t, "nothing is put down meanwhile", j.waits(when), true)
	j.arrive("c")
	j.passed(&b, errDown)
	same(t, "it waits again", namesOf(j.next.exchanges), "bc")
	same(t, "flush", j.next.flush, 3)
	b, _ = j.unput()
	j.passed(&b, nil)
	_, seq := j.spool.End()
	same(t, "sequence number", seq, 3)
	same(t, "what is put down then", j.waits(when), false)
}
