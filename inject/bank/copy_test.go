package bank_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"precept/inject/bank"
	"precept/inject/bank/banktest"
	"precept/inject/lesson"
)

func noon() time.Time { return time.Date(2032, 3, 4, 12, 0, 0, 0, time.UTC) }

func newDirectoryBank(t *testing.T, slugs ...string) (*bank.Bank, string) {
	t.Helper()
	dir := t.TempDir()
	for _, slug := range slugs {
		banktest.WriteLesson(t, dir, slug, "pages of "+slug)
	}
	return bank.New(bank.Options{Storage: bank.Directory(dir), Now: noon}), dir
}

// lessonText returns the text that WriteLesson writes.
func lessonText(t *testing.T, slug string) []byte {
	t.Helper()
	dir := t.TempDir()
	banktest.WriteLesson(t, dir, slug, "pages of "+slug)
	text, err := os.ReadFile(filepath.Join(dir, slug+".md"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func listSlugs(t *testing.T, b *bank.Bank) string {
	t.Helper()
	book, problems, err := b.List(t.Context())
	if err != nil || len(problems) > 0 {
		t.Fatalf("List: err = %v, problems = %+v, want none", err, problems)
	}
	var out []string
	for _, l := range book.Lessons() {
		out = append(out, l.Slug)
	}
	return strings.Join(out, " ")
}

// loggedActions returns the action and the slug of each logged event, separated by commas.
func loggedActions(t *testing.T, b *bank.Bank) string {
	t.Helper()
	log, err := b.Log(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range log {
		out = append(out, e.Action+" "+e.Slug)
	}
	return strings.Join(out, ", ")
}

func hasCode(err error, code lesson.Code) bool {
	refused, ok := errors.AsType[*bank.Refused](err)
	return ok && slices.ContainsFunc(refused.Faults, func(f lesson.ValidationError) bool { return f.Code == code })
}

// CopyIn also copies archived lessons, but does not count them. If a name is invalid, CopyIn copies nothing.
func TestCopyInReplacesOnlySameNames(t *testing.T) {
	b, dir := newDirectoryBank(t, "one", "two")
	two := []byte(strings.Replace(string(lessonText(t, "two")), "List the targets first.", "List them all first.", 1))
	n, err := b.CopyIn(t.Context(), map[string][]byte{
		"two.md": two, "deep/three.md": lessonText(t, "three"), bank.Archive + "four.md": lessonText(t, "four"),
	}, "somebody")
	if err != nil || n != 2 {
		t.Fatalf("CopyIn = %d lessons, error %v, want 2 lessons and no error", n, err)
	}
	if got := listSlugs(t, b); got != "one three two" {
		t.Errorf("lessons = %q, want \"one three two\"", got)
	}
	if got := loggedActions(t, b); !strings.Contains(got, "edit two") || strings.Contains(got, "one") {
		t.Errorf("logged actions = %s, want an edit for \"two\" and none for \"one\"", got)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "two.md")); err != nil || string(text) != string(two) {
		t.Errorf("two.md = %q, err = %v, want the copied text", text, err)
	}
	index, err := os.ReadFile(filepath.Join(dir, "_index.md"))
	if err != nil || !strings.Contains(string(index), "| three |") || strings.Contains(string(index), "| four |") {
		t.Errorf("index =\n%s\nerr = %v, want \"three\" but not \"four\" in the index", index, err)
	}
	for _, name := range []string{"_hidden.md", "../up.md", "a/.b.md", "five.txt", ".md"} {
		n, err := b.CopyIn(t.Context(), map[string][]byte{"six.md": lessonText(t, "six"), name: lessonText(t, "five")}, "somebody")
		if !hasCode(err, lesson.CodeInvalid) || n != 0 || strings.Contains(listSlugs(t, b), "six") {
			t.Errorf("CopyIn with the name %q = %d lessons, error %v, want the code %s and no lesson", name, n, err, lesson.CodeInvalid)
		}
	}
}

func TestReindexIncludesManuallyAddedFiles(t *testing.T) {
	b, dir := newDirectoryBank(t, "one")
	banktest.WriteLesson(t, dir, "by-hand", "something else")
	if err := b.Reindex(t.Context()); err != nil {
		t.Fatal(err)
	}
	index, err := os.ReadFile(filepath.Join(dir, "_index.md"))
	if err != nil || !strings.Contains(string(index), "| by-hand |") || !strings.Contains(string(index), "| one |") {
		t.Errorf("index =\n%s\nerr = %v, want \"by-hand\" and \"one\" in the index", index, err)
	}
	if got := loggedActions(t, b); got != "" {
		t.Errorf("Reindex logged %s, want no event", got)
	}
}

// A new lesson cannot have the slug of an archived lesson, because otherwise the archived lesson could not be restored.
func TestArchivedSlugIsReserved(t *testing.T) {
	b, _ := newDirectoryBank(t, "one", "two")
	ctx := t.Context()
	if err := errors.Join(retire(ctx, b, "one"), retire(ctx, b, "two")); err != nil {
		t.Fatal(err)
	}
	if got := listSlugs(t, b); got != "" {
		t.Errorf("lessons after retiring all = %s, want none", got)
	}
	if r, err := b.Put(ctx, "other.md", lessonText(t, "one"), "me"); !hasCode(err, lesson.CodeCollision) {
		t.Errorf("Put with an archived slug = %+v, %v, want code %s", r, err, lesson.CodeCollision)
	}
	if _, err := restore(ctx, b, "nobody"); !errors.Is(err, bank.ErrNoLesson) {
		t.Errorf("restoring an unknown lesson: err = %v, want %v", err, bank.ErrNoLesson)
	}
	l, err := restore(ctx, b, "one")
	if err != nil || l.Slug != "one" || l.State != lesson.Active {
		t.Errorf("restore(\"one\") = %+v, %v, want slug one and state %s", l, err, lesson.Active)
	}
	if _, err := restore(ctx, b, "one"); err == nil || !strings.Contains(err.Error(), "only an archived lesson can be restored") {
		t.Errorf("restoring a second time: err = %v, want \"only an archived lesson can be restored\"", err)
	}
	if err := retire(ctx, b, "three"); !errors.Is(err, bank.ErrNoLesson) {
		t.Errorf("retiring an unknown lesson: err = %v, want %v", err, bank.ErrNoLesson)
	}
	if got, want := loggedActions(t, b), "retire one, retire two, restore one"; got != want {
		t.Errorf("logged actions = %s, want %s", got, want)
	}
}

func TestCallsReturnDirectoryErrors(t *testing.T) {
	b, dir := newDirectoryBank(t, "one")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, []byte("a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, listErr := b.List(t.Context())
	_, putErr := b.Put(t.Context(), "two.md", lessonText(t, "two"), "me")
	_, copyErr := b.CopyIn(t.Context(), map[string][]byte{"two.md": lessonText(t, "two")}, "me")
	for call, err := range map[string]error{
		"list": listErr, "put": putErr, "copy": copyErr, "reindex": b.Reindex(t.Context()), "retire": retire(t.Context(), b, "one"),
	} {
		if err == nil || errors.Is(err, bank.ErrNoLesson) {
			t.Errorf("%s: err = %v, want an error other than ErrNoLesson", call, err)
		}
	}
}

func TestReplaceIsAllOrNothing(t *testing.T) {
	b, _ := newDirectoryBank(t, "one")
	for what, texts := range map[string]map[string][]byte{
		"invalid text":  {"two.md": lessonText(t, "two"), "bad.md": []byte("no lesson")},
		"repeated slug": {"two.md": lessonText(t, "two"), "other.md": lessonText(t, "two")},
	} {
		changed, _, err := b.Replace(t.Context(), texts, "me")
		if _, ok := errors.AsType[*bank.Refused](err); !ok || len(changed) > 0 || listSlugs(t, b) != "one" {
			t.Errorf("%s: Replace: err = %v, changed = %v, lessons = %q, want a refusal and only the lesson \"one\"", what, err, changed, listSlugs(t, b))
		}
	}
	changed, _, err := b.Replace(t.Context(), map[string][]byte{"two.md": lessonText(t, "two")}, "me")
	if err != nil || len(changed) != 2 || listSlugs(t, b) != "two" {
		t.Errorf("Replace: err = %v, changed = %v, lessons = %q, want 2 changes and only the lesson \"two\"", err, changed, listSlugs(t, b))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := b.Replace(ctx, map[string][]byte{}, "me"); !errors.Is(err, context.Canceled) || listSlugs(t, b) != "two" {
		t.Errorf("Replace with a canceled context: err = %v, lessons = %q, want %v and the lesson \"two\"", err, listSlugs(t, b), context.Canceled)
	}
}

func TestConsultationAddIsCommutative(t *testing.T) {
	early, late := bank.Consultation{Count: 3, Last: noon()}, bank.Consultation{Count: 4, Last: noon().Add(time.Hour)}
	want := bank.Consultation{Count: 7, Last: late.Last}
	if one, other := early.Add(late), late.Add(early); one != want || other != want {
		t.Errorf("sums = %+v and %+v, want %+v in both orders", one, other, want)
	}
	if got := early.Add(bank.Consultation{}); got != early {
		t.Errorf("adding a zero Consultation = %+v, want %+v", got, early)
	}
}

func TestLessonFileNamesAreValidated(t *testing.T) {
	for name, want := range map[string]bool{
		"a.md": true, "deep/er/a.md": true, bank.Archive + "a.md": true, "ä b.md": true, "": false, ".md": false, "a.txt": false, "a": false,
		"../a.md": false, "a/../b.md": false, "/a.md": false, "a//b.md": false, ".a/b.md": false, "_a/b.md": false, "a/_b.md": false, "a\\b.md": false, "a\x00.md": false,
	} {
		if got := bank.IsName(name); got != want {
			t.Errorf("IsName(%q) = %v, want %v", name, got, want)
		}
	}
}
