package store

import (
	"cmp"
	"slices"
	"time"

	"precept/internal/sample"
	"precept/internal/session"
)

// documentCost is the approximate memory of an exchange in addition to its documents, in bytes.
const documentCost = 160

// openDocuments holds the documents of the exchanges of open sessions, in the form that the backend has
// stored, so that closing a session reads nothing back. A session is held as a whole or not at all: if
// the next exchange of a session does not fit, the session is dropped, and closing reads the session from
// the backend. Dropping the oldest session instead would drop the sessions that close next. The holder
// of shipper.deliveryMu uses openDocuments.
type openDocuments struct {
	of    map[session.Ref]*sessionDocuments
	size  int64 // bytes of all sessions
	limit int64
}

// sessionDocuments are the documents of one session in the order of their arrival.
type sessionDocuments struct {
	list   []sample.Encoded
	size   int64
	newest time.Time // latest exchange
}

func newOpenDocuments(limit int64) *openDocuments {
	return &openDocuments{of: map[session.Ref]*sessionDocuments{}, limit: limit}
}

// wrote adds exchanges that the backend has stored. A session is held from its first turn on.
func (o *openDocuments) wrote(list []sample.Exchange) {
	for i := range list {
		x := &list[i]
		if x.Outcome == refusedOutcome {
			continue
		}
		ref := refOf(x)
		of := o.of[ref]
		enc, sealed := x.Sealed()
		switch {
		case of == nil && x.Turn == 1:
			of = &sessionDocuments{}
			o.of[ref] = of
		case of == nil:
			continue
		}
		cost := int64(cap(enc.Data)+cap(enc.Items)) + documentCost
		if !sealed || o.size+cost > o.limit { // the rest of an incomplete session is of no use
			o.drop(ref)
			continue
		}
		if x.At.After(of.newest) {
			of.newest = x.At
		}
		of.list = append(of.list, enc)
		of.size += cost
		o.size += cost
	}
}

// take removes a session and returns its exchanges by turn, then in the order of their arrival. stored
// is the number of the session's exchanges in the backend. ok is false if openDocuments has another
// number.
func (o *openDocuments) take(ref session.Ref, stored int) (list []sample.Exchange, ok bool) {
	of := o.of[ref]
	if of == nil {
		return nil, false
	}
	o.drop(ref)
	known := map[string]bool{}
	for _, enc := range of.list {
		x, err := enc.Decode()
		if err != nil {
			return nil, false
		}
		if !known[x.ID] { // a failed delivery is repeated as a whole
			known[x.ID] = true
			list = append(list, x)
		}
	}
	slices.SortStableFunc(list, func(a, b sample.Exchange) int { return cmp.Compare(a.Turn, b.Turn) })
	return list, len(list) == stored
}

func (o *openDocuments) drop(ref session.Ref) {
	if of := o.of[ref]; of != nil {
		o.size -= of.size
		delete(o.of, ref)
	}
}

// retire drops sessions without an exchange since a time.
func (o *openDocuments) retire(before time.Time) {
	for ref, of := range o.of {
		if of.newest.Before(before) {
			o.drop(ref)
		}
	}
}
