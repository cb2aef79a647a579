package proxy

import (
	"encoding/hex"

	"precept/internal/label"
	"precept/internal/session"
	"precept/internal/wire"
	"precept/proxy/resolve"
	"precept/store"
)

// sender is the session of the turn: the claim of the client, and the session that was found.
type sender struct {
	request
	resolver *resolve.Resolver
	query    resolve.Query
	found    resolve.Result
	ses      *store.Session
	early    []session.Echo // keys that are not held by the store yet: the request has no id
}

// identify finds the session and pins it.
func (s *sender) identify() {
	claim := session.Identify(s.r.Header, s.r.URL.EscapedPath(), s.req)
	s.who.claims(&claim)
	learn := !claim.LearnOff && s.set.learns(&s.who, claim.Agent)
	claim.Agent = s.set.cleanName(claim.Agent)
	s.query = resolve.Query{Scope: s.who.scope(), Claim: claim, Request: s.req, Learn: learn, Unsure: s.set.excluded}
	s.found = s.resolver.Resolve(s.r.Context(), &s.query)
	s.ses = s.found.Session
	if s.found.Side != "" {
		s.aside(s.found.Side)
	}
	if s.found.New {
		s.opts.Metrics.sessions.WithLabelValues(string(s.found.Thread.Method)).Inc()
	}
	for _, why := range s.found.Excluded {
		s.opts.Metrics.excluded.WithLabelValues(string(why)).Inc()
	}
	s.note(s.found.Noted)
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
		s.w.id = "req_" + hex.EncodeToString(append(s.ses.Identity.ID[:], random[:8]...))
	}
	s.hold()
}

// note keeps keys under which a session is known because of this turn. They stay in memory until
// the turn is judged.
func (s *sender) note(keys []session.Echo) {
	s.early = append(s.early, keys...)
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

// beside says whether the request is none of the conversation, and notes why.
func (s *sender) beside(rec *session.Record) bool {
	reason, side := s.resolver.SideOf(rec, &s.query)
	if side {
		s.aside(reason)
	}
	return side
}

func (s *sender) aside(reason label.Reason) {
	s.found.Side, s.skip = reason, "side:"+string(reason)
	s.opts.Metrics.side.WithLabelValues(string(reason)).Inc()
}

// remembered is a call that an earlier reply of the session made.
func (s *sender) remembered(id string) (wire.Call, bool) {
	s.ses.Lock()
	defer s.ses.Unlock()
	c, ok := s.ses.Thread.Calls[id]
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
