package store

import (
	"cmp"
	"slices"
	"time"

	"precept/internal/sample"
	"precept/internal/session"
)

// documentCost is an exchange's approximate memory in bytes, in addition to the encoded exchange.
const documentCost = 160

// openDocuments caches open sessions' encoded exchanges, so that closing needs no read from the backend. It has all
// exchanges in a session or none. The oldest sessions stay, because they close next. Only the holder of
// deliverer.deliveryMu uses openDocuments.
type openDocuments struct {
	bySession map[session.Ref]*sessionDocuments
	size      int64
	limit     int64
}

type sessionDocuments struct {
	documents []sample.Encoded
	size      int64
	newest    time.Time // latest exchange's start
}

func newOpenDocuments(limit int64) *openDocuments {
	return &openDocuments{bySession: map[session.Ref]*sessionDocuments{}, limit: limit}
}

// add adds exchanges that the backend has stored. It ignores sessions whose first turn is missing.
func (o *openDocuments) add(list []sample.Exchange) {
	for i := range list {
		x := &list[i]
		if x.Outcome == refusedOutcome {
			continue
		}
		ref := sessionRef(x)
		docs := o.bySession[ref]
		enc, sealed := x.Sealed()
		switch {
		case docs == nil && x.Turn == 1:
			docs = &sessionDocuments{}
			o.bySession[ref] = docs
		case docs == nil:
			continue
		}
		cost := int64(cap(enc.Data)+cap(enc.Items)) + documentCost
		if !sealed || o.size+cost > o.limit { // an incomplete session is useless
			o.drop(ref)
			continue
		}
		if x.At.After(docs.newest) {
			docs.newest = x.At
		}
		docs.documents = append(docs.documents, enc)
		docs.size += cost
		o.size += cost
	}
}

// take removes a session and returns the exchanges, ordered by turn, then by arrival. ok is false if the count differs
// from stored, the backend's count.
func (o *openDocuments) take(ref session.Ref, stored int) (list []sample.Exchange, ok bool) {
	docs := o.bySession[ref]
	if docs == nil {
		return nil, false
	}
	o.drop(ref)
	seen := map[string]bool{}
	for _, enc := range docs.documents {
		x, err := enc.Decode()
		if err != nil {
			return nil, false
		}
		if !seen[x.ID] { // a repeated delivery adds an exchange again
			seen[x.ID] = true
			list = append(list, x)
		}
	}
	slices.SortStableFunc(list, func(a, b sample.Exchange) int { return cmp.Compare(a.Turn, b.Turn) })
	return list, len(list) == stored
}

func (o *openDocuments) drop(ref session.Ref) {
	if docs := o.bySession[ref]; docs != nil {
		o.size -= docs.size
		delete(o.bySession, ref)
	}
}

func (o *openDocuments) dropOlder(before time.Time) {
	for ref, docs := range o.bySession {
		if docs.newest.Before(before) {
			o.drop(ref)
		}
	}
}
