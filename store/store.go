package store

import (
	"context"
	"time"

	"precept/bandit/feedback"
	"precept/internal/guard"
	"precept/internal/label"
	"precept/internal/redact"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/internal/work"
)

// Options configure a Store. A field is required unless its comment says otherwise.
type Options struct {
	Now               func() time.Time
	AgeNow            func(ctx context.Context) (earliest, latest time.Time, err error) // times by the fleet's clocks, to measure Retention; nil means Now
	Backend           Backend
	Fleet             Fleet         // Backend if replicas share it; nil means this process owns the backend
	Replica           string        // name of this process, different after each start
	BackendAbsent     bool          // the backend did not answer at the start
	LookupTimeout     time.Duration // longest wait for the backend in a request; 0 means 45 ms
	MaxSessions       int           // sessions in memory (limits.sessions); 0 means 20,000
	MaxTenantSessions int           // sessions per tenant in memory (limits.tenant_sessions); 0 means no limit
	Retention         time.Duration // sessions are deleted this long after the last use; 0 means never
	Sentiment         bool          // the user's sentiment is implicit feedback
	Queue             QueueOptions
	Content           ContentOptions
	Exchanges         *ExchangeCache // cache; nil means every reader asks the backend
	Hooks             Hooks
}

// QueueOptions bound the exchanges that wait for the backend.
type QueueOptions struct {
	Path           string        // outbox file; "" means exchanges wait only in memory
	MaxBytes       int64         // largest total row size in the outbox (limits.outbox_bytes)
	MaxTenantBytes int64         // largest row size per tenant in the outbox (limits.tenant_bytes); 0 means no limit
	MultiTenant    bool          // a nearly full outbox first drops the largest tenant's exchanges
	MaxMemoryBytes int64         // largest total size for exchanges in memory (limits.capture_total_bytes)
	DeliverEvery   time.Duration // longest pause between deliveries; 0 means none
}

// ContentOptions says whether and how content is stored.
type ContentOptions struct {
	StoreContent   bool               // keep exchanges and samples (learning.enabled)
	OptOut         *sample.OptOut     // nil means nothing opted out
	Secret         []byte             // HMAC key for opt-out mark names; nil means no marks
	RedactPersonal bool               // also redact personal data, not only secrets
	CleanTexts     *redact.CleanTexts // texts with nothing to redact; nil means every text is scanned
}

// Hooks are functions that the store calls. A hook must not block.
type Hooks struct {
	OnFailure        func(step label.Step, err error)
	OnPanic          func(step label.Step, value any)
	OnRecovery       func()                   // called when a write succeeds after a failed one; may be nil
	OnOutboxRecovery func()                   // called when the outbox accepts exchanges after a failure; may be nil
	OnErasure        func()                   // called after sessions were deleted, on request or by age; may be nil
	OnRecorded       func(x *sample.Exchange) // called with a kept, redacted exchange; must not change x; may be nil
	// OnDamage is called when a list or an export leaves out a session with a damaged exchange; may be nil.
	OnDamage func(ref session.Ref, err error)
	// OnUnreplicated is called at the end of Run if a failover of the backend could lose the last deletions, opt-outs
	// or posted feedback; may be nil.
	OnUnreplicated func(err error)
	// Before is called before each step on a session or an exchange; may be nil. Tests use it to make a step panic.
	Before func(step label.Step, id session.ID, exchange string)
}

// Store holds a running precept's sessions, and writes exchanges and feedback to the backend. Open makes a Store, Run
// does the background work, and Close ends the Store. All methods are safe for concurrent use.
//
// Each part calls only parts listed above it, except that deliverer calls deleter.followReplicas.
type Store struct {
	Metrics Metrics

	options *Options
	guard   *guard.Guard
	state   *state

	inbox       *inbox
	changes     *changeQueue
	optOuts     *optOutFilter // decides whether content can be stored
	sessions    *sessions
	rewardQueue *rewardQueue // sessions awaiting a new reward
	poster      *poster
	publisher   *publisher // writes decisions that other replicas need immediately
	recorder    *recorder  // writes turns and changes to the outbox
	deliverer   *deliverer // writes outbox rows to the backend
	deleter     *sessionDeleter

	done *doneSignal // closed when Run ends
}

// Guard returns the store's panic guard. Other packages also use it, so that all of them skip a session that is set
// aside after a panic.
func (s *Store) Guard() *guard.Guard { return s.guard }

// Archive returns the store's read side. reward is the active reward definition.
func (s *Store) Archive(reward feedback.Definition) *Archive {
	return &Archive{
		now: s.options.Now, backend: s.options.Backend, exchanges: s.Exchanges, reward: reward, optOut: &s.optOuts.rules, redactor: s.optOuts.newRedactor,
		onDamage: s.options.Hooks.OnDamage,
	}
}

// Healthy reports whether the last write to the backend and the last write to the outbox succeeded.
func (s *Store) Healthy() bool { return !s.state.backendDown.Load() && !s.state.outboxFailed.Load() }

// NothingStored is Problem's result if the data directory is not writable.
const NothingStored = "nothing is stored, because the data directory is not writable"

// Problem describes a failing part of the store, and the effect; "" means all parts work.
func (s *Store) Problem() string {
	full := s.state.outboxFull.Load() && s.deliverer.handoff.outbox != nil && s.LatePosts()+s.Metrics.Pending.Load() > 0
	switch {
	case s.state.storesNothing:
		return NothingStored
	case s.state.backendDown.Load() && full:
		return "precept cannot write to the store, and the outbox is full: new exchanges are dropped"
	case s.state.backendDown.Load():
		return "precept cannot write to the store"
	case full:
		return "the outbox is full: new exchanges are dropped"
	case s.state.outboxFailed.Load():
		return "precept cannot write to the outbox"
	case s.options.Queue.Path != "" && s.deliverer.handoff.outbox == nil:
		return "the outbox cannot be opened: exchanges wait in memory"
	}
	return ""
}

// Done returns a channel that is closed when Run has ended.
func (s *Store) Done() <-chan struct{} { return s.done.done }

// Sessions returns the number of sessions in memory.
func (s *Store) Sessions() int { return s.sessions.live.count() }

// IsShared reports whether other replicas serve the same sessions.
func (s *Store) IsShared() bool { return s.sessions.hasReplicas() }

// Acquire looks for the session in memory, then in the backend for at most Options.LookupTimeout, and pins it: a pinned
// session stays in memory until Release. ses is nil if the tenant has no such session.
//
// uncertain means that the session might exist although ses is nil, because the backend did not answer in time, the row
// is only in the outbox, or memory is full. A new session that then begins is excluded from the experiment.
func (s *Store) Acquire(ctx context.Context, tenant string, id session.ID) (ses *Session, uncertain bool) {
	return s.sessions.acquire(ctx, tenant, id)
}

// AcquireInMemory returns and pins a session in memory; nil means not in memory.
func (s *Store) AcquireInMemory(id session.ID) *Session { return s.sessions.acquireInMemory(id) }

// FullReason returns the reason why no session can begin for a tenant, or "". Memory is full if no session can be
// evicted, and limits.sessions (less a reserved share) or the tenant's limits.tenant_sessions is reached.
func (s *Store) FullReason(tenant string) label.Reason {
	return s.sessions.live.fullReason(tenant, s.state.progress())
}

// Add adds and pins a new session. If another request has already added the session, Add pins and returns that one. If
// memory is full, Add returns nil, and the request is forwarded without lessons and without a record.
func (s *Store) Add(rec *session.Record) *Session { return s.sessions.add(rec) }

// AddMember makes rec's session a member of unit, a pinned run or parent session. rec must not yet be in use by another
// goroutine.
func (s *Store) AddMember(unit *Session, rec *session.Record) {
	unit.Record.Mutex.Lock()
	defer unit.Record.Mutex.Unlock()
	unit.Record.AddMember(rec)
}

// Release ends a pin, and queues the session's row for the recorder if the turn changed the record.
func (s *Store) Release(ses *Session, c Change) { s.changes.Release(ses, c) }

// Refresh reads a session from the backend again, because another replica might have continued it. A session that began
// while the backend did not answer adopts the stored record, and is excluded from the experiment, because a turn got no
// lessons. If the backend does not answer, the session stays unchanged.
func (s *Store) Refresh(ctx context.Context, ses *Session) { s.sessions.refresh(ctx, ses) }

// RefreshUnit reads a unit (a run or a parent session) from the backend again, because other replicas might have
// assigned the lessons at random. If the backend does not answer, the unit stays unchanged, which is safe, because all
// replicas compute the same assignment.
func (s *Store) RefreshUnit(ctx context.Context, unit *Session) { s.sessions.refreshUnit(ctx, unit) }

// ApplyOptOut hides the opted-out turns in a new session's record, if another replica has stored an opt-out mark. items
// is the number of items from earlier turns. All earlier turns are hidden if the backend does not answer, or did not
// answer earlier in this request (uncertain).
func (s *Store) ApplyOptOut(ctx context.Context, rec *session.Record, items int, uncertain bool) {
	s.sessions.applyOptOut(ctx, rec, items, uncertain)
}

// FindByEchoes returns the sessions with the given echo keys from the backend, within Options.LookupTimeout. An echo
// key is a hash of a text or id, and leads feedback and later requests to a session. uncertain means that some might be
// missing, because the backend did not answer in time or rows are only in the outbox.
func (s *Store) FindByEchoes(ctx context.Context, tenant string, keys []session.EchoKey) (found map[session.EchoKey][]session.ID, uncertain bool) {
	return s.sessions.findByEchoes(ctx, tenant, keys)
}

// Member returns a session's name and unit; ok is false if the tenant has no such session.
func (s *Store) Member(ctx context.Context, tenant string, id session.ID) (member session.Member, ok bool, err error) {
	return s.sessions.member(ctx, tenant, id)
}

// NewestRecord returns a closing session's newest record, from memory or from row.
func (s *Store) NewestRecord(row *session.Row) *session.Record { return s.sessions.newestRecord(row) }

// Snapshot returns a copy of a live session's record, without the texts, or nil.
func (s *Store) Snapshot(ref session.Ref) *session.Record { return s.sessions.snapshot(ref) }

// BeginTurn records that a turn is in progress, and never blocks. If the program dies before the turn ends, the backend
// gets a stub, the exchange without content. The identity and the decisions in x must be final; other fields can change
// until Offer.
func (s *Store) BeginTurn(x *sample.Exchange) *TurnStart { return s.inbox.BeginTurn(x) }

// Abandon ends a turn from BeginTurn that is not offered, because a step failed.
func (s *Store) Abandon(start *TurnStart) { s.inbox.Abandon(start) }

// Offer passes a finished turn to the recorder, and never blocks. If the queue or the memory for exchanges is full,
// Offer drops and counts the turn, and returns false.
func (s *Store) Offer(t Turn) bool { return s.inbox.Offer(t) }

// AddEchoes records echo keys. Feedback finds the keys' sessions immediately in this process, and after the next
// delivery in other replicas.
func (s *Store) AddEchoes(echoes ...session.Echo) { s.changes.AddEchoes(echoes...) }

// HoldKeys is like AddEchoes, for a request with an exchange that might have opted out. The keys are not written before
// ReleaseKeys.
func (s *Store) HoldKeys(request string, echoes ...session.Echo) {
	s.changes.HoldKeys(request, echoes...)
}

// ReleaseKeys writes the held keys if keep is true, and drops them otherwise.
func (s *Store) ReleaseKeys(request string, keep bool) { s.changes.ReleaseKeys(request, keep) }

// OptedOut reports whether an exchange opted out, because a call in the reply or in answered names an opted-out path.
// answered has the call arguments for the tool results in the exchange, and for calls to the provider's own tools.
//
// OptedOut also removes any items in x that repeat an opted-out exchange, stores the result in the session, and calls
// ReleaseKeys.
func (s *Store) OptedOut(x *sample.Exchange, answered []string) bool {
	return s.optOuts.OptedOut(x, answered)
}

// Publish writes a turn's decisions to a shared backend before the client has received the end of the response, because
// the client's next request can reach a different replica. unit is the run or parent that shares the session's lesson
// assignment, or nil. waited is how long the request has waited for the backend.
//
// A failed or slow write loses nothing, because the recorder's next batch has the same rows. Without other replicas
// Publish does nothing.
func (s *Store) Publish(ses, unit *Session, x *sample.Exchange, answered []string, waited time.Duration) {
	s.publisher.Publish(ses, unit, x, answered, waited)
}

// PublishCounts starts writing the session's row after a turn without decisions, so that other replicas can read the
// counts. A single replica writes nothing.
func (s *Store) PublishCounts(ses *Session, x *sample.Exchange, answered []string) {
	s.publisher.PublishCounts(ses, x, answered)
}

// PublishOptOut writes to a shared backend that a session's newest turn opted out. waited is as in Publish.
func (s *Store) PublishOptOut(ses *Session, waited time.Duration) {
	s.publisher.PublishOptOut(ses, waited)
}

// Rate stores posted feedback on the session, run, request, response or sample named by the post, or on sessions with
// tool results that contain the post's commit, branch or pull request. The error is ErrNoSession for an unknown sample,
// and a *WorkError for an unknown commit, branch or pull request.
func (s *Store) Rate(ctx context.Context, tenant string, p feedback.Post) (Posted, error) {
	return s.poster.rate(ctx, tenant, p)
}

// RateWork tries the reference groups in order. It stores feedback on the newest sessions with a tool result that
// contains a reference from the first group found. If no group is found, the error is a *WorkError.
func (s *Store) RateWork(ctx context.Context, tenant string, groups [][]work.Ref, e feedback.Entry) (Posted, error) {
	return s.poster.post(ctx, tenant, &subject{Works: groups}, e)
}

// Post stores one feedback entry on the first known session. Post tries candidates, then the echo key, then fallbacks.
// If no session is known, the entry is parked until an exchange with the key arrives.
func (s *Store) Post(
	ctx context.Context, tenant string, candidates []session.ID, key session.EchoKey, e feedback.Entry, fallbacks ...session.ID,
) (Posted, error) {
	return s.poster.post(ctx, tenant, &subject{Candidates: candidates, Key: key, Fallbacks: fallbacks}, e)
}

// PostFeedback adds feedback to sessions, and counts entries beyond a session's feedback limit.
func (s *Store) PostFeedback(ctx context.Context, tenant string, entries map[session.ID][]feedback.Entry) error {
	return s.poster.feedback.addAndCount(ctx, tenant, entries)
}

// QueueCorrection queues a session, so that the learner recomputes the reward.
func (s *Store) QueueCorrection(tenant string, id session.ID) { s.rewardQueue.add(tenant, id) }

// TakeQueuedCorrections removes and returns the queued sessions.
func (s *Store) TakeQueuedCorrections() map[session.Ref]bool { return s.rewardQueue.take() }

// RedactImported redacts imported exchanges, and leaves out opted-out ones. answered has the call arguments for each
// exchange, as in OptedOut.
func (s *Store) RedactImported(list []sample.Exchange, answered [][]string) []sample.Exchange {
	return s.optOuts.redactImported(list, answered)
}

// SetOptOut replaces the opt-out rules.
func (s *Store) SetOptOut(rules *sample.OptOut) { s.optOuts.rules.Store(rules) }

// OptOut returns the opt-out rules; nil means nothing opted out.
func (s *Store) OptOut() *sample.OptOut { return s.optOuts.rules.Load() }

// SetRedactPersonal turns the redaction of personal data on or off. Secrets are always redacted.
func (s *Store) SetRedactPersonal(on bool) { s.recorder.SetRedactPersonal(on) }

// SetRetention replaces the age for deleting sessions; 0 means never.
func (s *Store) SetRetention(age time.Duration) { s.deleter.setRetention(age) }

// ForgetSession deletes the tenant's sessions with the given name, and returns the session count. name is the client's
// name for the session, precept's name, or the session id. Equal names in different headers are different sessions.
// Later content is rejected, and counters keep the deleted sessions' contributions.
//
// Other replicas delete the sessions within seconds. Run executes the deletion; without Run, ForgetSession waits until
// ctx ends.
func (s *Store) ForgetSession(ctx context.Context, tenant, name string) (int, error) {
	return s.deleter.forgetSession(ctx, tenant, name)
}

// ForgetTenant is like ForgetSession, for all the tenant's sessions.
func (s *Store) ForgetTenant(ctx context.Context, tenant string) (int, error) {
	return s.deleter.forgetTenant(ctx, tenant)
}

// WithDeliveryPaused runs f under deliverer.deliveryMu, so that no outbox row is delivered and no session is deleted
// while f runs. Publish, Post and Import can still write to the backend.
func (s *Store) WithDeliveryPaused(f func()) {
	s.deliverer.deliveryMu.Lock()
	defer s.deliverer.deliveryMu.Unlock()
	f()
}
