package store

import (
	"sync"
	"sync/atomic"

	"precept/detect"
	"precept/internal/sample"
)

const (
	queueLen   = 8192    // most turns in the inbox
	flushAt    = 500     // queued turns at which the recorder runs without waiting
	pieceBytes = 1 << 20 // size per append; must fit into the space that the outbox reserves for a full disk
)

// Turn is a finished proxy turn. The recorder owns the turn after Offer.
type Turn struct {
	Exchange *sample.Exchange
	Start    *TurnStart      // from BeginTurn; can be nil
	Size     int64           // bytes in memory
	Signals  []detect.Signal // implicit feedback in the request's new items
	Answered []string        // arguments of the calls answered by the new tool results
	// Session is the turn's session, and Unit the run or parent session; nil means unknown. An accepted turn pins both
	// (keeps them in memory) until the recorder has decided whether the turn opted out, because the rows depend on this
	// decision.
	Session, Unit *Session
}

func (t *Turn) addPins(n int32) {
	for _, ses := range []*Session{t.Session, t.Unit} {
		if ses != nil {
			ses.pins.Add(n)
		}
	}
}

// TurnStart is a turn in progress. If the program dies before the turn ends, precept stores a stub: the exchange
// without content.
type TurnStart struct {
	exchange    *sample.Exchange
	stubWritten bool        // the outbox has the stub, or gets it with the next append; only for the recorder
	done        atomic.Bool // true after Offer or Abandon
}

// inbox holds ended turns for the recorder. Its methods never block.
type inbox struct {
	metrics  *Metrics
	state    *state
	maxBytes int64         // largest total size for exchanges in memory
	stubs    bool          // an outbox is open, so turns in progress are recorded as stubs
	wake     chan struct{} // receives a value when flushAt turns are queued

	mu           sync.Mutex
	queue        []Turn
	startedTurns []*TurnStart
	abandoned    []abandonedTurn
}

// BeginTurn registers a turn when the request is sent upstream. See Store.BeginTurn.
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

// Abandon ends a turn from BeginTurn that is not offered, because a step failed.
func (i *inbox) Abandon(start *TurnStart) {
	if start != nil && !start.done.Load() {
		i.metrics.DroppedBad.Add(1)
		i.abandon(start, droppedBad)
	}
}

func (i *inbox) abandon(start *TurnStart, reason string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.abandoned = append(i.abandoned, abandonedTurn{start, reason})
	start.end()
}

// end marks a turn as ended. The caller holds the inbox mutex until the turn is in one of the inbox's lists; otherwise
// the recorder could write the turn's stub after the exchange.
func (start *TurnStart) end() {
	if start != nil {
		start.done.Store(true)
	}
}

type abandonedTurn struct {
	start  *TurnStart
	reason string
}

// Offer queues a turn for the recorder. See Store.Offer.
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
		default: // a wake-up is pending
		}
	}
	return true
}

// takePiece removes and returns the first queued turns, up to pieceBytes. The rest moves into the memory of spare, an
// empty list. The caller holds mu.
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

// RequestPanic is the recovered value of a panic, with the request id for the log.
type RequestPanic struct {
	Request string
	Value   any
}
