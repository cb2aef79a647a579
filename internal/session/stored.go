package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"precept/bandit/trial"
	"precept/internal/sample"
)

// The shapes in which sessions are kept. Both stores read and write exactly these; store/storetest
// holds them to it.

// What a store's error says to those who write, whichever store it is. Every backend wraps them.
var (
	// ErrInvalid means that the value can never be stored, however often it is tried.
	ErrInvalid = errors.New("the value cannot be stored")
	// ErrUnavailable means that the store is away, or takes nothing now: the same may be tried
	// again later.
	ErrUnavailable = errors.New("the store is not available")
	// ErrDiskFull means that it writes to this machine's disk, and that has no room.
	ErrDiskFull = errors.New("the disk is full")
	// ErrParkingFull means that too much feedback waits for exchanges that have not come.
	ErrParkingFull = errors.New("too much early feedback is waiting")
)

// MostFeedback bounds a session's set of feedback where nobody says otherwise (limits.feedback), in
// entries. In bytes FeedbackBytes does: whoever looks at a reward reads all of the set.
const (
	MostFeedback  = 2000
	FeedbackBytes = 16 << 20
)

// FeedbackFull says how many new entries of a call found their session's set full. They are not
// kept; all others of the call are.
type FeedbackFull int

func (n FeedbackFull) Error() string { return fmt.Sprintf("no room for %d feedback entries", int(n)) }

// Row is a session as stored: Data is the record's JSON. StandIn marks one that was made while
// nobody could say whether there is another one of the session: whatever the order in which they
// are written, that one stands.
type Row struct {
	Tenant  string
	ID      ID
	Started time.Time
	Seen    time.Time
	Closed  bool
	StandIn bool
	Unit    bool // others draw through it: where it is written at several places at once, Merged is what stands
	Data    []byte
}

// Echo says that the key went by in the session.
type Echo struct {
	Tenant string
	Key    EchoKey
	ID     ID
	At     time.Time
}

// Batch is written in one transaction, or not at all. Rows replace older rows of the same session
// (never a Closed one's closed flag); echoes are added; exchanges and samples are idempotent by
// their id. Of the sessions in Whole the samples are all that they have now: those that were built
// before and are not among them are deleted.
type Batch struct {
	Rows      []Row
	Echoes    []Echo
	Exchanges []sample.Exchange
	Samples   []StoredSample
	Whole     []Ref
}

// Ref names a session.
type Ref struct {
	Tenant string
	ID     ID
}

// StoredSample is an MPLP sample with what it is found by.
type StoredSample struct {
	Tenant string
	Agent  string
	ID     ID // session
	sample.Sample
}

// Applied is the reward that the counters hold for a session, with its version.
type Applied struct {
	Version int64   // 0: not closed yet
	Told    bool    // a reward is applied
	Reward  float64 // when Told
	Tier    int
	Frozen  []byte // the assignment as it was at closing: every later correction is computed from it
}

// Settlement is one atomic step: if the session's Applied still has version From, the deltas go
// into the tenant's counters and To becomes its Applied (with version From+1). Heard says which
// feedback it was made of: if more has come since, the session stays one that is to be settled.
type Settlement struct {
	Tenant string
	ID     ID
	From   int64
	To     Applied
	Deltas []trial.Delta
	Heard  int64
}

// DeadLetter is the mark of a session, or of one exchange of it, at which a step of ours panicked.
// A session that is set aside is neither due nor unsettled until it is readmitted.
type DeadLetter struct {
	Tenant   string    `json:"-"`
	ID       ID        `json:"-"`
	Exchange string    `json:"exchange,omitempty"` // "": the session
	Step     string    `json:"step"`
	Why      string    `json:"why"`
	At       time.Time `json:"at"`
	Tries    int       `json:"-"` // how often it was set aside
}

// Unsettled names a closed session of which the counters or the samples do not know all yet:
// feedback or exchanges came since it was settled last.
type Unsettled struct {
	Tenant string
	ID     ID
}

// Stand is how far a tenant's numbers have come, for replicas that share a store.
type Stand struct {
	Counters string // changes whenever counters do
	Told     int64  // the place of the newest provisional reward
}

// Erasure is what was forgotten, as replicas announce it to each other.
type Erasure struct {
	Place  string // of the announcement
	Tenant string
	IDs    []ID // none: all that the tenant had
	At     time.Time
}

// ErrPlace means that a place in a list is none that the store gave.
var ErrPlace = errors.New("this place in the list is unknown; begin at its top")

// Stretch says which part of a list, newest first, is asked for.
type Stretch struct {
	Since, Until time.Time // Since <= when < Until; zero: no bound
	After        string    // Page.Next of the page before; "": from the newest on
	Most         int       // how many entries
}

// Page is a part of a list, newest first. A store looks at a bounded number of entries for a page:
// one may be empty, and there may be more all the same.
type Page[T any] struct {
	List []T
	Next string // where the list goes on; "": it has ended
}

// Listed is a session as lists show it: its row, and what the counters hold for it.
type Listed struct {
	Row
	Applied Applied
}

// Documents are the exchanges and samples of a batch in the form in which a store keeps them.
type Documents struct {
	Sessions  []ID // of the exchanges
	Exchanges []sample.Encoded
	Samples   [][]byte // JSON
}

// Documents encodes a batch. The error is ErrInvalid: it names the first thing that no store can
// keep.
func (b *Batch) Documents() (d Documents, err error) {
	for i := range b.Exchanges {
		e := &b.Exchanges[i]
		id, ok := ParseID(e.Session)
		switch {
		case !ok:
			return d, fmt.Errorf("exchange %q: %w: %q is not the id of a session", e.ID, ErrInvalid, e.Session)
		case e.ID == "":
			return d, fmt.Errorf("exchange of turn %d of session %s: %w: it has no id", e.Turn, id, ErrInvalid)
		}
		d.Sessions, d.Exchanges = append(d.Sessions, id), append(d.Exchanges, e.Encode())
	}
	for i := range b.Samples {
		m := &b.Samples[i]
		if m.Sample.ID == "" {
			return d, fmt.Errorf("sample of session %s: %w: it has no id", m.ID, ErrInvalid)
		}
		var doc bytes.Buffer
		enc := json.NewEncoder(&doc)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(m.Sample); err != nil {
			return d, fmt.Errorf("sample %q: %w: %w", m.Sample.ID, ErrInvalid, err)
		}
		d.Samples = append(d.Samples, bytes.TrimSuffix(doc.Bytes(), []byte("\n")))
	}
	return d, nil
}
