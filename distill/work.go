package distill

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"precept/bandit/trial"
	"precept/inject/lesson"
	"precept/internal/sample"
	"precept/internal/session"
)

// work is the state of one run for one tenant. The notes of earlier runs are read at the start, and changed notes are
// written by flush.
type work struct {
	Distiller     *Distiller
	tenant, claim string
	orgWords      bool // a lesson may use words of the organisation, because the store has only one tenant
	summary       *Summary
	book          *lesson.Book
	archived      []*lesson.Lesson // archived and rejected lessons, which are not proposed again
	cases         map[string]*Case
	changedCases  map[string]*Case       // cases that changed since the last write, by key; nil for a removed case
	lastSession   int64                  // number of the newest session whose failures are counted (Case.Last)
	errorsByCase  map[string][]seenError // errors by the key of their case, for testing the triggers of drafts
	marks         map[session.ID][]byte  // encoded marks that are not written yet
	opinionSums   opinionSums
	support       map[string]support  // support that changed since the last write, by the slug of the lesson
	budget        Budget              // limits for this tenant
	skipFailed    bool                // leave the sessions without a usable answer (hasFailed) to the next round
	reached       map[session.ID]bool // sessions that a walk of this run has reached; true if the judge was asked
	judging       judging
	traffic       []capturedSession // captured sessions, for testing the triggers of a model
}

// judging is the state of the questions to the judge.
type judging struct {
	openQuestions []*question
	failed        []*question // questions of earlier runs without a usable answer, which are asked after the other questions
	errorCount    int         // consecutive errors of the judge
	lastError     error       // most recent error of the judge
}

// mark is the note of one judge about a session that the judge has read.
type mark struct {
	Hash     string    `json:"hash"`            // hash of the content (Session.hash); "" after an error of the judge
	Tries    int       `json:"tries,omitempty"` // number of unusable answers about this content; maxUnusable after a refusal
	Row      string    `json:"row,omitempty"`   // rowDigest of the session
	Counted  []string  `json:"cases,omitempty"` // short keys of what the session added to cases and lessons (addOnce)
	Opinions Opinions  `json:"said,omitempty"`  // opinions of the judge about the lessons of the session
	Texts    textNames `json:"texts,omitempty"` // name of the text of each lesson in Opinions
}

// hasFailed reports whether the judge was asked, but gave no usable answer.
func (m *mark) hasFailed() bool { return m.Tries > 0 || m.Hash == "" && m.Row != "" }

// isToAsk reports whether the judge is asked again although the content has not changed.
func (m *mark) isToAsk() bool { return m.Hash == "" || m.hasFailed() && !m.isSetAside() }

// isSetAside reports whether the judge is not asked about the session until the content changes.
func (m *mark) isSetAside() bool { return m.Tries >= maxUnusable }

// judgeName returns the name of the judge. Marks are stored under this name.
func (w *work) judgeName() string {
	if w.Distiller.o.Judge == nil {
		return "rules"
	}
	return w.Distiller.o.Judge.Name()
}

// readNotes reads the lessons, the opinions, the captured sessions and the cases of the tenant.
func (w *work) readNotes(ctx context.Context) error {
	var err error
	if w.book, _, err = w.Distiller.o.Bank.List(ctx); err != nil {
		return fmt.Errorf("distill: read the lessons: %w", err)
	}
	if w.archived, _, err = w.Distiller.o.Bank.Archived(ctx); err != nil {
		return fmt.Errorf("distill: read the archived lessons: %w", err)
	}
	w.cases, w.marks = map[string]*Case{}, map[session.ID][]byte{}
	if w.opinionSums.all, err = ReadOpinions(ctx, w.Distiller.o.Notes, w.tenant); err != nil {
		return fmt.Errorf("distill: read the opinions: %w", err)
	}
	if err := w.readTraffic(ctx); err != nil {
		return err
	}
	return w.Distiller.o.Notes.EachNote(ctx, w.tenant, "case|", func(key string, data []byte) error {
		var c Case
		if json.Unmarshal(data, &c) == nil { // unreadable notes of an older release are replaced
			w.cases[strings.TrimPrefix(key, "case|")] = &c
			w.lastSession = max(w.lastSession, c.Last)
		}
		return nil
	})
}

// rowDigest returns a digest that changes whenever a turn of a session, or the close of the session, is stored. The
// time of the newest request alone is not enough. A replica may store the row while the upstream still answers, and
// store the row again with the exchange, after the reply.
func rowDigest(r *session.Row, a *session.Applied) string {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d %d ", r.Seen.UnixMicro(), a.Version)
	_, _ = h.Write(r.Data)
	return strconv.FormatUint(h.Sum64(), 36)
}

// readSession reads one session, unless the mark shows that the session is unchanged. A returned error ends the walk
// over the sessions. A panic in the rules does not end the walk.
func (w *work) readSession(ctx context.Context, r session.Row, a session.Applied) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.Distiller.o.Select.Settled && !r.Closed {
		return nil
	}
	asked, again := w.reached[r.ID]
	if asked {
		return nil
	}
	if !again {
		w.summary.Read++
		if w.Distiller.o.Progress != nil {
			w.Distiller.o.Progress(1)
		}
	}
	if w.Distiller.o.Judge != nil {
		w.reached[r.ID] = false
	}
	old := map[string]mark{}
	data, err := w.Distiller.o.Notes.SessionNote(ctx, w.tenant, r.ID)
	if err != nil {
		return err
	}
	_ = json.Unmarshal(data, &old) // an unreadable mark counts as none
	last := old[w.judgeName()]
	if w.Distiller.o.Select.SetAside && last.isSetAside() {
		last.Hash, last.Tries = "", 0
	}
	digest := rowDigest(&r, &a)
	q := &question{id: r.ID, counted: again, marks: old, last: last, next: mark{Row: digest, Counted: last.Counted, Opinions: last.Opinions, Texts: last.Texts}}
	switch {
	case last.Row == digest && !last.isToAsk():
		w.countUnchanged(q)
		return nil
	case last.hasFailed() && w.Distiller.o.Judge != nil:
		w.judging.failed = append(w.judging.failed, q)
		return nil
	}
	return w.readContent(ctx, q)
}

// readFailed reads the sessions about which earlier runs got no usable answer. They are read last, so that their
// questions do not use up the budget of every run.
func (w *work) readFailed(ctx context.Context) error {
	for _, q := range w.judging.failed {
		if err := w.readContent(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// countUnchanged counts a session without new content, unless an earlier walk of this run has counted the session.
func (w *work) countUnchanged(q *question) {
	if q.counted {
		return
	}
	w.summary.Unchanged++
	if q.last.isSetAside() {
		w.summary.SetAside++
	}
}

// readContent reads the content of a session, and asks the judge or applies the rules if the content is new.
func (w *work) readContent(ctx context.Context, q *question) error {
	s, err := w.load(ctx, q.id)
	if err != nil {
		return err
	}
	if len(s.Content.Exchanges) == 0 { // for example a session that opted out
		w.countUnchanged(q)
		return nil
	}
	q.session, q.next.Hash = s, s.hash()
	if q.next.Hash == q.last.Hash {
		q.next.Tries = q.last.Tries
	}
	switch {
	case q.next.Hash == q.last.Hash && !q.next.isToAsk():
		w.countUnchanged(q)
	case w.Distiller.o.Judge != nil && w.Distiller.o.Select.Triage && len(w.traffic) >= minTriage && len(s.Injected) == 0 && !s.hasTrouble():
		q.next.Tries = 0
		w.summary.Untroubled++
	case w.Distiller.o.Judge != nil:
		return w.ask(ctx, q)
	default:
		w.applyRules(s, &q.next)
	}
	return w.writeMarks(ctx, q.id, q.marks, &q.last, &q.next)
}

// writeMarks writes the marks of a session.
func (w *work) writeMarks(ctx context.Context, id session.ID, marks map[string]mark, last, next *mark) error {
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

// load reads the exchanges of a session. If a judge is configured, load also reads the feedback.
func (w *work) load(ctx context.Context, id session.ID) (*Session, error) {
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

// applyRules adds the failures, rejections and corrections in a session to the cases. A panic affects only this
// session.
func (w *work) applyRules(s *Session, m *mark) {
	defer func() {
		if v := recover(); v != nil {
			w.reportFailure(s, &panicError{v, debug.Stack()})
		}
	}()
	r := parseSession(s, w.orgWords)
	w.summary.Judged++
	w.lastSession++
	for _, c := range append(r.failures(), r.userOccurrences()...) {
		w.addToCase(&c.failure, m)
		if len(w.errorsByCase[c.failure.Key]) < 3 && len(w.errorsByCase) < 4096 {
			w.errorsByCase[c.failure.Key] = append(w.errorsByCase[c.failure.Key], c.testError)
		}
	}
}

// addToCase adds the occurrence c of a case in one session to the case of all sessions. The session and each of its
// fixes count only once, even if the session continues and is read again.
func (w *work) addToCase(c *Case, m *mark) {
	first := m.addOnce(c.Key)
	fixes := c.Fixes[:0:0]
	for _, h := range c.Fixes {
		if h.Sessions == 0 {
			if m.addOnce("failed|" + c.Key + "|" + h.fix().key()) {
				fixes = append(fixes, h)
			}
			continue
		}
		if m.addOnce(c.Key + "|" + h.fix().key()) {
			if m.addOnce("lesson|" + c.groupKey(&h)) {
				h.Distinct = 1
			}
			fixes = append(fixes, h)
		}
	}
	if c.Ended > 0 && !m.addOnce("ended|"+c.Key) {
		c.Ended = 0
	}
	if !first && len(fixes)+c.Ended == 0 {
		return
	}
	c.Fixes, c.Open = fixes, true
	if !first {
		c.Sessions, c.Once = 0, 0
	}
	if old := w.cases[c.Key]; old != nil {
		old.add(c)
		c = old
	} else if len(w.cases) >= MaxCases {
		w.removeOldestCase()
	}
	c.Last = w.lastSession
	w.cases[c.Key], w.changedCases[c.Key] = c, c
}

// removeOldestCase removes the case that no session had for the longest time; of equally old cases, a case with the
// fewest sessions. Without the removal, a tenant with MaxCases old failures would get no lesson about a new failure.
func (w *work) removeOldestCase() {
	var oldest *Case
	for _, c := range w.cases {
		if oldest == nil || cmp.Or(cmp.Compare(c.Last, oldest.Last), cmp.Compare(c.Sessions, oldest.Sessions), cmp.Compare(c.Key, oldest.Key)) < 0 {
			oldest = c
		}
	}
	delete(w.cases, oldest.Key)
	w.changedCases[oldest.Key] = nil
	w.summary.RemovedCases++
}

// maxAdded is the maximum length of mark.Counted.
const maxAdded = 128

// addOnce reports whether the mark lacks key, and adds key to the mark. If the mark is full, addOnce adds nothing and
// returns false.
func (m *mark) addOnce(key string) bool {
	sum := shortKey(key)
	if slices.Contains(m.Counted, sum) || len(m.Counted) >= maxAdded {
		return false
	}
	m.Counted = append(m.Counted, sum)
	return true
}

// MaxCases is the maximum number of cases of a tenant. Without a limit, invented failures could fill the store.
const MaxCases = 5000

// flush writes the changed marks and notes, and renews the claim on the tenant. flush returns an error if another
// distiller has the claim.
func (w *work) flush(ctx context.Context) error {
	if w.Distiller.o.DryRun {
		w.marks = map[session.ID][]byte{}
		return nil
	}
	notes := map[string][]byte{}
	for key, c := range w.changedCases {
		if c == nil {
			notes["case|"+key] = nil
			continue
		}
		data, err := json.Marshal(c)
		if err != nil {
			return err
		}
		notes["case|"+key] = data
	}
	if err := w.opinionSums.write(notes); err != nil {
		return err
	}
	for slug, s := range w.support {
		data, err := json.Marshal(s)
		if err != nil {
			return err
		}
		notes[supportKey+slug] = data
	}
	if len(w.marks)+len(notes) == 0 {
		return nil
	}
	ok, err := w.Distiller.o.Notes.Claim(ctx, w.claim, w.Distiller.o.Owner, w.Distiller.o.Now(), claimDuration)
	if err != nil {
		return fmt.Errorf("distill: %w", err)
	}
	if !ok {
		return errors.New("distill: another distiller has taken the lease, because this distiller did not renew the lease in time; the other distiller reads the remaining sessions")
	}
	if err := w.Distiller.o.Notes.WriteNotes(ctx, w.tenant, w.marks, notes); err != nil {
		return fmt.Errorf("distill: %w", err)
	}
	w.marks = map[session.ID][]byte{}
	w.changedCases, w.opinionSums.changed, w.support = map[string]*Case{}, nil, map[string]support{}
	return nil
}

// proposeGrown proposes the lessons of the cases that have changed since their last proposal.
func (w *work) proposeGrown(ctx context.Context) error {
	if w.Distiller.o.Judge != nil {
		return nil
	}
	list := make([]*Case, 0, len(w.cases))
	for _, c := range w.cases {
		list = append(list, c)
	}
	for _, d := range drafts(list, w.orgWords) {
		if err := ctx.Err(); err != nil {
			return err
		}
		grown := slices.ContainsFunc(d.cases, func(c *Case) bool { return c.Open })
		if !grown || !w.testTriggers(&d) {
			continue
		}
		if d.Comparison.isIneffective() {
			w.summary.addNotProposed(&d)
			continue // the cases stay open, because later sessions may change the comparison
		}
		w.summary.Candidates++
		switch err := w.propose(ctx, &d); {
		case errors.Is(err, errFull):
			continue // the cases stay open
		case err != nil:
			return err
		}
		for _, drafted := range d.cases {
			c := w.cases[drafted.Key]
			c.Open = false
			w.changedCases[c.Key] = c
		}
	}
	return w.flush(ctx)
}
