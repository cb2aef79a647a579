package proxy

import "precept/session"

// beside says whether the request is none of the conversation, and notes why.
func (s *sender) beside(rec *session.Record) bool {
	reason, side := rec.Side(s.req, s.claim, s.p.signs)
	if side {
		s.aside(reason)
	}
	return side
}

// nameless says that the client has given the conversation no name of its own.
func (s *sender) nameless() bool {
	return s.found.Loose || s.found.Method == session.ByNew || s.found.Method == session.ByEcho
}

// quotesOne says whether what would begin a conversation is about another one, and notes it.
func (s *sender) quotesOne() bool {
	if s.quotes {
		s.aside(session.SideQuotes)
	}
	return s.quotes
}

func (s *sender) aside(reason string) {
	s.side, s.skip = reason, "side:"+reason
	s.p.opts.Metrics.side.WithLabelValues(reason).Inc()
}
