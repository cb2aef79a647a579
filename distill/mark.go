package distill

import (
	"context"
	"encoding/json"
	"slices"

	"precept/internal/session"
)

// judgeMark is the note of one judge about a session that the judge has read.
type judgeMark struct {
	Hash     string    `json:"hash"`            // hash of the content (Session.hash); "" after an error of the judge
	Tries    int       `json:"tries,omitempty"` // number of unusable answers about this content; maxUnusable after a refusal
	Row      string    `json:"row,omitempty"`   // rowDigest of the session
	Counted  []string  `json:"cases,omitempty"` // short keys of what the session added to cases and lessons (addOnce)
	Opinions Opinions  `json:"said,omitempty"`  // opinions of the judge about the lessons of the session
	Texts    textNames `json:"texts,omitempty"` // name of the text of each lesson in Opinions
}

// hasFailed reports whether the judge was asked, but gave no usable answer.
func (m *judgeMark) hasFailed() bool { return m.Tries > 0 || m.Hash == "" && m.Row != "" }

// needsRetry reports whether the judge is asked again although the content has not changed.
func (m *judgeMark) needsRetry() bool { return m.Hash == "" || m.hasFailed() && !m.isSetAside() }

// isSetAside reports whether the judge is not asked about the session until the content changes.
func (m *judgeMark) isSetAside() bool { return m.Tries >= maxUnusable }

// maxAdded is the maximum length of mark.Counted.
const maxAdded = 128

// addOnce adds a key to the mark, and returns true. If the mark already has the key, or is full, addOnce adds nothing
// and returns false.
func (m *judgeMark) addOnce(key string) bool {
	sum := shortKey(key)
	if slices.Contains(m.Counted, sum) || len(m.Counted) >= maxAdded {
		return false
	}
	m.Counted = append(m.Counted, sum)
	return true
}

// writeMarks writes the marks of a session.
func (w *tenantDistiller) writeMarks(ctx context.Context, id session.ID, marks map[string]judgeMark, last, next *judgeMark) error {
	w.opinionSums.recount(last, next)
	marks[w.judgeName()] = *next
	data, err := json.Marshal(marks)
	if err != nil {
		return err
	}
	w.marks[id] = data
	if len(w.marks) >= notesBatch || w.Distiller.o.Judge != nil {
		return w.flush(ctx)
	}
	return nil
}
