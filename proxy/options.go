package proxy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"time"

	"precept/bandit"
	"precept/bandit/feedback"
	"precept/configs"
	"precept/inject/bank"
	"precept/inject/lesson"
	"precept/inject/rules"
	"precept/internal/label"
	"precept/internal/redact"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/internal/work"
	"precept/proxy/resolve"
	"precept/proxy/trace"
	"precept/store"
)

// Options configure a Proxy, and hold the parts of the program that the proxy uses.
type Options struct {
	Config  *configs.Config
	Store   Store
	Tally   *store.Metrics                      // counts turns that opted out and copies that were cut
	Chooser func(tenant string) *bandit.Chooser // the chooser of a tenant, from memory
	Book    func() *lesson.Book
	Now     func() time.Time
	Rand    io.Reader // source of random ids; safe for concurrent use
	Fleet   FleetKeys
	Log     *slog.Logger
	Metrics *Metrics
	Tracer  *trace.Tracer // nil means no traces

	Bank          Bank                                     // lessons that agents write for themselves; nil means /v1/lessons belongs to the upstream
	Consultations *ConsultationCounter                     // number of matches of each lesson
	Meaning       func(id session.ID) []lesson.Resemblance // lessons that match earlier words of a session by meaning; nil if none
	Rules         func() *rules.Registry                   // sections of rules files under measurement; nil if none
	Pending       PendingTexts                             // answers to /lesson commands for the next turn, shared by the replicas; nil means there is one replica
}

// FleetKeys are the keys that all replicas on one store share.
type FleetKeys struct {
	Salt        string // salt of the coins (random choices) if the configuration has none
	Secret      []byte // key of the hash that names tenants under tenancy by-credential
	Unconfirmed bool   // the store was unreachable, so the keys may differ from the keys in Redis until Rekey is called
}

// Store holds the methods of the store that the data listener uses.
type Store interface {
	Sessions
	Recorder
	Feedback
}

// Sessions is the memory of sessions.
type Sessions interface {
	resolve.Store
	// HoldKeys holds keys of a session until ReleaseKeys. Feedback finds held keys.
	HoldKeys(request string, keys ...session.Echo)
	// ReleaseKeys keeps or drops the keys that a request held.
	ReleaseKeys(request string, keep bool)
	// Publish writes a session for the other replicas. waited is the time for which the request has already waited for
	// the store.
	Publish(ses, unit *store.Session, x *sample.Exchange, answered []string, waited time.Duration)
	// PublishCounts starts to write a session after a turn without decisions, and does not wait.
	PublishCounts(ses *store.Session, x *sample.Exchange, answered []string)
	// PublishOptOut publishes the opt-out of the newest turn for the other replicas.
	PublishOptOut(ses *store.Session, waited time.Duration)
}

// Recorder stores exchanges. No method blocks.
type Recorder interface {
	// BeginTurn admits an exchange before its request is sent. Offer or Abandon ends the admission.
	BeginTurn(x *sample.Exchange) *store.TurnStart
	// Abandon ends the admission of an exchange that is not offered. After Offer, Abandon has no effect.
	Abandon(b *store.TurnStart)
	// Offer passes a turn to the recorder. Offer returns false if the recorder has no room.
	Offer(t store.Turn) bool
	// OptedOut reports whether the exchange names a path that opted out.
	OptedOut(x *sample.Exchange, answered []string) bool
	// Problem names the part of the store that does not work; "" means all parts work.
	Problem() string
}

// Feedback stores the feedback of clients about sessions.
type Feedback interface {
	Rate(ctx context.Context, tenant string, p feedback.Post) (store.Posted, error)
	// RateWork stores feedback on the sessions that worked on a commit, a branch or a pull request of the
	// first known group.
	RateWork(ctx context.Context, tenant string, groups [][]work.Ref, e feedback.Entry) (store.Posted, error)
}

// Bank stores the lessons of agents.
type Bank interface {
	List(ctx context.Context) (*lesson.Book, []lesson.Problem, error)
	Propose(ctx context.Context, p bank.Proposal) (bank.Result, error)
	Revise(ctx context.Context, slug string, p bank.Proposal) (bank.Result, error)
	Record(ctx context.Context, p bank.Proposal) (bank.Result, bank.RecordOutcome, error)
	Withdraw(ctx context.Context, slug string, scope lesson.Scope, by string) error
}

// PendingTexts stores texts, such as the answers to /lesson commands, for the replica that serves the next
// turn of a session.
type PendingTexts interface {
	PutAnswer(ctx context.Context, tenant string, id session.ID, name, text string) error
	// Answer returns the text stored under a name. ok is false if no text is stored.
	Answer(ctx context.Context, tenant string, id session.ID, name string) (text string, ok bool, err error)
	// DeleteAnswer deletes the text stored under a name.
	DeleteAnswer(ctx context.Context, tenant string, id session.ID, name string) error
}

// rules returns the sections under measurement, nil for none.
func (o *Options) rules() *rules.Registry {
	if o.Rules == nil {
		return nil
	}
	return o.Rules()
}

// newID returns an id, which is a prefix and 12 random bytes in hexadecimal digits.
func (o *Options) newID(prefix string) string {
	b := o.entropy()
	return prefix + hex.EncodeToString(b[:12])
}

// entropy returns 16 random bytes.
func (o *Options) entropy() (b [16]byte) {
	if _, err := io.ReadFull(o.Rand, b[:]); err != nil {
		// The random source of the system does not fail. If it did, ids made from the time would still differ.
		sum := sha256.Sum256([]byte(o.Now().String()))
		copy(b[:], sum[:])
	}
	return b
}

// log returns the logger of a request. Every line has the Precept-Request-Id. No line quotes a
// request or a reply.
func (o *Options) log(w *clientWriter) *slog.Logger {
	if w.id == "" {
		w.id = o.newID("req_")
	}
	return o.logOf(w.id)
}

// logOf returns the logger of work that follows from a request.
func (o *Options) logOf(request string) *slog.Logger { return o.Log.With("request", request) }

// runStep runs one step of learning, and reports whether the step did not panic. runStep counts and logs a
// panic, and the request continues without the step.
func (o *Options) runStep(step label.Step, log func() *slog.Logger, f func()) (ok bool) {
	defer func() {
		if v := recover(); v != nil {
			o.Metrics.FailedOpen(step)
			log().Error("a step panicked; the request continues without the step", "step", step, "panic", redact.SafePanicText(v))
		}
	}()
	f()
	return true
}
