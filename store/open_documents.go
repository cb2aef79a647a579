package store

import (
	"cmp"
	"slices"
	"time"

	"precept/internal/sample"
	"precept/internal/session"
)

// documentCost is the memory of an exchange beside its documents, in bytes, about.
const documentCost = 160

// openDocuments holds the documents of all exchanges of open sessions, as the backend has them, so that
// closing a session reads nothing back. If the memory is full, sessions that began later are not held:
// sessions close in the order of their start. An exchange of a session that is not held whole is read
// from the backend. The holder of shipper.deliveryMu uses openDocuments.
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

// take removes a session and returns its exchanges by turn, then in the order of their arrival. ok is
// false if the backend, which has stored exchanges of the session, has other exchanges.
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
