package bank_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"precept/inject/bank"
	"precept/inject/lesson"
)

// newBankWithScan returns a bank, the bank's directory, and a function that calls RecordEdits once and returns the
// events that this call logged.
func newBankWithScan(t *testing.T) (b *bank.Bank, dir string, scan func() []lesson.Event) {
	t.Helper()
	now := time.Now()
	dir = filepath.Join(t.TempDir(), "lessons")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	b = bank.New(bank.Options{Storage: bank.Directory(dir), Now: func() time.Time { return now }})
	var before *lesson.Book
	return b, dir, func() []lesson.Event {
		t.Helper()
		old, err := b.Log(t.Context(), 1000)
		if err != nil {
			t.Fatal(err)
		}
		origin := func(ctx context.Context, path string, text []byte) bank.Origin {
			return bank.FileOrigin(ctx, path, text, now)
		}
		if before, _, err = b.RecordEdits(t.Context(), before, origin); err != nil {
			t.Fatal(err)
		}
		all, err := b.Log(t.Context(), 1000)
		if err != nil {
			t.Fatal(err)
		}
		return all[len(old):]
	}
}

// Outside a git repository, only the file's modification time shows when an edit was made.
func TestManualEditUsesFileModTime(t *testing.T) {
	_, dir, scan := newBankWithScan(t)
	path, at := filepath.Join(dir, "one.md"), time.Date(2030, 5, 6, 7, 8, 9, 0, time.UTC)
	write := func(title string) {
		t.Helper()
		text := strings.Replace(string(lessonText(t, "one")), "title: ", "title: "+title+" ", 1)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	for _, action := range []string{"create", "edit", "remove"} {
		if action == "remove" {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		} else {
			write(action)
		}
		events := scan()
		if len(events) != 1 || events[0].Action != action || events[0].Slug != "one" || events[0].By != "" || action != "remove" && !events[0].Time.Equal(at) {
			t.Fatalf("new events = %+v, want one %s event for lesson \"one\" at %v without an author", events, action, at)
		}
		if second := scan(); len(second) != 0 {
			t.Fatalf("second scan logged %+v, want no event", second)
		}
	}
}

func TestBankActionsAreNotManualEdits(t *testing.T) {
	b, _, scan := newBankWithScan(t)
	if _, err := b.Put(t.Context(), "one.md", lessonText(t, "one"), "ann"); err != nil {
		t.Fatal(err)
	}
	for _, a := range []lesson.Action{lesson.Pause, lesson.Resume, lesson.StartTrial, lesson.Approve, lesson.Retire, lesson.Restore} {
		if _, err := b.Act(t.Context(), "one", bank.Decision{Action: a, By: "ann", Sessions: &[2]int64{120, 30}}); err != nil {
			t.Fatalf("%s: error = %v, want nil", a, err)
		}
		if events := scan(); len(events) != 0 {
			t.Fatalf("scan after %s logged %+v, want no event", a, events)
		}
	}
}

// Before an edit is committed, RecordEdits logs it without an author. After the commit, RecordEdits logs the commit's
// author.
func TestManualEditUsesCommitAuthor(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	_, dir, scan := newBankWithScan(t)
	git := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=Ada Lovelace", "GIT_AUTHOR_EMAIL=ada@example.org", "GIT_AUTHOR_DATE=2030-05-06T07:08:09Z",
			"GIT_COMMITTER_NAME=Bob", "GIT_COMMITTER_EMAIL=bob@example.org", "GIT_CONFIG_GLOBAL=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	git("init", "-q")
	if err := os.WriteFile(filepath.Join(dir, "one.md"), lessonText(t, "one"), 0o600); err != nil {
		t.Fatal(err)
	}
	events := scan()
	if len(events) != 1 || events[0].By != "" {
		t.Fatalf("before the first commit: events = %+v, want one event without an author", events)
	}
	git("add", "one.md")
	git("commit", "-q", "-m", "lessons: add one")
	if events = scan(); len(events) != 1 || events[0].Action != "commit" || events[0].By != "Ada Lovelace" {
		t.Fatalf("after the first commit: events = %+v, want one event by Ada Lovelace", events)
	}
	text := strings.Replace(string(lessonText(t, "one")), "title: ", "title: New ", 1)
	if err := os.WriteFile(filepath.Join(dir, "one.md"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if events = scan(); len(events) != 1 || events[0].By != "" || events[0].Detail[lesson.DetailHandEdit] != lesson.HandEditUncommitted {
		t.Fatalf("before the second commit: events = %+v, want one uncommitted edit without an author", events)
	}
	git("commit", "-q", "-a", "-m", "lessons: rename one")
	at := time.Date(2030, 5, 6, 7, 8, 9, 0, time.UTC)
	if events = scan(); len(events) != 1 || events[0].Action != "commit" || events[0].By != "Ada Lovelace" || !events[0].Time.Equal(at) {
		t.Fatalf("after the second commit: events = %+v, want one commit by Ada Lovelace at %v", events, at)
	}
	if events = scan(); len(events) != 0 {
		t.Fatalf("scan without a change: events = %+v, want none", events)
	}
}

// Several replicas report the same change, but the bank logs it only once.
func TestCautionChangesAreLoggedOnce(t *testing.T) {
	b, _, _ := newBankWithScan(t)
	if _, err := b.Put(t.Context(), "one.md", lessonText(t, "one"), "ann"); err != nil {
		t.Fatal(err)
	}
	book, _, err := b.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l, _ := book.Get("one")
	for _, caution := range []bool{true, true, false, false, true} {
		if err := b.RecordCautionChanges(t.Context(), []bank.CautionChange{{Slug: "one", Hash: l.ContentHash, Caution: caution, SessionsWith: 40, SessionsWithout: 10}}); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	events, err := b.Log(t.Context(), 100)
	for _, e := range events[1:] {
		got = append(got, e.Action)
	}
	if err != nil || strings.Join(got, " ") != "caution advice caution" {
		t.Errorf("actions logged by five calls = %q, err = %v, want the actions caution, advice and caution", got, err)
	}
}
