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
	Backend           Backend
	Fleet             Fleet         // equal to Backend if replicas share the backend; nil means this process owns the backend
	Replica           string        // name of this process among the replicas, different after each start
	BackendAbsent     bool          // the backend did not answer at the start
	LookupTimeout     time.Duration // longest wait of a request for the backend; 0 means 45 ms
	MaxSessions       int           // maximum number of sessions in memory (limits.sessions); 0 means 20,000
	MaxTenantSessions int           // maximum number of sessions of one tenant in memory (limits.tenant_sessions); 0 means no limit
	Retention         time.Duration // age at which a session is deleted, counted from its last use; 0 means never
	Sentiment         bool          // the user's sentiment counts as implicit feedback
	Queue             QueueOptions
	Content           ContentOptions
	Exchanges         *ExchangeCache // cache of stored exchanges; nil means every reader asks the backend
	Hooks             Hooks
}

// QueueOptions bound the exchanges that wait for the backend, in memory and in the outbox.
type QueueOptions struct {
	Path           string        // file of the outbox; "" means exchanges wait only in memory
	MaxBytes       int64         // maximum size of the rows in the outbox (limits.outbox_bytes)
	MaxTenantBytes int64         // maximum size of the rows of one tenant in the outbox (limits.tenant_bytes); 0 means no limit
	MultiTenant    bool          // several tenants may exist; a nearly full outbox then drops exchanges of the tenant with the most bytes first
	MaxMemoryBytes int64         // maximum size of the exchanges in memory (limits.capture_total_bytes)
	DeliverEvery   time.Duration // longest pause between two deliveries; 0 means every flush is delivered
}

// ContentOptions say which content is stored, and in which form.
type ContentOptions struct {
	StoreContent   bool               // keep exchanges and samples (learning.enabled)
	OptOut         *sample.OptOut     // opt-out rules; nil means nothing opted out
	Secret         []byte             // HMAC key of the names of opt-out marks; nil means no marks are kept
	RedactPersonal bool               // also redact personal data, not only secrets
	CleanTexts     *redact.CleanTexts // cache of texts with nothing to redact; nil means every text is scanned
}

// Hooks are functions that the store calls. A hook must not block.
type Hooks struct {
	OnFailure        func(step label.Step, err error) // called for every failure
	OnPanic          func(step label.Step, value any) // called for every panic
	OnRecovery       func()                           // called when a write to the backend succeeds after a failed one; nil means not called
	OnOutboxRecovery func()                           // called when the outbox accepts exchanges after a failure; nil means not called
	OnErasure        func()                           // called when sessions were deleted, on request or by age; nil means not called
	OnRecorded       func(x *sample.Exchange)         // called for every exchange that is kept, after redaction; must not change x; nil means not called
	// OnDamage is called when a list or an export leaves out a session with a damaged exchange; nil means not called.
	OnDamage func(ref session.Ref, err error)
	// Before is called before each step on a session or an exchange; nil means not called. Tests use Before to make a
	// step panic.
	Before func(step label.Step, id session.ID, exchange string)
}

// Store holds the sessions of a running precept, and writes exchanges and feedback to the backend.
// Open makes a Store, Run does the work in the background, Close ends the Store. All methods are
// safe for concurrent use.
//
// The fields from inbox to eraser are the parts of the Store. Each part guards its own data, and calls only parts that
// are listed above it. The one exception is shipper, which calls eraser.followReplicas before each delivery.
type Store struct {
	Metrics Metrics

	options *Options
	guard   *guard.Guard
	state   *state

	inbox       *inbox          // turns that requests offer
	changes     *changeQueue    // changed sessions and new echo keys of requests
	optOuts     *optOutFilter   // decides which content may be kept
	sessions    *sessions       // finds sessions in memory and in the backend
	rewardQueue *rewardQueue    // sessions with new feedback, whose reward must be computed again
	poster      *poster         // stores posted feedback
	publisher   *publisher      // writes decisions that other replicas need at once
	recorder    *recorder       // moves turns, rows and keys from inbox and changes to the outbox
	deliverer   *deliverer      // moves rows from the outbox to the backend
	deleter     *sessionDeleter // deletes sessions

	done *doneSignal // closed at the end of Run
}

// Guard returns the store's panic guard. Other packages that work on the same sessions use the same guard, so
// that all of them skip a session that the guard has set aside after a panic.
func (s *Store) Guard() *guard.Guard { return s.guard }

// Archive returns an Archive, which reads stored data. reward is the active definition of the reward.
func (s *Store) Archive(reward feedback.Definition) *Archive {
	return &Archive{
		now: s.options.Now, backend: s.options.Backend, exchanges: s.Exchanges, reward: reward, optOut: &s.optOuts.rules, redactor: s.optOuts.newRedactor,
		onDamage: s.options.Hooks.OnDamage,
	}
}

// Healthy reports whether the last write to the backend and the last write to the outbox succeeded.
func (s *Store) Healthy() bool { return !s.state.backendDown.Load() && !s.state.outboxFailed.Load() }

// NothingStored is the result of Problem if the data directory cannot be written.
const NothingStored = "nothing is stored, because the data directory cannot be written"

// Problem returns a sentence about a part of the store that does not work, and about the effect. Problem returns ""
// if all parts work.
func (s *Store) Problem() string {
	full := s.state.outboxFull.Load() && s.deliverer.handoff.outbox != nil && s.LatePosts()+s.Metrics.Pending.Load() > 0
	switch {
	case s.state.storesNothing:
		return NothingStored
	case s.state.backendDown.Load() && full:
		return "the store cannot be written, and the outbox is full: new exchanges are dropped"
	case s.state.backendDown.Load():
		return "the store cannot be written"
	case full:
		return "the outbox is full: new exchanges are dropped"
	case s.state.outboxFailed.Load():
		return "the outbox cannot be written"
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

// Acquire looks for the session in memory, then in the backend for at most Options.LookupTimeout, and pins the session.
// A pinned session stays in memory. The caller ends the pin with Release. ses is nil if the tenant has no such session.
// uncertain reports that the session may exist although ses is nil: the backend did not answer in time, the session's
// row may be only in the outbox, or memory has no room for the stored session. If the caller then begins a new
// session, the new session is excluded from the experiment.
func (s *Store) Acquire(ctx context.Context, tenant string, id session.ID) (ses *Session, uncertain bool) {
	return s.sessions.acquire(ctx, tenant, id)
}

// AcquireInMemory returns a session from memory, and pins it; nil means the session is not in memory.
func (s *Store) AcquireInMemory(id session.ID) *Session { return s.sessions.acquireInMemory(id) }

// FullReason returns the reason why no session of a tenant may begin, or "" if a session may begin. No session may
// begin when memory has limits.sessions sessions, less a reserved share, and none can be evicted, because requests
// use them or the backend does not have their rows yet. limits.tenant_sessions limits the sessions of one tenant in
// the same way.
func (s *Store) FullReason(tenant string) label.Reason {
	return s.sessions.live.fullReason(tenant, s.state.progress())
}

// Add adds a new session to memory, and pins it. If another request has added the session meanwhile, Add pins and
// returns that session. If memory is full, Add returns nil, and the request is forwarded without lessons and without a
// record.
func (s *Store) Add(rec *session.Record) *Session { return s.sessions.add(rec) }

// AddMember makes the session of rec a member of unit, a run or a parent session that the caller has pinned. No other
// goroutine may have rec yet.
func (s *Store) AddMember(unit *Session, rec *session.Record) {
	unit.Record.Mutex.Lock()
	defer unit.Record.Mutex.Unlock()
	unit.Record.AddMember(rec)
}

// Release ends a pin. If the turn changed the record of the session, Release queues the session's row for the recorder.
func (s *Store) Release(ses *Session, c Change) { s.changes.Release(ses, c) }

// Refresh reads a session from the backend again, within Options.LookupTimeout. It is called if another replica may
// have continued the session. A stand-in is a session that began while the backend did not answer. A stand-in adopts
// the stored record, and is excluded from the experiment, because one of its turns got no lessons. If the backend does
// not answer, the session stays unchanged.
func (s *Store) Refresh(ctx context.Context, ses *Session) { s.sessions.refresh(ctx, ses) }

// RefreshUnit reads a unit (a run or a parent session) from the backend again, if other replicas may have flipped coins
// of the unit. A coin is the random decision to inject or to withhold a lesson. If the backend does not answer, the
// unit stays unchanged. This loses no coin, because all replicas flip the same coins.
func (s *Store) RefreshUnit(ctx context.Context, unit *Session) { s.sessions.refreshUnit(ctx, unit) }

// ApplyOptOut hides the opted-out turns in the record of a new session, if another replica has stored an opt-out mark
// of the session. items is the number of items of the earlier turns, which the client sends again. uncertain reports
// that the backend did not answer an earlier read of this request. If uncertain is true, or if the backend does not
// answer now, ApplyOptOut hides the items of all earlier turns.
func (s *Store) ApplyOptOut(ctx context.Context, rec *session.Record, items int, uncertain bool) {
	s.sessions.applyOptOut(ctx, rec, items, uncertain)
}

// FindByEchoes returns the sessions in which echo keys occurred, from the backend, within Options.LookupTimeout. An
// echo key is the hash of a text or an id, by which feedback and later requests find a session. uncertain reports that
// sessions may be missing from found, because the backend did not answer in time, or because no session was found while
// some rows are only in the outbox.
func (s *Store) FindByEchoes(ctx context.Context, tenant string, keys []session.EchoKey) (found map[session.EchoKey][]session.ID, uncertain bool) {
	return s.sessions.findByEchoes(ctx, tenant, keys)
}

// Member returns the name and the unit of a session; ok is false if the tenant has no such session.
func (s *Store) Member(ctx context.Context, tenant string, id session.ID) (member session.Member, ok bool, err error) {
	return s.sessions.member(ctx, tenant, id)
}

// NewestRecord returns the newest record of a session that closes. This is the record in memory. It is the record in
// row if the session is not in memory, or if another replica has continued the session.
func (s *Store) NewestRecord(row *session.Row) *session.Record { return s.sessions.newestRecord(row) }

// Snapshot returns a copy of the record of a session in memory, without the texts; nil means the session is not in
// memory.
func (s *Store) Snapshot(ref session.Ref) *session.Record { return s.sessions.snapshot(ref) }

// BeginTurn records that a turn is in progress, and never blocks. If the program dies before the turn
// ends, the backend gets a stub, the exchange without its content. The identity and the decisions in x
// must be final. The caller may set the other fields until Offer.
func (s *Store) BeginTurn(x *sample.Exchange) *TurnStart { return s.inbox.BeginTurn(x) }

// Abandon ends a turn that Begin recorded and that is not offered, because a step failed.
func (s *Store) Abandon(start *TurnStart) { s.inbox.Abandon(start) }

// Offer passes a finished turn to the recorder, and never blocks. If the queue or the memory for
// exchanges is full, Offer drops and counts the turn, and returns false.
func (s *Store) Offer(t Turn) bool { return s.inbox.Offer(t) }

// AddEchoes records echo keys. In this process, feedback finds the sessions of the keys at once. In other replicas,
// feedback finds the sessions after the next delivery.
func (s *Store) AddEchoes(echoes ...session.Echo) { s.changes.AddEchoes(echoes...) }

// HoldKeys is like AddEchoes, for the keys of a request whose exchange may have opted out. The keys are written only
// after ReleaseKeys.
func (s *Store) HoldKeys(request string, echoes ...session.Echo) {
	s.changes.HoldKeys(request, echoes...)
}

// ReleaseKeys writes the keys of a request that HoldKeys holds if keep is true, and drops them otherwise.
func (s *Store) ReleaseKeys(request string, keep bool) { s.changes.ReleaseKeys(request, keep) }

// OptedOut reports whether an exchange opted out, because a call in its reply or a call in answered names an opted-out
// path. answered holds the arguments of the calls that the exchange's tool results or the provider's tools answer. The
// exchange need not be recorded. OptedOut also removes from x the items that repeat an earlier opted-out exchange,
// stores the result in the record of the session, and calls ReleaseKeys for the request.
func (s *Store) OptedOut(x *sample.Exchange, answered []string) bool {
	return s.optOuts.OptedOut(x, answered)
}

// Publish writes the decisions of a turn to a shared backend before the client has the end of the response, because
// the client's next request may reach another replica. unit is the run or the parent whose coins the session shares;
// nil means none. answered is as in OptedOut. waited is the time for which the request has already waited for the
// backend. A write that fails or takes too long loses nothing, because the recorder's next batch has the same rows.
// Without other replicas Publish does nothing.
func (s *Store) Publish(ses, unit *Session, x *sample.Exchange, answered []string, waited time.Duration) {
	s.publisher.Publish(ses, unit, x, answered, waited)
}

// PublishCounts starts to write the row of a session after a turn without decisions, so that the other replicas can
// read its counts. Without other replicas PublishCounts does nothing.
func (s *Store) PublishCounts(ses *Session, x *sample.Exchange, answered []string) {
	s.publisher.PublishCounts(ses, x, answered)
}

// PublishOptOut writes to a shared backend that the newest turn of a session opted out. waited is as in Publish.
func (s *Store) PublishOptOut(ses *Session, waited time.Duration) {
	s.publisher.PublishOptOut(ses, waited)
}

// Rate stores posted feedback on the session, run, request, response or sample that the post names, or
// on the sessions whose tool results contain the named commit, branch or pull request. If the post names
// an unknown sample, the error is ErrNoSession. If no session contains the named commit, branch or pull
// request, the error is a *WorkError.
func (s *Store) Rate(ctx context.Context, tenant string, p feedback.Post) (Posted, error) {
	return s.poster.rate(ctx, tenant, p)
}

// RateWork stores feedback on the newest sessions whose tool results contain a reference of a group. The groups are
// tried in order, until a reference of a group occurs in a session. If no reference of any group occurs in a session,
// the error is a *WorkError.
func (s *Store) RateWork(ctx context.Context, tenant string, groups [][]work.Ref, e feedback.Entry) (Posted, error) {
	return s.poster.post(ctx, tenant, &subject{Works: groups}, e)
}

// Post stores one feedback entry, and returns after the write. Post looks for the session of the entry in this order:
// the sessions in candidates, the session with the echo key, the sessions in fallbacks. The entry is added to the first
// known session. If no session is known, the entry is parked: it waits in the store until an exchange with the key
// arrives.
func (s *Store) Post(
	ctx context.Context, tenant string, candidates []session.ID, key session.EchoKey, e feedback.Entry, fallbacks ...session.ID,
) (Posted, error) {
	return s.poster.post(ctx, tenant, &subject{Candidates: candidates, Key: key, Fallbacks: fallbacks}, e)
}

// PostFeedback adds feedback to sessions, and counts the entries that a session rejects at its feedback limit.
func (s *Store) PostFeedback(ctx context.Context, tenant string, entries map[session.ID][]feedback.Entry) error {
	return s.poster.feedback.addAndCount(ctx, tenant, entries)
}

// Touch queues a session, so that the learner computes the session's reward again.
func (s *Store) Touch(tenant string, id session.ID) { s.rewardQueue.add(tenant, id) }

// TakeTouched removes and returns the queued sessions.
func (s *Store) TakeTouched() map[session.Ref]bool { return s.rewardQueue.take() }

// RedactImported redacts imported exchanges, and leaves out exchanges that opted out. answered holds, for
// each exchange, the arguments of the calls that its results answer.
func (s *Store) RedactImported(list []sample.Exchange, answered [][]string) []sample.Exchange {
	return s.optOuts.redactImported(list, answered)
}

// SetOptOut replaces the opt-out rules.
func (s *Store) SetOptOut(rules *sample.OptOut) { s.optOuts.rules.Store(rules) }

// OptOut returns the opt-out rules; nil means nothing opted out.
func (s *Store) OptOut() *sample.OptOut { return s.optOuts.rules.Load() }

// SetRedactPersonal turns the redaction of personal data on or off. Secrets are always redacted.
func (s *Store) SetRedactPersonal(on bool) { s.recorder.SetRedactPersonal(on) }

// SetRetention replaces the age at which sessions are deleted; 0 means never.
func (s *Store) SetRetention(age time.Duration) { s.deleter.setRetention(age) }

// ForgetSession deletes the sessions of the tenant with a name from the backend, from memory and from the outbox, and
// returns their number. Later content of requests in progress is rejected. Other replicas delete the sessions from
// their memory and their outbox within seconds. name is the client's name of the session, precept's name, or the id.
// Several sessions may have the name, because equal names in different headers are different sessions. Counters keep
// the contributions of the sessions.
//
// Run executes the deletion. While Run does not run, ForgetSession waits until ctx ends.
func (s *Store) ForgetSession(ctx context.Context, tenant, name string) (int, error) {
	return s.deleter.forgetSession(ctx, tenant, name)
}

// ForgetTenant is like ForgetSession, for all sessions of a tenant.
func (s *Store) ForgetTenant(ctx context.Context, tenant string) (int, error) {
	return s.deleter.forgetTenant(ctx, tenant)
}

// WithDeliveryPaused runs f under the lock of the shipper. Until f returns, no row of the outbox is delivered, and no
// session is deleted. Publish, Post and Import may write to the backend meanwhile.
func (s *Store) WithDeliveryPaused(f func()) {
	s.deliverer.deliveryMu.Lock()
	defer s.deliverer.deliveryMu.Unlock()
	f()
}
