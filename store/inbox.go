package store

import (
	"sync"
	"sync/atomic"

	"precept/detect"
	"precept/internal/sample"
)

const (
	queueLen   = 8192    // turns
	flushAt    = 500     // turns that make a batch: the recorder does not wait for its tick
	pieceBytes = 1 << 20 // of exchanges that are written at once: the ballast of the outbox has to pay for them on a full disk
)

// Turn is what the proxy hands over when a request is over. The recorder owns it from then on.
type Turn struct {
	Exchange *sample.Exchange
	Begun    *Begun          // what Begin returned for it, nil where it was not called
	Size     int64           // bytes the exchange holds in memory
	Signals  []detect.Signal // what the new part says of the session
	Answered []string        // arguments of the calls that the new tool results answer, for the opt-out by path
}

// Begun is a turn that is under way. If the program dies before it ends, a stub of its exchange
// tells that it was there.
type Begun struct {
	x    *sample.Exchange
	put  bool        // in the outbox; the recorder's
	over atomic.Bool // offered, or given up
}

// inbox is where requests leave their turns. Nothing in it blocks.
type inbox struct {
	tally *Tally
	state *state
	hold  int64         // bytes of exchanges in memory, at most
	stubs bool          // what begins is put down, too
	full  chan struct{} // there is enough for a batch

	mu    sync.Mutex
	queue []Turn
	open  []*Begun // began since the last flush
	lost  []lost   // given up since then
}

// Begin admits a turn when its request goes out. Of the exchange, what identifies it and what was
// decided must be set, and not be changed any more; the rest may be filled in until it is offered.
// It never blocks.
func (q *inbox) Begin(x *sample.Exchange) *Begun {
	if !q.stubs {
		return nil
	}
	b := &Begun{x: x}
	q.mu.Lock()
	q.open = append(q.open, b)
	q.mu.Unlock()
	return b
}

// Abandon ends a turn that was begun and is not offered: something went wrong on the way.
func (q *inbox) Abandon(b *Begun) {
	if b != nil && !b.over.Load() {
		q.tally.DroppedBad.Add(1)
		q.giveUp(b, droppedBad)
	}
}

// giveUp books a turn of which nothing is kept.
func (q *inbox) giveUp(b *Begun, reason string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lost = append(q.lost, lost{b, reason})
	b.end()
}

// end marks a turn that is over. It must be marked when its end can be seen in the queue, or the
// recorder would book a beginning behind the end.
func (b *Begun) end() {
	if b != nil {
		b.over.Store(true)
	}
}

// lost is a turn that was given up.
type lost struct {
	begun  *Begun
	reason string
}

// Offer hands a turn over. It never blocks: a full queue, or too many bytes in waiting, drops the
// turn, counted.
func (q *inbox) Offer(t Turn) bool {
	if q.state.held.Load()+t.Size > q.hold {
		q.tally.DroppedFull.Add(1)
		q.giveUp(t.Begun, droppedFull)
		return false
	}
	q.mu.Lock()
	n := len(q.queue) + 1
	if n <= queueLen {
		q.queue = append(q.queue, t)
		q.state.held.Add(t.Size)
		q.tally.Pending.Add(1)
		t.Begun.end()
	}
	q.mu.Unlock()
	if n > queueLen {
		q.tally.DroppedFull.Add(1)
		q.giveUp(t.Begun, droppedFull)
		return false
	}
	if n >= flushAt {
		select {
		case q.full <- struct{}{}:
		default: // the recorder knows
		}
	}
	return true
}

// piece takes the first turns of the queue, up to the one with which they hold pieceBytes. The rest
// of the queue goes into spare. The caller has mu.
func (q *inbox) piece(spare []Turn) []Turn {
	n, held := 0, int64(0)
	for n < len(q.queue) && held < pieceBytes {
		held += q.queue[n].Size
		n++
	}
	turns, rest := q.queue[:n], q.queue[n:]
	q.queue = append(spare, rest...)
	clear(rest)
	return turns
}

// AtRequest is the value of a panic at what one request left behind.
type AtRequest struct {
	Request string // its id
	Value   any
}
