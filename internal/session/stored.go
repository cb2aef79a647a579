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

// Every store uses the types and errors of this file. store/storetest checks each store.

// Errors of a store. Every backend wraps one of these errors if its reason applies, because the callers treat each of
// them differently.
var (
	// ErrInvalid means that the store refuses the value permanently.
	ErrInvalid = errors.New("the value cannot be stored")
	// ErrUnavailable means that the store is unreachable or rejects writes. A later attempt may
	// succeed.
	ErrUnavailable = errors.New("the store is not available")
	// ErrDiskFull means that the local disk of the store has no room.
	ErrDiskFull = errors.New("the disk is full")
	// ErrDamaged means that a stored value cannot be read, now and later.
	ErrDamaged = errors.New("a stored value is damaged")
	// ErrParkingFull means that too much early feedback waits for its exchanges.
	ErrParkingFull = errors.New("too much early feedback is waiting")
)

// Default bounds of the feedback of a session, in entries (limits.feedback) and bytes. The computation
// of a reward reads all feedback of the session.
const (
	MaxFeedback      = 2000
	MaxFeedbackBytes = 16 << 20
)

// FeedbackFull is the number of feedback entries that a call could not store, because their session has
// reached the limit. The other entries of the call are stored.
type FeedbackFull int

func (f FeedbackFull) Error() string { return fmt.Sprintf("no room for %d feedback entries", int(f)) }

// Row is a session as stored. Data is the JSON of the record.
type Row struct {
	Tenant         string
	ID             ID
	Started        time.Time
	Seen           time.Time
	Closed         bool
	StartedOffline bool // copy of Record.State.Provisional; the row of the stored session replaces this row, in any order of writing
	IsUnit         bool // other sessions use the coins and picks of the record; replicas that write the row at the same time merge with Merged
	Data           []byte

	Exchanges int  // number of stored exchanges of a due session; 0 if the store does not know the number
	Unrated   bool // true if the store knows that a due session has no feedback and the feedback state 0
}

// Echo records that an echo key occurred in a session.
type Echo struct {
	Tenant string
	Key    EchoKey
	ID     ID
	At     time.Time
}

// Batch holds values that a store writes together. A row replaces an older row of the session, except
// for the Closed flag, which stays set. Echoes are added. A repeated write of an exchange or a sample
// with the same id changes nothing. For the sessions in AllSamplesOf, Samples holds all samples, and the store
// deletes other samples of these sessions.
type Batch struct {
	Rows         []Row
	Echoes       []Echo
	Exchanges    []sample.Exchange
	Samples      []StoredSample
	AllSamplesOf []Ref
}

// Ref names a session.
type Ref struct {
	Tenant string
	ID     ID
}

// StoredSample is an MPLP sample with its tenant, agent and session.
type StoredSample struct {
	Tenant string
	Agent  string
	ID     ID // session
	Sample sample.Sample
}

// SettledState is the reward of a session as the counters contain it, with a version.
type SettledState struct {
	Version  int64   // 0 means not closed yet
	Rewarded bool    // a reward is applied
	Reward   float64 // valid if Rewarded
	Tier     int
	Frozen   []byte // assignment at closing; every later correction starts from Frozen
}

// Settlement is one atomic step that counts a session: if Applied of the session still has version From, the deltas are
// added to the counters of the tenant, and To becomes Applied with version From+1. FeedbackState is the
// state of the feedback that the step includes. If later feedback exists, the session stays unsettled.
type Settlement struct {
	Tenant        string
	ID            ID
	From          int64
	To            SettledState
	Deltas        []trial.Delta
	FeedbackState int64
}

// DeadLetter marks a session or an exchange after a panic. A marked session is neither due nor
// unsettled until Readmit.
type DeadLetter struct {
	Tenant   string    `json:"-"`
	ID       ID        `json:"-"`
	Exchange string    `json:"exchange,omitempty"` // "" means the session
	Step     string    `json:"step"`
	Why      string    `json:"why"`
	At       time.Time `json:"at"`
	Tries    int       `json:"-"` // number of times that the session or exchange was marked
}

// UnsettledSession names a closed session with feedback or exchanges after its last settlement.
type UnsettledSession struct {
	Tenant string
	ID     ID
}

// Position is the progress of a tenant's numbers, for replicas that share a store.
type Position struct {
	Counters           string // changes whenever counters do
	ProvisionalRewards string // position of the newest provisional reward
}

// Erasure announces deleted sessions to other replicas.
type Erasure struct {
	Position string // position of the announcement
	Tenant   string
	IDs      []ID // empty: all sessions of the tenant
	At       time.Time
}

// ErrUnknownPosition means that a position in a list (ListRange.After) is not from a page of the store.
var ErrUnknownPosition = errors.New("the position in the list is unknown; start at the top of the list")

// ListRange selects a part of a list.
type ListRange struct {
	Since, Until time.Time // Since <= when < Until; zero means no bound
	After        string    // Page.Next of the previous page; "" means the start of the list
	Limit        int       // maximum number of entries
	OldestFirst  bool      // of a list of sessions: from old to new; otherwise from new to old
}

// Page is a part of a list. A store reads a bounded number of entries for a page, so
// an empty page may have a successor.
type Page[T any] struct {
	List []T
	Next string // position of the next page; empty at the end of the list
}

// ListedSession is a session in a list: its row, and the reward that the counters contain.
type ListedSession struct {
	Row          Row
	SettledState SettledState
}

// Documents are the exchanges and samples of a batch as a store keeps them.
type Documents struct {
	Sessions  []ID // sessions of the exchanges, in the same order
	Exchanges []sample.Encoded
	Samples   [][]byte // JSON
}

// Documents encodes a batch. The error is ErrInvalid and names the first value that no store
// accepts.
func (b *Batch) Documents() (d Documents, err error) {
	for i := range b.Exchanges {
		e := &b.Exchanges[i]
		id, ok := ParseID(e.Session)
		switch {
		case !ok:
			return d, fmt.Errorf("exchange %q: %w: %q is not the id of a session", e.ID, ErrInvalid, e.Session)
		case e.ID == "":
			return d, fmt.Errorf("exchange of turn %d of session %s: %w: no id", e.Turn, id, ErrInvalid)
		}
		d.Sessions, d.Exchanges = append(d.Sessions, id), append(d.Exchanges, e.Encode())
	}
	for i := range b.Samples {
		m := &b.Samples[i]
		if m.Sample.ID == "" {
			return d, fmt.Errorf("sample of session %s: %w: no id", m.ID, ErrInvalid)
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
