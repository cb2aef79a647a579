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

// Every store uses the types and errors in this file.

// Errors from a store. A backend wraps the error that applies, because callers treat each error differently.
var (
	// ErrInvalid means that the store refuses the value permanently.
	ErrInvalid = errors.New("the value cannot be stored")
	// ErrUnavailable means that the store is unreachable or rejects writes, perhaps temporarily.
	ErrUnavailable = errors.New("the store is not available")
	// ErrDiskFull means that the store's local disk has no room.
	ErrDiskFull = errors.New("the disk is full")
	// ErrDamaged means that a stored value is permanently unreadable.
	ErrDamaged = errors.New("a stored value is damaged")
	// ErrParkingFull means that too much feedback is waiting for exchanges that are not stored yet.
	ErrParkingFull = errors.New("too much feedback is waiting for sessions that are not stored yet")
)

// Default bounds for a session's feedback, in entries (limits.feedback) and bytes. They limit the cost of a reward,
// which is computed from all feedback.
const (
	MaxFeedback      = 2000
	MaxFeedbackBytes = 16 << 20
)

// FeedbackFull is the number of a call's feedback entries that exceeded the session's limit. The other entries were
// stored.
type FeedbackFull int

func (f FeedbackFull) Error() string {
	return fmt.Sprintf("the session has reached its feedback limit; %d entries were not stored", int(f))
}

// Row is a session as stored. Data is the record as JSON.
type Row struct {
	Tenant         string
	ID             ID
	Started        time.Time
	Seen           time.Time
	Closed         bool
	StartedOffline bool // see State.StartedOffline
	IsUnit         bool // other sessions use the record's random decisions and lessons; MergeRows merges concurrent writes
	Data           []byte

	Exchanges int  // number of stored exchanges; only set for a due session (old enough to close); otherwise 0
	Unrated   bool // whether there is no feedback and FeedbackState is 0; only set for a due session
}

// Echo records that an echo key occurred in a session.
type Echo struct {
	Tenant string
	Key    EchoKey
	ID     ID
	At     time.Time
}

// Batch holds values that a store writes together. A row replaces an older row, but Closed stays true. A repeated echo,
// exchange or sample changes nothing. For the sessions in ReplacedSamples, the store deletes all samples that are not
// in Samples.
type Batch struct {
	Rows            []Row
	Echoes          []Echo
	Exchanges       []sample.Exchange
	Samples         []StoredSample
	ReplacedSamples []Ref
}

// Ref names a session.
type Ref struct {
	Tenant string
	ID     ID
}

// StoredSample is a learning sample with tenant, agent and session.
type StoredSample struct {
	Tenant string
	Agent  string
	ID     ID
	Sample sample.Sample
}

// SettledState is the reward that the counters contain for a session, with a version number.
type SettledState struct {
	Version           int64 // 0 means not closed yet
	Rewarded          bool
	Reward            float64 // valid if Rewarded
	Tier              int     // rank of the reward's source: 1 a person, 2 a verifier, 3 the traffic
	AssignmentAtClose []byte  // assignment when the session closed; each later correction starts from it
}

// Settlement adds a closed session to the counters in one atomic step. If the session's SettledState still has version
// From, the store adds the deltas to the tenant's counters, and stores To with version From+1. FeedbackState is the
// feedback's version number; if newer feedback has arrived, the session stays unsettled.
type Settlement struct {
	Tenant        string
	ID            ID
	From          int64
	To            SettledState
	Deltas        []trial.Delta
	FeedbackState int64
}

// DeadLetter marks a session or an exchange after a panic in its processing. Until Readmit, the store lists a marked
// session neither as due nor as unsettled.
type DeadLetter struct {
	Tenant   string    `json:"-"`
	ID       ID        `json:"-"`
	Exchange string    `json:"exchange,omitempty"` // "" means the session
	Step     string    `json:"step"`
	Why      string    `json:"why"`
	At       time.Time `json:"at"`
	Tries    int       `json:"-"` // how often the session or exchange was marked
}

// UnsettledSession names a closed session with feedback or exchanges that the counters do not include.
type UnsettledSession struct {
	Tenant string
	ID     ID
}

// Position identifies the state of a tenant's counters and rewards in the store. Replicas compare positions to find
// changes.
type Position struct {
	Counters           string // changes whenever the tenant's counters change
	ProvisionalRewards string // position of the newest provisional reward
}

// Erasure tells other replicas about deleted sessions.
type Erasure struct {
	Position string // position in the list of erasures
	Tenant   string
	IDs      []ID // empty: all the tenant's sessions
	At       time.Time
}

// ErrUnknownPosition means that ListRange.After does not come from a page of this store.
var ErrUnknownPosition = errors.New("the list position is unknown; start at the top of the list again")

// ListRange selects a part of a list.
type ListRange struct {
	Since, Until time.Time // Since <= time < Until; zero means no bound
	After        string    // previous page's Page.Next; "" is the start
	Limit        int
	OldestFirst  bool // sessions only
}

// Page is a part of a list. A store reads a bounded number of entries for a page, so a page can be empty although more
// entries follow.
type Page[T any] struct {
	List []T
	Next string // next page's position; "" at the end
}

// ListedSession is a session in a list, with the reward included in the counters.
type ListedSession struct {
	Row          Row
	SettledState SettledState
}

// Documents are a batch's exchanges and samples as a store keeps them.
type Documents struct {
	Sessions  []ID // sessions for the exchanges, in the same order
	Exchanges []sample.Encoded
	Samples   [][]byte // JSON
}

// Documents encodes a batch. The error is ErrInvalid, and names the first value that no store accepts.
func (b *Batch) Documents() (d Documents, err error) {
	for i := range b.Exchanges {
		e := &b.Exchanges[i]
		id, ok := ParseID(e.Session)
		switch {
		case !ok:
			return d, fmt.Errorf("exchange %q: %w: %q is not a session id", e.ID, ErrInvalid, e.Session)
		case e.ID == "":
			return d, fmt.Errorf("exchange in turn %d, session %s: %w: no id", e.Turn, id, ErrInvalid)
		}
		d.Sessions, d.Exchanges = append(d.Sessions, id), append(d.Exchanges, e.Encode())
	}
	for i := range b.Samples {
		m := &b.Samples[i]
		if m.Sample.ID == "" {
			return d, fmt.Errorf("sample in session %s: %w: no id", m.ID, ErrInvalid)
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
