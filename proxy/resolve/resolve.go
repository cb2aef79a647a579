// Package resolve finds the session of a request, and the unit of the session, which is a run or the parent session of
// a sub-agent. It also recognises side requests.
//
// Contract: Resolve pins the session and the unit of its result, and the caller releases both. The caller calls
// RecordEnd once for a result with a session. Resolve asks the backend at most once per kind of question, within the
// lookup time of the store, and holds no lock while it waits.
//
// Hazard: a request in the session of another conversation mixes two experiments and empties the provider's prompt
// cache. Therefore a request without a certain session gets a new session, and indistinguishable sessions leave the
// experiment.
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

// Pins pins and releases sessions. A pinned session stays in memory until Release.
type Pins interface {
	// AcquireInMemory pins a session. AcquireInMemory returns nil if the session is not in memory.
	AcquireInMemory(id session.ID) *store.Session
	// Acquire looks for the session in memory, then in the backend, and pins the session. uncertain reports that the
	// session may exist although ses is nil.
	Acquire(ctx context.Context, tenant string, id session.ID) (ses *store.Session, uncertain bool)
	Release(ses *store.Session, c store.Change)
}

// Additions adds new sessions.
type Additions interface {
	// FullReason returns the reason why no session of a tenant may begin, or "" if a session may begin.
	FullReason(tenant string) label.Reason
	// Add pins a new record. If another request has added the ID already, Add returns the session
	// of the other request. Add returns nil if memory is full.
	Add(rec *session.Record) *store.Session
	// AddMember counts the session of rec among the sessions of a unit.
	AddMember(unit *store.Session, rec *session.Record)
	// ApplyOptOut hides the turns of rec that opted out at another replica. items is the number of items of
	// earlier turns. uncertain reports that an earlier read of this request got no answer in time.
	ApplyOptOut(ctx context.Context, rec *session.Record, items int, uncertain bool)
}

// Replicas reads the writes of other replicas.
type Replicas interface {
	// IsShared reports whether other replicas may serve the sessions of this store.
	IsShared() bool
	// Refresh reads a session again after the session has continued at another replica.
	Refresh(ctx context.Context, ses *store.Session)
	// RefreshUnit reads a unit again, because sessions at other replicas share its coins (random choices).
	RefreshUnit(ctx context.Context, unit *store.Session)
}

// Index looks up sessions by echo keys. An echo key is the hash of an id or of a text in a reply. The agent sends the
// id or the text back in later requests.
type Index interface {
	// FindByEchoes returns the sessions in which keys occurred. uncertain reports that the keys may have occurred in
	// sessions that are missing from found.
	FindByEchoes(ctx context.Context, tenant string, keys []session.EchoKey) (found map[session.EchoKey][]session.ID, uncertain bool)
}

// Store holds the methods of the store that a Resolver uses.
type Store interface {
	Pins
	Additions
	Replicas
	Index
}

// Query describes a request whose session is not known yet.
type Query struct {
	Scope         session.Scope // without the run; the claim names the run
	Claim         session.Claim
	Request       *wire.Request
	Learn         bool // content of the turn may be stored
	SaltUncertain bool // the salt of the coins may differ from the salt in Redis
	KnownOnly     bool // Resolve begins no session
}

// scope returns the scope in which names and echoes of the request are looked up.
func (q *Query) scope() session.Scope {
	s := q.Scope
	s.Run = q.Claim.Run
	return s
}

// Result is the session of a request.
type Result struct {
	Thread        session.Resolved // set by the threader; passed back to the threader with the reply
	Session       *store.Session   // pinned; nil means the request belongs to no known conversation
	Unit          *store.Session   // pinned; the session has the coins of the unit; nil means the session has its own coins
	Name          string           // name under which feedback finds the session
	IsNew         bool             // the request begins the session
	MayHaveMoved  bool             // another replica may have served the previous turn
	Side          label.Reason     // why the request is a side request; "" means a turn of the conversation
	AboutSession  session.ID       // the session that a side request without a session is about
	QuotesSession bool             // the request quotes the conversation of About
	EchoKeys      []session.Echo   // keys under which later requests and feedback find the session
	Waited        time.Duration    // time spent on finding the session
	Excluded      []label.Reason   // one reason for each session excluded from the experiment by the request
}

// UnitRecord returns the record of the unit, or nil if the session has its own coins.
func (r *Result) UnitRecord() *session.Record {
	if r.Unit == nil {
		return nil
	}
	return r.Unit.Record
}

// ChangeUnit calls change with the locked record of the unit, if there is a unit. The lock of the
// unit is taken after the lock of the session.
func (r *Result) ChangeUnit(change func(unit *session.Record)) {
	if r.Unit == nil {
		return
	}
	r.Unit.Record.Mutex.Lock()
	defer r.Unit.Record.Mutex.Unlock()
	change(r.Unit.Record)
}

// isFoundByEcho reports whether requests find the session by echo keys. A named session is found by its name, so echo
// keys of its items would only use memory.
func (r *Result) isFoundByEcho() bool {
	m := r.Thread.Method
	return m == session.ByNew || m == session.ByEcho || m == session.ByBody
}

// Resolver finds the sessions of requests. A Resolver is safe for concurrent use.
type Resolver struct {
	store   Store
	now     func() time.Time
	threads *session.Threader
	quotes  *session.Quotes
	signs   session.SideDetector
}

// New returns a Resolver that uses the store. entropy returns the random names of new sessions.
func New(s Store, now func() time.Time, entropy func() [16]byte) *Resolver {
	return &Resolver{
		store: s, now: now, threads: session.NewThreader(entropy), quotes: session.NewQuotes(),
		signs: session.SideDetector{SideKind: detect.SideRequestKind, WorksWithTools: detect.AlwaysSendsTools},
	}
}

// Resolve finds the session of a request, or begins a session. When a step panics, Resolve releases all pinned
// sessions, because the caller gets no result.
func (r *Resolver) Resolve(ctx context.Context, q *Query) (res Result) {
	s := &search{r: r, ctx: ctx, q: q, res: &res, startedAt: r.now()}
	finished := false
	defer func() {
		s.releaseParent()
		if !finished {
			s.abandon()
		}
	}()
	res.Thread = r.threads.Resolve(q.scope(), q.Claim, q.Request, s.startedAt, s.lookUp)
	s.pin()
	s.split()
	if s.switchToSubAgent() {
		s.pin()
	}
	res.Waited = r.now().Sub(s.startedAt)
	switch {
	case res.Session == nil && q.KnownOnly:
		s.passWithoutSession()
		res.Excluded = nil
	case res.Session != nil && !s.joinUnit() || res.Session == nil && !s.begin():
		s.passWithoutSession()
	}
	s.excludeTwins()
	if res.Session != nil && res.isFoundByEcho() && !s.optedOut() {
		s.addKeys(res.Session.Record.Identity.ID, res.Thread.Echoes...)
	}
	switch {
	case res.Session == nil:
		res.Name = res.Thread.Name
	case s.parent != nil: // a sub-agent's client knows the name of the parent session
		res.Name = s.parent.Record.MemberNow().Name
	default:
		res.Name = res.Session.Record.MemberNow().Name
	}
	finished = true
	return res
}

// SideOf reports whether a request is a side request of the session, and why. The caller holds the lock
// of rec.
func (r *Resolver) SideOf(rec *session.Record, q *Query) (reason label.Reason, side bool) {
	return rec.SideReason(q.Request, q.Claim, r.signs)
}

// AddTurn records a turn of the conversation, so that a later side request that quotes the turn is recognised. The
// caller holds the lock of rec.
func (r *Resolver) AddTurn(rec *session.Record, q *Query) {
	r.quotes.AddTurn(q.Scope, rec.Identity.ID, q.Request, r.now())
}

// RecordReply records the reply to a request, and returns keys under which later requests and feedback find the
// session. ok is true if the upstream answered successfully. Call RecordReply before the client gets the end of the
// reply, because the client may send its next request at once.
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
	if id := session.EchoKeyOf(q.Scope.Tenant, "r:"+rep.ID); res.Side == "" && rep.ID != "" && !slices.Contains(keys, id) {
		keys = append(keys, id)
	}
	if now := r.now(); res.Side == "" && ok {
		res.Session.Record.Mutex.Lock()
		res.Session.Record.AddReply(rep)
		res.Session.Record.RecordActivity(now)
		res.Session.Record.Mutex.Unlock()
		r.quotes.AddReply(q.Scope, res.Session.Record.Identity.ID, rep)
		res.ChangeUnit(func(u *session.Record) {
			u.AddUsage(rep.Usage)
			u.RecordActivity(now)
			u.State.Answered = true
		})
	}
	return echoes(q, res.Session.Record.Identity.ID, r.now(), keys)
}

// RecordRefusal records that the upstream refused the credential of a request. Call RecordRefusal before RecordEnd.
func (r *Resolver) RecordRefusal(res *Result) { r.threads.RecordRefusal(res.Thread) }

// RecordEnd records that a request has ended. Call RecordEnd before the client gets the end of the response, because
// the client may retry at once, and a retry is recognised only after the first request has ended.
func (r *Resolver) RecordEnd(res *Result, complete bool) {
	r.threads.RecordEnd(res.Thread, complete, r.now())
}

// echoes returns an Echo of the session for each key, or nil if no content of the turn may be stored.
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
