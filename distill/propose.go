package distill

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"

	"precept/inject/bank"
	"precept/inject/lesson"
)

// shortKey returns a short hash for a key, because a note holds up to a hundred keys.
func shortKey(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:5])
}

// dropBroadErrorTriggers removes error kinds and patterns that match too many errors in other cases. It also removes
// patterns that match nothing in the draft's own cases, unless the draft is about a known failure with several
// wordings. The result is false if no trigger is left.
func (w *tenantDistiller) dropBroadErrorTriggers(d *Draft) bool {
	ownCases := map[string]bool{}
	for _, c := range d.cases {
		ownCases[c.Key] = true
	}
	matched := false
	d.Kinds = slices.DeleteFunc(d.Kinds, func(kind string) bool {
		_, broad := w.testTrigger(d, lesson.Trigger{ErrorKinds: []string{kind}}, ownCases)
		return broad
	})
	d.Errors = slices.DeleteFunc(d.Errors, func(p string) bool {
		hit, broad := w.testTrigger(d, lesson.Trigger{ErrorPatterns: []string{p}}, ownCases)
		matched = matched || hit
		return broad || !hit && !d.isKnownFailure()
	})
	return matched && len(d.Errors) > 0 || len(d.Keywords) > 0
}

// A trigger is too broad if it matches more errors in other cases than both limits allow.
const (
	maxOtherShare  = 0.03 // share of the errors in other cases
	maxOtherErrors = 3
)

// testTrigger tests a trigger on the errors in this run. ownCases has the keys of the draft's cases. hit is true if the
// trigger matches an error in these cases, or if these cases have no errors. broad is true if the trigger matches too
// many other errors.
func (w *tenantDistiller) testTrigger(d *Draft, trigger lesson.Trigger, ownCases map[string]bool) (hit, broad bool) {
	trigger.Tools = d.Tools
	l := &lesson.Lesson{Slug: "tested", State: lesson.Active, Trigger: trigger}
	book := lesson.NewBook([]*lesson.Lesson{l})
	tried, matched := map[bool]int{}, map[bool]int{} // numbers of own errors (true) and other errors (false)
	for key, texts := range w.errorsByCase {
		tool := ""
		if c := w.cases[key]; c != nil && !c.Shell {
			tool = c.Tool
		}
		for _, e := range texts {
			tried[ownCases[key]]++
			matched[ownCases[key]] += len(book.Match(&lesson.Query{Errors: []lesson.ErrorText{{Tool: tool, Text: e.text, Kinds: e.kinds}}, Now: w.Distiller.o.Now()}))
		}
	}
	return tried[true] == 0 || matched[true] > 0, float64(matched[false]) > max(maxOtherErrors, maxOtherShare*float64(tried[false]))
}

// errFull means that the bank is at its limit. A later run repeats the proposal.
var errFull = errors.New("the bank accepts no more lessons for now")

// propose proposes a draft to the bank, or adds the sessions to an equal lesson's evidence.
func (w *tenantDistiller) propose(ctx context.Context, d *Draft) error {
	l := d.toLesson(w.tenant)
	for _, old := range w.archived {
		if old.Scope.Tenant == w.tenant && compareLessons(l, old) == duplicate {
			w.summary.refuse(d, "", "a lesson with the same advice is archived")
			return nil
		}
	}
	for _, old := range w.book.Lessons() {
		if old.Scope.Tenant != "" && old.Scope.Tenant != w.tenant {
			continue
		}
		kind, err := w.compareWith(ctx, l, old)
		switch {
		case err != nil:
			return err
		case kind != duplicate:
			continue
		case old.State == lesson.Rejected:
			w.summary.refuse(d, "", "a lesson with the same advice was rejected")
			return nil
		case old.State == lesson.Archived || old.State == lesson.Superseded || old.State == lesson.Expired:
			w.summary.refuse(d, "", "a lesson with the same advice is archived, superseded or expired")
			return nil
		}
		return w.addEvidence(ctx, d, old)
	}
	if against := w.book.Contradicting(l); len(against) > 0 {
		d.Contradicts = against[0].Slug
		w.summary.Contradictions++
	}
	if w.Distiller.o.DryRun {
		w.summary.add(d, string(lesson.Quarantined))
		w.putInBook(l)
		return nil
	}
	return w.proposeNew(ctx, d, l)
}

func (w *tenantDistiller) proposeNew(ctx context.Context, d *Draft, l *lesson.Lesson) error {
	refs, err := w.addSightings(ctx, l.Slug, d.Refs)
	if err != nil {
		return err
	}
	if _, err := w.countSupport(ctx, l.Slug, d); err != nil {
		return err
	}
	res, err := w.Distiller.o.Bank.Propose(ctx, bank.Proposal{
		Lesson: l, Source: lessonSource, By: "distill:" + w.judgeName(), Scope: lesson.Scope{Tenant: w.tenant},
	})
	var refused *bank.Refused
	switch {
	case errors.As(err, &refused):
		w.summary.refuse(d, string(refused.Faults[0].Code), refused.Faults[0].Message)
	case errors.Is(err, bank.ErrTooMany), errors.Is(err, bank.ErrTenantLessons):
		w.summary.refuse(d, "", "too many lessons were written within the hour, or are waiting for approval; a later run proposes the draft again")
		return errFull
	case err != nil:
		return err
	default:
		if res.Lesson, err = w.admitToTrial(ctx, d, res.Lesson, refs); err != nil {
			return err
		}
		w.summary.add(d, string(res.Lesson.State))
		w.putInBook(res.Lesson)
	}
	return nil
}

func (w *tenantDistiller) addEvidence(ctx context.Context, d *Draft, old *lesson.Lesson) error {
	var fresh []lesson.Evidence
	for _, e := range evidence(d.Refs) {
		if !slices.ContainsFunc(old.Evidence, func(o lesson.Evidence) bool { return o.Kind == e.Kind && o.Ref == e.Ref }) {
			fresh = append(fresh, e)
		}
	}
	w.summary.Merged++
	w.summary.MergedInto = append(w.summary.MergedInto, old.Slug)
	if w.Distiller.o.DryRun || old.Form != lesson.FormAIP11 && len(old.Raw) > 0 {
		return nil
	}
	var sightings []Ref // the draft's sessions, but only if the draft has the lesson's advice, and not just a similar slug
	if d.repeatsAdvice(old) {
		sightings = d.Refs
	}
	refs, err := w.addSightings(ctx, old.Slug, sightings)
	if err != nil {
		return err
	}
	count, err := w.countSupport(ctx, old.Slug, d)
	if err != nil {
		return err
	}
	l := old
	if len(fresh) > 0 || count > old.Support() { // an interrupted run may have added the evidence
		l, err = w.Distiller.o.Bank.Cite(ctx, old.Slug, fresh, count, "distill:"+w.judgeName())
	}
	switch {
	case errors.Is(err, bank.ErrNoLesson): // the lesson was removed in the meantime
		return nil
	case err != nil:
		return err
	}
	if l, err = w.admitToTrial(ctx, d, l, refs); err != nil {
		return err
	}
	w.putInBook(l)
	return nil
}

func (w *tenantDistiller) putInBook(l *lesson.Lesson) {
	if _, known := w.book.Get(l.Slug); !known {
		w.book = w.book.AppendLesson(l)
		return
	}
	w.book = w.book.WithLessons(append(slices.DeleteFunc(w.book.Lessons(), func(o *lesson.Lesson) bool { return o.Slug == l.Slug }), l))
}

// addSightings adds refs to a lesson's sightings (sessions that support the lesson), and returns all sightings. The
// note, unlike the lesson file, has not only each session's id but also its run and callers, which show whether two
// sessions are independent.
func (w *tenantDistiller) addSightings(ctx context.Context, slug string, refs []Ref) ([]Ref, error) {
	key := "refs|" + slug
	var list []Ref
	data, err := w.Distiller.o.Notes.TenantNote(ctx, w.tenant, key)
	if err != nil {
		return nil, err
	}
	_ = json.Unmarshal(data, &list) // an unreadable list is replaced
	oldCount := len(list)
	list = addRefs(list, refs)
	if len(list) == oldCount || w.Distiller.o.DryRun {
		return list, nil
	}
	if data, err = json.Marshal(list); err != nil {
		return nil, err
	}
	return list, w.Distiller.o.Notes.WriteNotes(ctx, w.tenant, nil, map[string][]byte{key: data})
}

// compareWith compares a draft with an existing lesson. If the lessons are separate, it stores that decision, so that a
// later change of the wording does not merge them.
func (w *tenantDistiller) compareWith(ctx context.Context, l, old *lesson.Lesson) (relation, error) {
	kind := compareLessons(l, old)
	if kind == unrelated || l.Slug == old.Slug {
		return kind, nil
	}
	key := "apart|" + min(l.Slug, old.Slug) + "|" + max(l.Slug, old.Slug)
	data, err := w.Distiller.o.Notes.TenantNote(ctx, w.tenant, key)
	switch {
	case err != nil:
		return kind, err
	case data != nil:
		return separate, nil
	case kind == separate && !w.Distiller.o.DryRun:
		return separate, w.Distiller.o.Notes.WriteNotes(ctx, w.tenant, nil, map[string][]byte{key: []byte("1")})
	}
	return kind, nil
}
