package proxy

import (
	"encoding/hex"
	"time"

	"precept/internal/session"
	"precept/internal/wire"
	"precept/store"
)

// speakers know who has spoken, and how to tell who speaks.
type speakers struct {
	threads *session.Threader
	quotes  *session.Quotes
	signs   session.Signs
}

// Why a session is no part of the experiment.
const (
	excludedTwin = "twin"   // its history is equal to another one's byte for byte
	excludedLate = "late"   // the store did not say in time what was decided before
	excludedKeys = "secret" // the coins would fall otherwise on another replica
)

// sender is whose turn it is: what the client claims, the session that was found (by finder), and
// what that draws through.
type sender struct {
	request
	*speakers
	claim   session.Claim
	learn   bool // something of the turn may be kept
	found   session.Resolved
	ses     *store.Session
	unit    unit
	above   *store.Session // the named session whose sub-agent speaks
	isNew   bool
	waited  time.Duration  // for the store, to learn whose turn it is
	moved   bool           // the session was at another replica before, as far as can be told
	side    string         // why the request is beside the conversation; "" for one of it
	about   session.ID     // which session a side call that belongs to none is about,
	showing bool           // where it shows one
	early   []session.Echo // keys that went by before the request had its id
}

// unit is the record that a session draws through, where it is not its own: that of the run that it
// belongs to, or that of the session whose sub-agent it is, which has the same name or was started
// by a tool call. It stays pinned as long as the request holds the session, and is locked inside of
// the session's lock.
type unit struct{ *store.Session }

// record is nil where there is no unit.
func (u unit) record() *session.Record {
	if u.Session == nil {
		return nil
	}
	return u.Record
}

// change does something with the unit, where there is one.
func (u unit) change(do func(u *session.Record)) {
	if u.Session == nil {
		return
	}
	u.Lock()
	defer u.Unlock()
	do(u.Record)
}

// name mints the request's id. It holds the session's, so that feedback by request id needs no
// index of its own.
func (s *sender) name() {
	switch {
	case s.w.id != "": // the log has told of it already
	case s.ses == nil:
		s.w.id = s.opts.newID("req_")
	default:
		random := s.opts.entropy()
		s.w.id = "req_" + hex.EncodeToString(append(s.ses.ID[:], random[:8]...))
	}
	s.hold()
}

// note keeps keys under which a session is known because of this turn. They stay in memory until
// the turn is judged.
func (s *sender) note(id session.ID, keys ...session.EchoKey) {
	if !s.learn || len(keys) == 0 {
		return
	}
	now := s.opts.Now()
	for _, k := range keys {
		s.early = append(s.early, session.Echo{Tenant: s.who.tenant, Key: k, ID: id, At: now})
	}
	s.hold()
}

// hold hands the keys to the store, under the request's id once it has one.
func (s *sender) hold() {
	if s.w.id == "" || len(s.early) == 0 {
		return
	}
	s.opts.Store.Hold(s.w.id, s.early...)
	s.early = nil
}

// echoed says that the session is recognised by what goes by. One with a name of its own is found
// by it: its echoes would only cost.
func (s *sender) echoed() bool {
	m := s.found.Method
	return m == session.ByNew || m == session.ByEcho || m == session.ByBody
}

// beside says whether the request is none of the conversation, and notes why.
func (s *sender) beside(rec *session.Record) bool {
	reason, side := rec.Side(s.req, s.claim, s.signs)
	if side {
		s.aside(reason)
	}
	return side
}

func (s *sender) aside(reason string) {
	s.side, s.skip = reason, "side:"+reason
	s.opts.Metrics.side.WithLabelValues(reason).Inc()
}

// sessionName is what feedback may call the session. One is made up for a request that is beside a
// conversation which is not known.
func (s *sender) sessionName() string {
	switch {
	case s.ses == nil:
		return s.found.Name
	case s.above != nil: // a sub-agent's: the client's own name is the one that it gave
		return s.above.Name
	}
	return s.ses.Name
}

// remembered is a call that an earlier reply of the session made.
func (s *sender) remembered(id string) (wire.Call, bool) {
	s.ses.Lock()
	defer s.ses.Unlock()
	c, ok := s.ses.Calls[id]
	return c, ok
}

// arguments lists those of the calls that the new results answer, for the opt-out by path: a result
// is dropped when its call named the path.
func (s *sender) arguments() []string {
	var args []string
	for i := max(s.req.New(), 0); i < s.req.Len(); i++ {
		for _, res := range s.req.Item(i).Results {
			if c, ok := s.req.CallOf(res.CallID); ok {
				args = append(args, c.Args)
			} else if c, ok := s.remembered(res.CallID); ok {
				args = append(args, c.Args)
			}
		}
	}
	return args
}
