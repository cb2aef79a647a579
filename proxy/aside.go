package proxy

import "precept/session"

// beside says whether the request is none of the conversation, and notes why.
func (t *turn) beside(rec *session.Record) bool {
	reason, side := rec.Side(t.req, t.claim, t.p.signs)
	if side {
		t.aside(reason)
	}
	return side
}

// nameless says that the client has given the conversation no name of its own.
func (t *turn) nameless() bool {
	return t.found.Loose || t.found.Method == session.ByNew || t.found.Method == session.ByEcho
}

// quotesOne says whether what would begin a conversation is about another one, and notes it.
func (t *turn) quotesOne() bool {
	if t.quotes {
		t.aside(session.SideQuotes)
	}
	return t.quotes
}

func (t *turn) aside(reason string) {
	t.side, t.skip = reason, "side:"+reason
	t.p.opts.Metrics.side.WithLabelValues(reason).Inc()
}
