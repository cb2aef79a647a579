// Package resolve finds a request's session and unit (a run or a sub-agent's parent session). It also recognises side
// requests (titles, summaries and other agent housekeeping).
//
// Contract: Resolve pins the session and the unit (keeps both in memory). The caller calls RecordEnd once, and then
// releases both. Resolve holds no lock while it waits for the backend.
//
// Hazard: a request in the wrong session mixes two experiments and empties the provider's prompt cache. Therefore a
// request without a certain session gets a new session, and indistinguishable sessions leave the experiment.
package resolve

import (
	"context"
	"slices"
	"time"

	"precept/detect"
	"precept/internal/label"
	"precept/internal/session"
	"precept/internal/wire"
	"precept/store"
)

// Pins keeps sessions in memory until Release.
type Pins interface {
	// AcquireInMemory pins a session, or returns nil.
	AcquireInMemory(id session.ID) *store.Session
	// Acquire looks for the session in memory, then in the backend. If ses is nil and uncertain is true, the session
	// may exist.
	Acquire(ctx context.Context, tenant string, id session.ID) (ses *store.Session, uncertain bool)
	Release(ses *store.Session, c store.Change)
}

// Additions adds new sessions.
type Additions interface {
	// FullReason returns the reason why a tenant cannot begin a session, "" for none.
	FullReason(tenant string) label.Reason
	// Add pins a session with a new record. If a session with the ID exists, Add pins and returns that session. The
	// result is nil if memory is full.
	Add(rec *session.Record) *store.Session
	// AddMember counts rec's session in the unit.
	AddMember(unit *store.Session, rec *session.Record)
	// ApplyOptOut hides rec's turns that opted out at a different replica. items is the number of items in earlier
	// turns. uncertain reports that an earlier read timed out.
	ApplyOptOut(ctx context.Context, rec *session.Record, items int, uncertain bool)
}

// Replicas reads other replicas' writes.
type Replicas interface {
	// IsShared reports whether there are other replicas.
	IsShared() bool
	// Refresh reads a session again after turns at a different replica.
	Refresh(ctx context.Context, ses *store.Session)
	// RefreshUnit reads a unit again, because other replicas can change it.
	RefreshUnit(ctx context.Context, unit *store.Session)
}

// Index looks up sessions by echo keys. An agent sends ids and texts from replies back in later requests, and an echo
// key is the hash of such an id or text.
type Index interface {
	// FindByEchoes returns the sessions with keys. If uncertain is true, sessions may be missing.
	FindByEchoes(ctx context.Context, tenant string, keys []session.EchoKey) (found map[session.EchoKey][]session.ID, uncertain bool)
}

// Store is the part of the store that a Resolver uses.
type Store interface {
	Pins
	Additions
	Replicas
	Index
}

// Query is a request whose session Resolve finds.
type Query struct {
	Scope             session.Scope // without the run, which Claim names
	Claim             session.Claim
	Request           *wire.Request
	Learn             bool // the turn is stored, unless it opts out by a path, or the parent session opted out
	SaltUncertain     bool // the salt for the random choices may differ from Redis
	OnlyKnownSessions bool // Resolve begins no session
}

// scope returns the scope for names and echoes.
func (q *Query) scope() session.Scope {
	s := q.Scope
	s.Run = q.Claim.Run
	return s
}

// Result is a request's session.
type Result struct {
	Thread        session.Resolved // result from session.Threader, passed back with the reply
	Session       *store.Session   // pinned; nil means no known conversation
	Unit          *store.Session   // pinned; makes the random choices; nil means the session makes them
	Name          string           // name by which feedback finds the session
	IsNew         bool             // the request begins the session
	MayHaveMoved  bool             // a different replica may have served the previous turn
	Side          label.Reason     // why this is a side request; "" means a turn in the conversation
	AboutSession  session.ID       // subject of a side request without a session
	QuotesSession bool             // the request quotes AboutSession's conversation
	EchoKeys      []session.Echo   // keys under which later requests and feedback find the session
	Waited        time.Duration    // time spent finding the session
	Excluded      []label.Reason   // one reason for each session that leaves the experiment because of this request
}

// UnitRecord returns the unit's record, or nil if the session makes its own random choices.
func (r *Result) UnitRecord() *session.Record {
	if r.Unit == nil {
		return nil
	}
	return r.Unit.Record
}

// ChangeUnit calls change with the unit's locked record, if any. The unit is locked after the session.
func (r *Result) ChangeUnit(change func(unit *session.Record)) {
	if r.Unit == nil {
		return
	}
	r.Unit.Record.Mutex.Lock()
	defer r.Unit.Record.Mutex.Unlock()
	change(r.Unit.Record)
}

// isFoundByEcho reports whether the session is found by echo keys. A named session is found by the name, so echo keys
// would only use memory.
func (r *Result) isFoundByEcho() bool {
	m := r.Thread.Method
	return m == session.ByNew || m == session.ByEcho || m == session.ByBody
}

// Resolver finds the sessions for requests, and is safe for concurrent use.
type Resolver struct {
	store        Store
	now          func() time.Time
	threads      *session.Threader
	quotes       *session.Quotes
	sideDetector session.SideDetector
}

// New returns a Resolver. entropy returns random bytes for new sessions' names.
func New(s Store, now func() time.Time, entropy func() [16]byte) *Resolver {
	return &Resolver{
		store: s, now: now, threads: session.NewThreader(entropy), quotes: session.NewQuotes(),
		sideDetector: session.SideDetector{SideKind: detect.SideRequestKind, WorksWithTools: detect.AlwaysSendsTools},
	}
}

// Resolve finds a request's session, or begins one.
func (r *Resolver) Resolve(ctx context.Context, q *Query) (res Result) {
	s := &search{resolver: r, ctx: ctx, query: q, result: &res, startedAt: r.now()}
	finished := false
	defer func() {
		s.releaseParent()
		if !finished {
			s.abandon()
		}
	}()
	res.Thread = r.threads.Resolve(q.scope(), q.Claim, q.Request, s.startedAt, s.lookUp)
	s.pinFound()
	s.splitWrongSession()
	if s.switchToSubAgent() {
		s.pinFound()
	}
	res.Waited = r.now().Sub(s.startedAt)
	switch {
	case res.Session == nil && q.OnlyKnownSessions:
		s.passWithoutSession()
		res.Excluded = nil
	case res.Session != nil && !s.joinUnit() || res.Session == nil && !s.beginSession():
		s.passWithoutSession()
	}
	s.excludeTwins()
	if res.Session != nil && res.isFoundByEcho() && !s.optedOut() {
		s.addKeys(res.Session.Record.Identity.ID, res.Thread.Echoes...)
	}
	switch {
	case res.Session == nil:
		res.Name = res.Thread.Name
	case s.parent != nil: // a sub-agent's client knows the parent's name
		res.Name = s.parent.Record.MemberNow().Name
	default:
		res.Name = res.Session.Record.MemberNow().Name
	}
	finished = true
	return res
}

// SideReason reports whether and why a request is a side request in the session. The caller holds rec's lock.
func (r *Resolver) SideReason(rec *session.Record, q *Query) (reason label.Reason, side bool) {
	return rec.SideReason(q.Request, q.Claim, r.sideDetector)
}

// AddTurn records a turn, so that a later side request that quotes the turn is recognised. The caller holds rec's lock.
func (r *Resolver) AddTurn(rec *session.Record, q *Query) {
	r.quotes.AddTurn(q.Scope, rec.Identity.ID, q.Request, r.now())
}

// RecordReply records a reply, and returns keys under which later requests and feedback find the session. ok is true if
// the upstream succeeded. Call it before the client has the whole reply, because the next request may follow
// immediately.
func (r *Resolver) RecordReply(q *Query, res *Result, rep *wire.Reply, ok bool) []session.Echo {
	if res.Session == nil {
		r.quotes.AddSideReply(q.Scope, res.AboutSession, rep, r.now())
		r.threads.AddSummary(res.Thread, res.AboutSession, rep)
		return nil
	}
	keys := r.threads.RecordReply(res.Thread, rep, res.Side == "")
	if !res.isFoundByEcho() {
		keys = nil
	}
	if id := session.TenantEchoKey(q.Scope.Tenant, "r:"+rep.ID); res.Side == "" && rep.ID != "" && !slices.Contains(keys, id) {
		keys = append(keys, id)
	}
	if now := r.now(); res.Side == "" && ok {
		res.Session.Record.Mutex.Lock()
		res.Session.Record.AddReply(rep)
		res.Session.Record.RecordActivity(now)
		model := res.Session.Record.Identity.Model
		res.Session.Record.Mutex.Unlock()
		r.quotes.AddReply(q.Scope, res.Session.Record.Identity.ID, rep)
		res.ChangeUnit(func(u *session.Record) {
			u.AddUsage(model, rep.Usage)
			u.RecordActivity(now)
			u.State.Answered = true
		})
	}
	return echoes(q, res.Session.Record.Identity.ID, r.now(), keys)
}

// RecordRefusal records that the upstream refused the credential. Call it before RecordEnd.
func (r *Resolver) RecordRefusal(res *Result) { r.threads.RecordRefusal(res.Thread) }

// RecordEnd records that a request has ended. Call it before the client has the whole response, because a retry may
// follow immediately, and is recognised only after RecordEnd.
func (r *Resolver) RecordEnd(res *Result, complete bool) {
	r.threads.RecordEnd(res.Thread, complete, r.now())
}

// echoes returns the echoes for a turn's keys, or nil if nothing of the turn is stored.
func echoes(q *Query, id session.ID, now time.Time, keys []session.EchoKey) []session.Echo {
	if !q.Learn || len(keys) == 0 {
		return nil
	}
	out := make([]session.Echo, len(keys))
	for i, k := range keys {
		out[i] = session.Echo{Tenant: q.Scope.Tenant, Key: k, ID: id, At: now}
	}
	return out
}
