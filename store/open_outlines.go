package store

import (
	"time"

	"precept/internal/sample"
	"precept/internal/session"
)

// sessionCost is the approximate memory of an open session in addition to its outlines, in bytes.
const sessionCost = 240

// openOutlines holds the outlines of the exchanges of open sessions, so that the closing of a session
// neither reads nor decodes the exchanges. A session is held as a whole or not at all: if the next exchange
// of a session does not fit, the session is dropped. Dropping the oldest session instead would drop the
// sessions that close next. Only the holder of shipper.deliveryMu uses openOutlines.
type openOutlines struct {
	bySession map[session.Ref]*sessionOutlines
	size      int64 // bytes of all sessions
	limit     int64
}

// sessionOutlines are the outlines of one session.
type sessionOutlines struct {
	sample.Outlines
	newest time.Time // start of the latest exchange
}

// cost returns the approximate bytes of a session in memory.
func (s *sessionOutlines) cost() int64 { return int64(s.Size()) + sessionCost }

func newOpenOutlines(limit int64) *openOutlines {
	return &openOutlines{bySession: map[session.Ref]*sessionOutlines{}, limit: limit}
}

// add adds exchanges that the backend has stored. A session is held from its first turn on.
func (o *openOutlines) add(list []sample.Exchange) {
	for i := range list {
		x := &list[i]
		if x.Outcome == refusedOutcome {
			continue
		}
		ref := refOf(x)
		ses := o.bySession[ref]
		switch {
		case ses == nil && x.Turn == 1:
			ses = &sessionOutlines{}
			o.bySession[ref] = ses
		case ses == nil:
			continue
		default:
			o.size -= ses.cost()
		}
		ok := ses.Add(x)
		o.size += ses.cost()
		if !ok || o.size > o.limit { // without this exchange the session is incomplete, and of no use
			o.drop(ref)
			continue
		}
		if x.At.After(ses.newest) {
			ses.newest = x.At
		}
	}
}

// take removes a session and returns its exchanges by turn, with the fields that samples need. stored is
// the number of the session's exchanges in the backend. ok is false if openOutlines has another number.
func (o *openOutlines) take(ref session.Ref, stored int) (list []sample.Exchange, ok bool) {
	ses := o.bySession[ref]
	if ses == nil {
		return nil, false
	}
	o.drop(ref)
	if ses.Len() != stored {
		return nil, false
	}
	return ses.Exchanges(ref.Tenant, ref.ID.String()), true
}

func (o *openOutlines) drop(ref session.Ref) {
	if ses := o.bySession[ref]; ses != nil {
		o.size -= ses.cost()
		delete(o.bySession, ref)
	}
}

// retire drops sessions without an exchange since a time.
func (o *openOutlines) retire(before time.Time) {
	for ref, ses := range o.bySession {
		if ses.newest.Before(before) {
			o.drop(ref)
		}
	}
}
