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

// Options configure a Proxy.
type Options struct {
	Config  *configs.Config
	Store   Store
	Tally   *store.Metrics
	Chooser func(tenant string) *bandit.Chooser
	Book    func() *lesson.Book
	Now     func() time.Time
	Rand    io.Reader // safe for concurrent use
	Fleet   FleetKeys
	Log     *slog.Logger
	Metrics *Metrics
	Tracer  *trace.Tracer // nil means no traces

	Bank          Bank                                     // nil means /v1/lessons belongs to the upstream
	Consultations *ConsultationCounter                     // matches by lesson
	Meaning       func(id session.ID) []lesson.Resemblance // lessons that resemble the session's earlier words in meaning; nil means none
	Rules         func() *rules.Registry                   // rules file sections that are being measured; nil means none
	Answers       AnswerStore                              // nil means one replica
}

// FleetKeys are keys shared by all replicas.
type FleetKeys struct {
	Salt        string // salt for the random choices if the configuration has none
	Secret      []byte // hash key for tenants under tenancy by-credential
	Unconfirmed bool   // the store was unreachable, so the keys may differ from those in Redis until Rekey
}

// Store stores sessions, exchanges and feedback.
type Store interface {
	Sessions
	Recorder
	Feedback
}

// Sessions is the session memory.
type Sessions interface {
	resolve.Store
	// HoldKeys holds keys, by which feedback finds a session, until ReleaseKeys.
	HoldKeys(request string, keys ...session.Echo)
	// ReleaseKeys writes the keys held by a request, or drops them if keep is false.
	ReleaseKeys(request string, keep bool)
	// Publish writes a session for the other replicas. answered holds the arguments of the calls with results, which
	// Publish searches for opted-out paths. waited is how long the request has already waited for the store.
	Publish(ses, unit *store.Session, x *sample.Exchange, answered []string, waited time.Duration)
	// PublishCounts writes a session after a turn without decisions, in the background.
	PublishCounts(ses *store.Session, x *sample.Exchange, answered []string)
	PublishOptOut(ses *store.Session, waited time.Duration)
}

// Recorder stores exchanges. No method blocks.
type Recorder interface {
	// BeginTurn registers an exchange before the request is sent. Offer or Abandon ends the registration.
	BeginTurn(x *sample.Exchange) *store.TurnStart
	// Abandon ends a registration without storing the exchange.
	Abandon(start *store.TurnStart)
	// Offer passes a turn to the recorder, or returns false if the queue is full.
	Offer(t store.Turn) bool
	// OptedOut reports whether the exchange names an opted-out path.
	OptedOut(x *sample.Exchange, answered []string) bool
	// Problem names a failing part of the store; "" means none.
	Problem() string
}

// Feedback stores client feedback on sessions.
type Feedback interface {
	Rate(ctx context.Context, tenant string, p feedback.Post) (store.Posted, error)
	// RateWork tries groups of commits, branches and pull requests in order. It stores feedback on the sessions that
	// worked on the first group with a known reference.
	RateWork(ctx context.Context, tenant string, groups [][]work.Ref, e feedback.Entry) (store.Posted, error)
}

// Bank stores agents' lessons.
type Bank interface {
	List(ctx context.Context) (*lesson.Book, []lesson.Problem, error)
	Propose(ctx context.Context, p bank.Proposal) (bank.Result, error)
	Revise(ctx context.Context, slug string, p bank.Proposal) (bank.Result, error)
	Record(ctx context.Context, p bank.Proposal) (bank.Result, bank.RecordOutcome, error)
	Withdraw(ctx context.Context, slug string, scope lesson.Scope, by string) error
}

// AnswerStore stores answers to /lesson commands for the replica that serves the next turn.
type AnswerStore interface {
	PutAnswer(ctx context.Context, tenant string, id session.ID, name, text string) error
	Answer(ctx context.Context, tenant string, id session.ID, name string) (text string, ok bool, err error)
	DeleteAnswer(ctx context.Context, tenant string, id session.ID, name string) error
}

func (o *Options) rules() *rules.Registry {
	if o.Rules == nil {
		return nil
	}
	return o.Rules()
}

// newID returns the prefix and 12 random bytes in hexadecimal digits.
func (o *Options) newID(prefix string) string {
	b := o.entropy()
	return prefix + hex.EncodeToString(b[:12])
}

func (o *Options) entropy() (b [16]byte) {
	if _, err := io.ReadFull(o.Rand, b[:]); err != nil {
		// crypto/rand never fails. If another source fails, ids made from the time still differ.
		sum := sha256.Sum256([]byte(o.Now().String()))
		copy(b[:], sum[:])
	}
	return b
}

// log adds the Precept-Request-Id to every line. No line quotes a request or a reply.
func (o *Options) log(w *clientWriter) *slog.Logger {
	if w.id == "" {
		w.id = o.newID("req_")
	}
	return o.requestLog(w.id)
}

func (o *Options) requestLog(request string) *slog.Logger { return o.Log.With("request", request) }

// runStep runs one learning step. A panic is counted and logged, and the request continues without the step.
func (o *Options) runStep(step label.Step, log func() *slog.Logger, f func()) (ok bool) {
	defer func() {
		if v := recover(); v != nil {
			o.Metrics.FailedOpen(step)
			log().Error("a learning step panicked; the request continues without it", "step", step, "panic", redact.SafePanicText(v))
		}
	}()
	f()
	return true
}
