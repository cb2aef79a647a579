package distill

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"

	"precept/bandit/trial"
	"precept/internal/sample"
	"precept/internal/session"
)

// rowDigest returns a digest that changes whenever a turn of the session, or its close, is stored. The time of the
// newest request would not be enough, because a replica may store the row before the upstream responds, and store it
// again with the complete exchange.
func rowDigest(r *session.Row, a *session.SettledState) string {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d %d ", r.Seen.UnixMicro(), a.Version)
	_, _ = h.Write(r.Data)
	return strconv.FormatUint(h.Sum64(), 36)
}

// readSession reads one session. An error ends the walk, but a panic in the rules does not.
func (w *tenantDistiller) readSession(ctx context.Context, r session.Row, a session.SettledState) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.Distiller.o.Select.ClosedOnly && !r.Closed {
		return nil
	}
	asked, reachedBefore := w.reached[r.ID]
	if asked {
		return nil
	}
	if !reachedBefore {
		w.summary.Read++
		if w.Distiller.o.Progress != nil {
			w.Distiller.o.Progress(1)
		}
	}
	if w.Distiller.o.Judge != nil {
		w.reached[r.ID] = false
	}
	old := map[string]judgeMark{}
	data, err := w.Distiller.o.Notes.SessionNote(ctx, w.tenant, r.ID)
	if err != nil {
		return err
	}
	_ = json.Unmarshal(data, &old) // if decoding fails, the session counts as unread
	last := old[w.judgeName()]
	if w.Distiller.o.Select.IncludeSetAside && last.isSetAside() {
		last.Hash, last.Tries = "", 0
	}
	digest := rowDigest(&r, &a)
	q := &question{id: r.ID, counted: reachedBefore, marks: old, storedMark: last, newMark: judgeMark{Row: digest, Counted: last.Counted, Opinions: last.Opinions, Texts: last.Texts}}
	switch {
	case last.Row == digest && !last.needsRetry():
		w.countUnchanged(q)
		return nil
	case last.hasFailed() && w.Distiller.o.Judge != nil:
		w.judging.failed = append(w.judging.failed, q)
		return nil
	}
	return w.readContent(ctx, q)
}

// readFailed reads the sessions for which earlier runs got no usable answer. These sessions come last, because
// otherwise they could use up the budget in every run.
func (w *tenantDistiller) readFailed(ctx context.Context) error {
	for _, q := range w.judging.failed {
		if err := w.readContent(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// countUnchanged counts an unchanged session, but only in a run's first walk.
func (w *tenantDistiller) countUnchanged(q *question) {
	if q.counted {
		return
	}
	w.summary.Unchanged++
	if q.storedMark.isSetAside() {
		w.summary.SetAside++
	}
}

func (w *tenantDistiller) readContent(ctx context.Context, q *question) error {
	s, err := w.load(ctx, q.id)
	if err != nil {
		return err
	}
	if len(s.Content.Exchanges) == 0 { // the session stands for a whole run, or is opted out
		if !q.counted {
			w.summary.Read--
		}
		return nil
	}
	q.session, q.newMark.Hash = s, s.hash()
	if q.newMark.Hash == q.storedMark.Hash {
		q.newMark.Tries = q.storedMark.Tries
	}
	switch {
	case q.newMark.Hash == q.storedMark.Hash && !q.newMark.needsRetry():
		w.countUnchanged(q)
	case w.Distiller.o.Judge != nil && w.Distiller.o.Select.Triage && len(w.capturedSessions) >= minTriageSessions && len(s.Injected) == 0 && !s.hasTrouble():
		q.newMark.Tries = 0
		w.summary.Untroubled++
	case w.Distiller.o.Judge != nil:
		return w.ask(ctx, q)
	default:
		w.applyRules(s, &q.newMark)
	}
	return w.writeMarks(ctx, q.id, q.marks, &q.storedMark, &q.newMark)
}

func (w *tenantDistiller) load(ctx context.Context, id session.ID) (*Session, error) {
	s := &Session{ID: id.String()}
	var err error
	if s.Content.Exchanges, err = w.Distiller.o.Source.Exchanges(ctx, w.tenant, id); err != nil {
		return nil, err
	}
	for i := range s.Content.Exchanges {
		x := &s.Content.Exchanges[i]
		for _, l := range x.Lessons {
			if l.State == "injected" && !slices.Contains(s.Injected, l.Slug) {
				s.Injected = append(s.Injected, l.Slug)
				s.arms = append(s.arms, trial.Arm(l.Arm))
			}
		}
	}
	if w.Distiller.o.Judge == nil {
		return s, nil
	}
	entries, err := w.Distiller.o.Source.Feedback(ctx, w.tenant, id)
	for i := range entries {
		f := &entries[i]
		s.Content.Ratings = append(s.Content.Ratings, sample.Rating{At: f.At, Source: f.Source, Type: f.Type, Score: f.Score, Label: f.Label, Comment: f.Comment, Turn: f.Turn})
	}
	return s, err
}
