package distill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"precept/inject/lesson"
	"precept/internal/session"
)

// tenantDistiller is one run's state for one tenant. The run reads the notes at the start, and flush writes the changed
// notes.
type tenantDistiller struct {
	Distiller         *Distiller
	tenant, leaseName string
	orgWords          bool // lessons may use the words of the store's only tenant
	summary           *Summary
	book              *lesson.Book
	archived          []*lesson.Lesson // archived and rejected lessons, never proposed again
	cases             map[string]*Case
	changedCases      map[string]*Case       // cases that have changed since the last write, by key; nil for a removed case
	lastSession       int64                  // number of the newest session read by the rules (Case.Last)
	errorsByCase      map[string][]seenError // errors by case key, for testing drafts' triggers
	marks             map[session.ID][]byte  // each session's judgeMark values as JSON, not yet written
	opinionSums       opinionSums
	support           map[string]support // support that has changed since the last write, by lesson slug
	budget            Budget
	skipFailed        bool                // leave failed sessions (judgeMark.hasFailed) to RunOnce's second round
	reached           map[session.ID]bool // sessions reached so far; the value is true if the judge was asked
	judging           judging
	capturedSessions  []capturedSession // captured sessions, for testing a model's triggers
}

type judging struct {
	openQuestions     []*question
	failed            []*question // questions without a usable answer so far; they are asked last
	consecutiveErrors int
	lastError         error
}

// judgeName is the key for this distiller's judgeMark in a session's note.
func (w *tenantDistiller) judgeName() string {
	if w.Distiller.o.Judge == nil {
		return "rules"
	}
	return w.Distiller.o.Judge.Name()
}

func (w *tenantDistiller) readNotes(ctx context.Context) error {
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
	if err := w.readCapturedSessions(ctx); err != nil {
		return err
	}
	return w.Distiller.o.Notes.EachNote(ctx, w.tenant, "case|", func(key string, data []byte) error {
		var c Case
		if json.Unmarshal(data, &c) == nil { // unreadable notes from an older release are replaced
			w.cases[strings.TrimPrefix(key, "case|")] = &c
			w.lastSession = max(w.lastSession, c.Last)
		}
		return nil
	})
}

// flush writes the changed notes. It also renews the claim on the tenant, and fails if a different distiller has the
// claim.
func (w *tenantDistiller) flush(ctx context.Context) error {
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
		notes[supportKeyPrefix+slug] = data
	}
	if len(w.marks)+len(notes) == 0 {
		return nil
	}
	ok, err := w.Distiller.o.Notes.AcquireLease(ctx, w.leaseName, w.Distiller.o.Owner, w.Distiller.o.Now(), claimDuration)
	if err != nil {
		return fmt.Errorf("distill: %w", err)
	}
	if !ok {
		return errors.New("distill: another distiller took over, because this distiller did not renew its lease in time; the other distiller reads the remaining sessions")
	}
	if err := w.Distiller.o.Notes.WriteNotes(ctx, w.tenant, w.marks, notes); err != nil {
		return fmt.Errorf("distill: %w", err)
	}
	w.marks = map[session.ID][]byte{}
	w.changedCases, w.opinionSums.changed, w.support = map[string]*Case{}, nil, map[string]support{}
	return nil
}

func (w *tenantDistiller) proposeChangedCases(ctx context.Context) error {
	if w.Distiller.o.Judge != nil {
		return nil
	}
	list := make([]*Case, 0, len(w.cases))
	for _, c := range w.cases {
		list = append(list, c)
	}
	for _, d := range caseDrafts(list, w.orgWords) {
		if err := ctx.Err(); err != nil {
			return err
		}
		grown := slices.ContainsFunc(d.cases, func(c *Case) bool { return c.Changed })
		if !grown || !w.dropBroadErrorTriggers(&d) {
			continue
		}
		if d.Comparison.isIneffective() {
			w.summary.addNotProposed(&d)
			continue // later sessions may change the comparison
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
			c.Changed = false
			w.changedCases[c.Key] = c
		}
	}
	return w.flush(ctx)
}
