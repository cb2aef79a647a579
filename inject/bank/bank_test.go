package bank_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"precept/inject/bank"
	"precept/inject/lesson"
)

func newProposal(slug string) bank.Proposal {
	return bank.Proposal{Source: "api", By: "coder", Scope: lesson.Scope{Tenant: "acme", Agent: "coder"}, Lesson: &lesson.Lesson{
		Slug: slug, Title: "Read " + slug + " first.", Outcome: "success", Confidence: 0.4,
		Trigger:  lesson.Trigger{Description: "when " + slug + " is met", Keywords: []string{"pages of " + slug}},
		Evidence: []lesson.Evidence{{Kind: "conversation", Ref: "c1"}}, Advice: "Read the number of the page first.",
	}}
}

func newBankAcceptingEvidence(m *memory, limits bank.Limits, current func() time.Time) *bank.Bank {
	return bank.New(bank.Options{Storage: m, Now: current, Limits: limits, Checks: lesson.Checker{Resolve: func(lesson.Evidence) bool { return true }}})
}

func TestConflictingWriteIsRetriedOnNewContents(t *testing.T) {
	b, m := newMemoryBank(t, "one")
	m.onCommit = func() {
		m.texts["two.md"] = lessonText(t, "two")
		m.version++
	}
	if err := retire(t.Context(), b, "one"); err != nil {
		t.Fatal(err)
	}
	if got := listSlugs(t, b); got != "two" || len(m.commits) != 2 {
		t.Errorf("lessons = %q after %d commits, want only \"two\" after 2 commits", got, len(m.commits))
	}
	if !strings.Contains(string(m.index), "| two |") || strings.Contains(string(m.index), "| one |") {
		t.Errorf("index =\n%s\nwant only the lesson \"two\"", m.index)
	}
	m.onCommit = func() { delete(m.texts, "two.md"); m.version++ }
	if err := retire(t.Context(), b, "two"); !errors.Is(err, bank.ErrNoLesson) {
		t.Errorf("retire after another writer removed the lesson: err = %v, want %v", err, bank.ErrNoLesson)
	}
	m.texts["two.md"], m.commits, m.commitErr = lessonText(t, "two"), nil, bank.ErrChanged
	if err := retire(t.Context(), b, "two"); !errors.Is(err, bank.ErrChanged) || len(m.commits) != 16 {
		t.Errorf("constant conflicts: got %d commits, err = %v, want 16 commits and %v", len(m.commits), err, bank.ErrChanged)
	}
}

func TestConcurrentWritesShareACommit(t *testing.T) {
	const n = 40
	m := &memory{texts: map[string][]byte{}}
	b := newBankAcceptingEvidence(m, bank.Limits{AgentWritesPerHour: 1000}, noon)
	var all sync.WaitGroup
	errs := make([]error, n)
	write := func(i int) {
		all.Go(func() {
			p := newProposal(fmt.Sprint("slug-", i))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			switch i % 4 {
			case 1:
				p.Lesson.Confidence = 3
			case 2:
				p.Lesson.Slug = "slug-0"
			case 3:
				cancel()
			}
			_, errs[i] = b.Propose(ctx, p)
		})
	}
	m.onCommit = func() { // called during the first commit
		for i := 1; i < n; i++ {
			write(i)
		}
		for b.WaitingWrites() < n-1 {
			runtime.Gosched()
		}
	}
	write(0)
	all.Wait()
	for i, err := range errs {
		switch {
		case i%4 == 0 && err != nil, i%4 == 1 && !hasCode(err, lesson.CodeConfidence), i%4 == 2 && !hasCode(err, lesson.CodeCollision),
			i%4 == 3 && !errors.Is(err, context.Canceled):
			t.Errorf("write %d: err = %v, want no error if the number modulo 4 is 0, a confidence fault if 1, a collision if 2, a cancellation if 3", i, err)
		}
	}
	if book, _, err := b.List(t.Context()); err != nil || book.Len() != n/4 || len(m.commits) != 2 {
		t.Errorf("List: err = %v after %d commits, want no error and %d lessons after 2 commits", err, len(m.commits), n/4)
	}
}

// Waiting writes share a commit. A write that archives a lesson must end the commit, so that the next write sees the
// archived slug.
func TestNextWriteSeesAnArchivedSlug(t *testing.T) {
	b, m := newMemoryBank(t, "one")
	var all sync.WaitGroup
	var putErr, retireErr error
	m.onCommit = func() {
		all.Go(func() { retireErr = retire(t.Context(), b, "one") })
		for b.WaitingWrites() < 1 {
			runtime.Gosched()
		}
		all.Go(func() { _, putErr = b.Put(t.Context(), "other/one.md", lessonText(t, "one"), "me") })
		for b.WaitingWrites() < 2 {
			runtime.Gosched()
		}
	}
	if _, err := b.Put(t.Context(), "two.md", lessonText(t, "two"), "me"); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if retireErr != nil || !hasCode(putErr, lesson.CodeCollision) || len(m.commits) != 2 {
		t.Errorf("got %d commits, error %v from retire, error %v from Put; want 2 commits, no error from retire, a collision from Put", len(m.commits), retireErr, putErr)
	}
}

func TestWriteIsRetriedOnlyAfterAConflict(t *testing.T) {
	b, m := newMemoryBank(t, "one")
	m.commitErr = errors.New("the disk is full")
	if _, err := b.Put(t.Context(), "two.md", lessonText(t, "two"), "me"); !errors.Is(err, m.commitErr) || len(m.commits) != 1 {
		t.Errorf("Put with a full disk: got %d commits, err = %v, want 1 commit and %v", len(m.commits), err, m.commitErr)
	}
	m.commitErr, m.tailErr = nil, errors.New("the log cannot be read")
	for call, err := range map[string]error{
		"propose": func() error { _, err := b.Propose(t.Context(), newProposal("three")); return err }(),
		"log":     func() error { _, err := b.Log(t.Context(), 1); return err }(),
	} {
		if !errors.Is(err, m.tailErr) {
			t.Errorf("%s: got error %v, want %v", call, err, m.tailErr)
		}
	}
	if len(m.commits) != 1 {
		t.Errorf("got %d commits, want 1, because a proposal writes nothing if the bank cannot read the log", len(m.commits))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := b.List(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("List with a canceled context: err = %v, want %v", err, context.Canceled)
	}
}

func TestUnchangedLessonWritesNothing(t *testing.T) {
	b, m := newMemoryBank(t, "one")
	book, _, err := b.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l, _ := book.Get("one")
	if cited, err := b.Cite(t.Context(), "one", l.Evidence, 0, "me"); err != nil || cited.Raw != l.Raw {
		t.Errorf("Cite with known evidence: err = %v, want nil and an unchanged text", err)
	}
	if changed, _, err := b.Replace(t.Context(), map[string][]byte{"one.md": lessonText(t, "one")}, "me"); err != nil || len(changed) > 0 {
		t.Errorf("Replace with equal texts: changed = %v, err = %v, want no change and no error", changed, err)
	}
	if n, err := b.CopyIn(t.Context(), map[string][]byte{"one.md": lessonText(t, "one")}, "me"); err != nil || n != 1 {
		t.Errorf("CopyIn with one equal text = %d lessons, error %v, want 1 lesson and no error", n, err)
	}
	if len(m.commits) > 0 {
		t.Errorf("commits after changes without effect = %+v, want none", m.commits)
	}
	// A refusal is logged, and changes neither the texts nor the index.
	bad := newProposal("two")
	bad.Lesson.Confidence = 3
	if _, err := b.Propose(t.Context(), bad); !hasCode(err, lesson.CodeConfidence) {
		t.Fatalf("Propose with confidence 3: err = %v, want code %s", err, lesson.CodeConfidence)
	}
	if c := m.commits; len(c) != 1 || len(c[0].Edits) > 0 || c[0].Index != nil || len(c[0].Log) != 1 {
		t.Errorf("commits after a refused proposal = %+v, want one with one event, no edits and no index", c)
	}
}

func TestCiteKeepsFiftyReferences(t *testing.T) {
	m := &memory{texts: map[string][]byte{"one.md": lessonText(t, "one")}}
	b := newBankAcceptingEvidence(m, bank.Limits{}, noon)
	for n := range 30 {
		var more []lesson.Evidence
		for i := range 3 {
			more = append(more, lesson.Evidence{Kind: "run", Ref: fmt.Sprint("r", n*3+i)})
		}
		if _, err := b.Cite(t.Context(), "one", append(more, more...), 0, "me"); err != nil {
			t.Fatal(err)
		}
	}
	book, _, err := b.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if l, _ := book.Get("one"); len(l.Evidence) != 50 || l.State != lesson.Active {
		t.Errorf("got %d references and state %s, want 50 and active", len(l.Evidence), l.State)
	}
	if _, err := b.Cite(t.Context(), "two", nil, 0, "me"); !errors.Is(err, bank.ErrNoLesson) {
		t.Errorf("Cite(unknown lesson) error = %v, want %v", err, bank.ErrNoLesson)
	}
}

func TestIndexKeepsPreviousCounts(t *testing.T) {
	m := &memory{texts: map[string][]byte{"one.md": lessonText(t, "one"), "two.md": lessonText(t, "two")}}
	counted := bank.New(bank.Options{Storage: m, Now: noon, Counts: func(slug string) lesson.Counts {
		return map[string]lesson.Counts{"one": {Success: 7, Failure: 2}}[slug]
	}})
	if err := counted.Reindex(t.Context()); err != nil {
		t.Fatal(err)
	}
	plain := bank.New(bank.Options{Storage: m, Now: noon})
	if _, err := plain.Put(t.Context(), "three.md", lessonText(t, "three"), "me"); err != nil {
		t.Fatal(err)
	}
	for slug, want := range map[string]lesson.Counts{"one": {Success: 7, Failure: 2}, "two": {}, "three": {}} {
		if got := lesson.ParseIndexCounts(m.index)(slug); got != want || !strings.Contains(string(m.index), "| "+slug+" |") {
			t.Errorf("%s counts = %+v, want %+v; index:\n%s", slug, got, want, m.index)
		}
	}
}

// The quota counts the writes in the shared log. Refused proposals count, but people's writes do not.
func TestQuotaIsSharedByReplicas(t *testing.T) {
	current := noon()
	clock := func() time.Time { return current }
	m := &memory{texts: map[string][]byte{}}
	limits := bank.Limits{AgentWritesPerHour: 4, TenantWritesPerHour: 6, TenantWaiting: 100}
	one, other := newBankAcceptingEvidence(m, limits, clock), newBankAcceptingEvidence(m, limits, clock)
	bad := newProposal("bad")
	bad.Lesson.Title = ""
	putAsPerson := func(slug string) error {
		_, err := one.Put(t.Context(), slug+".md", lessonText(t, slug), "ann")
		return err
	}
	if err := errors.Join(putAsPerson("mine"), putAsPerson("too")); err != nil {
		t.Fatal(err)
	}
	for i, p := range []bank.Proposal{newProposal("aa"), bad, newProposal("cc"), newProposal("dd")} {
		b := []*bank.Bank{one, other}[i%2]
		if _, err := b.Propose(t.Context(), p); errors.Is(err, bank.ErrTooMany) || (err == nil) == (i == 1) {
			t.Fatalf("proposal %d: err = %v, want an error only for proposal 1, and never ErrTooMany", i, err)
		}
	}
	if _, err := other.Propose(t.Context(), newProposal("ee")); !errors.Is(err, bank.ErrTooMany) {
		t.Errorf("fifth proposal: err = %v, want %v", err, bank.ErrTooMany)
	}
	if _, err := one.Revise(t.Context(), "aa", newProposal("aa")); !errors.Is(err, bank.ErrTooMany) {
		t.Errorf("revision: err = %v, want %v", err, bank.ErrTooMany)
	}
	if err := one.Withdraw(t.Context(), "aa", newProposal("aa").Scope, "coder"); err != nil {
		t.Errorf("withdrawal after the limit was reached: err = %v, want nil", err)
	}
	colleague := newProposal("ff")
	colleague.Scope.Agent = "reviewer"
	if _, err := other.Propose(t.Context(), colleague); err != nil {
		t.Errorf("another agent's proposal: err = %v, want nil", err)
	}
	colleague = newProposal("gg")
	colleague.Scope.Agent = "reviewer"
	if _, err := other.Propose(t.Context(), colleague); !errors.Is(err, bank.ErrTooMany) {
		t.Errorf("tenant's seventh proposal: err = %v, want %v", err, bank.ErrTooMany)
	}
	if err := putAsPerson("three"); err != nil {
		t.Errorf("person's write: err = %v, want nil", err)
	}
	current = current.Add(time.Hour)
	if _, err := one.Propose(t.Context(), newProposal("hh")); err != nil {
		t.Errorf("proposal an hour later: err = %v, want nil", err)
	}
}

func TestProposeAllChecksProposalsAgainstEachOther(t *testing.T) {
	m := &memory{texts: map[string][]byte{}}
	b := newBankAcceptingEvidence(m, bank.Limits{}, noon)
	third := newProposal("third")
	third.Lesson.Supersedes = []string{"first"}
	results, err := b.ProposeAll(t.Context(), []bank.Proposal{newProposal("first"), newProposal("first"), third, {Text: []byte("no lesson"), Source: "api"}, newProposal("last")})
	if err != nil || len(results) != 5 {
		t.Fatalf("ProposeAll: %d results, err = %v, want 5 and nil", len(results), err)
	}
	for i, code := range []lesson.Code{"", lesson.CodeCollision, "", lesson.CodeInvalid, ""} {
		if r := results[i]; (r.Err == nil) != (code == "") || code != "" && !hasCode(r.Err, code) || (r.Lesson == nil) != (code != "") {
			t.Errorf("proposal %d: result = %+v, want error code %q or, if the code is empty, a lesson and no error", i, r, code)
		}
	}
	if len(m.commits) != 1 || len(m.commits[0].Edits) != 3 || len(m.commits[0].Log) != 5 {
		t.Errorf("ProposeAll made %d commits %+v, want 1 with 3 edits and 5 events", len(m.commits), m.commits)
	}
	// A refused proposal's event has only the author and the codes.
	if e := m.log[1]; e.Action != "refuse" || e.Slug != "" || e.Hash != "" || e.By != "coder" || fmt.Sprint(e.Detail["codes"]) != "[slug_collision]" {
		t.Errorf(`event of the second proposal = %+v, want a refusal by "coder" with the code slug_collision, and no slug or hash`, e)
	}
}

func TestDirectoryWritesThroughLinks(t *testing.T) {
	b, dir := newDirectoryBank(t, "one")
	elsewhere := filepath.Join(t.TempDir(), "shared.md")
	if err := errors.Join(os.WriteFile(elsewhere, lessonText(t, "two"), 0o600), os.Symlink(elsewhere, filepath.Join(dir, "two.md"))); err != nil {
		t.Fatal(err)
	}
	text := []byte(strings.Replace(string(lessonText(t, "two")), "List the targets first.", "List them all first.", 1))
	if _, err := b.Put(t.Context(), "two.md", text, "me"); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(filepath.Join(dir, "two.md"))
	current, readErr := os.ReadFile(elsewhere)
	if err != nil || info.Mode()&os.ModeSymlink == 0 || readErr != nil || string(current) != string(text) {
		t.Errorf("two.md: Lstat = %+v, %v, want a link; target = %q, %v, want %q", info, err, current, readErr, text)
	}
	// If the bank cannot write to the log, Put returns an error, but only after it has written the lesson and the
	// index.
	if err := errors.Join(os.Remove(filepath.Join(dir, "_log.jsonl")), os.Mkdir(filepath.Join(dir, "_log.jsonl"), 0o750)); err != nil {
		t.Fatal(err)
	}
	_, err = b.Put(t.Context(), "three.md", lessonText(t, "three"), "me")
	if err == nil || !strings.Contains(err.Error(), "the lessons were written") || errors.Is(err, bank.ErrChanged) {
		t.Errorf("Put with an unwritable log: err = %v, want \"the lessons were written\"", err)
	}
	if got := listSlugs(t, b); got != "one three two" {
		t.Errorf("lessons = %q, want \"one three two\"", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "_index.md")); err != nil {
		t.Errorf("_index.md: %v", err)
	}
}

// A lesson from a program waits in quarantine until a person approves exactly this text.
func ExampleBank_Propose() {
	b := bank.New(bank.Options{Storage: &memory{texts: map[string][]byte{}}, Now: noon})
	ctx := context.Background()
	r, err := b.Propose(ctx, bank.Proposal{Source: "distill", Lesson: &lesson.Lesson{
		Title: "Read the page id again after a jump.", Outcome: "success",
		Trigger:  lesson.Trigger{Description: "A page jumps.", Keywords: []string{"stale element"}},
		Evidence: []lesson.Evidence{{Kind: "conversation", Ref: "c1"}}, Advice: "Ids change with every navigation.",
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Lesson.State)
	r, err = b.Act(ctx, r.Lesson.Slug, bank.Decision{Action: lesson.Approve, By: "ann"})
	fmt.Println(r.Lesson.State, err)
	// Output:
	// quarantined
	// active <nil>
}

func retire(ctx context.Context, b *bank.Bank, slug string) error {
	_, err := b.Act(ctx, slug, bank.Decision{Action: lesson.Retire, By: "me"})
	return err
}

func restore(ctx context.Context, b *bank.Bank, slug string) (*lesson.Lesson, error) {
	r, err := b.Act(ctx, slug, bank.Decision{Action: lesson.Restore, By: "me"})
	return r.Lesson, err
}
