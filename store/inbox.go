package store

import (
	"sync"
	"sync/atomic"

	"precept/detect"
	"precept/internal/sample"
)

const (
	queueLen   = 8192    // maximum number of turns in the inbox
	flushAt    = 500     // number of queued turns at which the recorder runs without waiting for the next tick
	pieceBytes = 1 << 20 // bytes of exchanges in one append, which must fit into the space that the outbox reserves for a full disk
)

// Turn is a finished turn of the proxy. The recorder owns the turn after Offer.
type Turn struct {
	Exchange *sample.Exchange
	Start    *TurnStart      // result of Begin; nil if Begin was not called
	Size     int64           // bytes of the exchange in memory
	Signals  []detect.Signal // implicit feedback that was detected in the new items of the request
	Answered []string        // arguments of the calls that the new tool results answer; a path in them may be opted out
	// Session and Unit are the session of the turn, and its run or parent session; nil means unknown. An accepted turn
	// pins both until the recorder has decided whether the turn opted out, because their rows depend on this decision.
	Session, Unit *Session
}

// addPins adds n pins to the sessions of the turn.
func (t *Turn) addPins(n int32) {
	for _, ses := range []*Session{t.Session, t.Unit} {
		if ses != nil {
			ses.pins.Add(n)
		}
	}
}

// TurnStart is a turn in progress. If the program dies before the end of the turn, a stub, the exchange
// without its content, is stored.
type TurnStart struct {
	exchange    *sample.Exchange
	stubWritten bool        // the outbox has, or the next append writes, the stub of the turn; only the recorder uses stubWritten
	done        atomic.Bool // true after Offer or Abandon
}

// inbox holds the turns of requests for the recorder. Its methods never block.
type inbox struct {
	metrics  *Metrics
	state    *state
	maxBytes int64         // maximum size of the exchanges in memory
	stubs    bool          // turns in progress are recorded as stubs, because an outbox is open
	wake     chan struct{} // receives a value when flushAt turns are queued

	mu           sync.Mutex
	queue        []Turn
	startedTurns []*TurnStart    // turns that began since the last flush
	abandoned    []abandonedTurn // turns that ended without an exchange since the last flush
}

// BeginTurn registers a turn when its request is sent upstream. The identity and the decisions in the
// exchange must be final; the caller sets the other fields before Offer. Begin never blocks.
func (i *inbox) BeginTurn(x *sample.Exchange) *TurnStart {
	if !i.stubs {
		return nil
	}
	start := &TurnStart{exchange: x}
	i.mu.Lock()
	i.startedTurns = append(i.startedTurns, start)
	i.mu.Unlock()
	return start
}

// Abandon ends a turn of Begin that is not offered, because a step failed.
func (i *inbox) Abandon(start *TurnStart) {
	if start != nil && !start.done.Load() {
		i.metrics.DroppedBad.Add(1)
		i.abandon(start, droppedBad)
	}
}

// abandon ends a turn that has no exchange to store. The recorder later counts the turn by its reason.
func (i *inbox) abandon(start *TurnStart, reason string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.abandoned = append(i.abandoned, abandonedTurn{start, reason})
	start.end()
}

// end marks a turn as ended. The caller holds the mutex of the inbox, and calls end in the critical section in which
// the turn enters the queue or the abandoned turns. Otherwise the recorder could write the stub of the turn after the
// exchange.
func (start *TurnStart) end() {
	if start != nil {
		start.done.Store(true)
	}
}

// abandonedTurn is a turn without an exchange to store.
type abandonedTurn struct {
	start  *TurnStart
	reason string
}

// Offer queues a turn for the recorder, and never blocks. If the queue or the memory for exchanges is full, Offer drops
// and counts the turn, and returns false.
func (i *inbox) Offer(t Turn) bool {
	if i.state.heldBytes.Load()+t.Size > i.maxBytes {
		i.metrics.DroppedFull.Add(1)
		i.abandon(t.Start, droppedFull)
		return false
	}
	i.mu.Lock()
	n := len(i.queue) + 1
	if n <= queueLen {
		t.addPins(1)
		i.queue = append(i.queue, t)
		i.state.heldBytes.Add(t.Size)
		i.metrics.Pending.Add(1)
		t.Start.end()
	}
	i.mu.Unlock()
	if n > queueLen {
		i.metrics.DroppedFull.Add(1)
		i.abandon(t.Start, droppedFull)
		return false
	}
	if n >= flushAt {
		select {
		case i.wake <- struct{}{}:
		default: // the recorder has a wake-up pending
		}
	}
	return true
}

// takePiece removes and returns the first turns of the queue, as many as reach pieceBytes. The rest of the queue moves
// into the memory of spare, an empty list. The caller holds mu.
func (i *inbox) takePiece(spare []Turn) []Turn {
	n, held := 0, int64(0)
	for n < len(i.queue) && held < pieceBytes {
		held += i.queue[n].Size
		n++
	}
	turns, rest := i.queue[:n], i.queue[n:]
	i.queue = append(spare, rest...)
	clear(rest)
	return turns
}

// RequestPanic is the recovered value of a panic, with the id of the request that caused the panic, for the log.
type RequestPanic struct {
	Request string // id of the request
	Value   any
}
