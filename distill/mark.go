package distill

import (
	"context"
	"encoding/json"
	"slices"

	"precept/internal/session"
)

// judgeMark is one judge's note on a session: what the judge has read, counted and answered.
type judgeMark struct {
	Hash     string    `json:"hash"`            // Session.hash; "" after an error from the judge
	Tries    int       `json:"tries,omitempty"` // number of unusable answers about this content; maxUnusable after a refusal
	Row      string    `json:"row,omitempty"`   // the session's rowDigest
	Counted  []string  `json:"cases,omitempty"` // short keys for cases and lessons (addOnce)
	Opinions Opinions  `json:"said,omitempty"`
	Texts    textNames `json:"texts,omitempty"` // text of each lesson in Opinions
}

func (m *judgeMark) hasFailed() bool { return m.Tries > 0 || m.Hash == "" && m.Row != "" }

// needsRetry reports whether the judge must be asked again about unchanged content.
func (m *judgeMark) needsRetry() bool { return m.Hash == "" || m.hasFailed() && !m.isSetAside() }

func (m *judgeMark) isSetAside() bool { return m.Tries >= maxUnusable }

const maxMarkKeys = 128 // keys in a mark

// addOnce adds a key to the mark. It returns false if the mark already has the key or is full.
func (m *judgeMark) addOnce(key string) bool {
	sum := shortKey(key)
	if slices.Contains(m.Counted, sum) || len(m.Counted) >= maxMarkKeys {
		return false
	}
	m.Counted = append(m.Counted, sum)
	return true
}

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
