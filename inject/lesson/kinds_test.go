package lesson_test

import (
	"slices"
	"strings"
	"testing"

	"precept/detect"
	"precept/inject/lesson"
)

// lessonForErrorKinds returns a lesson file with error kinds. An error kind, such as command-not-found, covers the
// wordings that different tools have for the same error.
func lessonForErrorKinds(slug, kinds string, replaced ...string) string {
	return lessonFile(slug, append(replaced, "keywords: [load more]", "error_kinds: ["+kinds+"]")...)
}

func failedToolQuery(tool, text string) *lesson.Query {
	j := detect.Classify(tool, "", text, 1)
	return &lesson.Query{
		Tools:  []string{"bash", "read_file"},
		Errors: []lesson.ErrorText{{CallID: "c1", Tool: tool, Text: detect.Signature(text), Kinds: detect.Kinds(text, j)}},
	}
}

func newBook(t *testing.T, files ...string) *lesson.Book {
	t.Helper()
	texts := map[string][]byte{}
	for i, f := range files {
		texts[string(rune('a'+i))+".md"] = []byte(f)
	}
	book, problems, _ := lesson.NewTexts("bank").Load(texts)
	if len(problems) > 0 {
		t.Fatalf("Load: problems = %+v, want none", problems)
	}
	return book
}

func TestErrorKindMatchesAllToolWordings(t *testing.T) {
	t.Parallel()
	book := newBook(t, lessonForErrorKinds("the-one", "command-not-found"))
	for _, text := range []string{
		"sh: 1: ps: not found", "bash: line 1: rg: command not found", "zsh: command not found: foo",
		"'foo' is not recognized as an internal or external command,\noperable program or batch file.",
	} {
		q := failedToolQuery("bash", text)
		if hits := book.Match(q); len(hits) != 1 || hits[0].CallID != "c1" {
			t.Errorf("%q: %d lessons match, want 1 for the call c1", text, len(hits))
		}
		e := book.Explain(q)
		if len(e) != 1 || !e[0].Matches || !slices.Contains(e[0].Causes, lesson.Cause{Kind: "error_kind", Text: "command-not-found", Where: "tool error"}) {
			t.Errorf("%q: explanation = %+v, want the error kind command-not-found", text, e)
		}
	}
	if hits := book.Match(&lesson.Query{Words: []string{"sh: 1: ps: not found"}}); len(hits) > 0 {
		t.Error("error kind matches user text, want matches only in tool errors")
	}
	if hits := book.Match(failedToolQuery("bash", "cat: x: No such file or directory")); len(hits) > 0 {
		t.Errorf("Match(error with another kind) = %v, want none", hits)
	}
}

func TestToolsRestrictErrorKind(t *testing.T) {
	t.Parallel()
	book := newBook(t, lessonFile("the-one", "keywords: [load more]", "error_kinds: [path-missing]\n      tools: [bash]"))
	if hits := book.Match(failedToolQuery("bash", "cat: x: No such file or directory")); len(hits) != 1 {
		t.Errorf("Match(error in the lesson's tool) = %v, want one match", hits)
	}
	q := failedToolQuery("read_file", "ENOENT: no such file or directory, open '/x'")
	if hits := book.Match(q); len(hits) != 0 {
		t.Errorf("Match(error in another tool) = %v, want none", hits)
	}
	if e := book.Explain(q); len(e) != 1 || !strings.Contains(strings.Join(e[0].Obstacles, " "), "this error is from read_file") {
		t.Errorf("explanation = %+v, want \"this error is from read_file\"", e)
	}
}

func TestErrorKindsAreParsedAndEdited(t *testing.T) {
	t.Parallel()
	file := lessonForErrorKinds("the-one", "command-not-found, disk-full")
	l, err := lesson.Parse("the-one.md", []byte(file))
	if err != nil || !slices.Equal(l.Trigger.ErrorKinds, []string{"command-not-found", "disk-full"}) {
		t.Fatalf("Parse = %+v, %v, want the kinds command-not-found and disk-full", l, err)
	}
	if same, err := lesson.Format(l); err != nil || string(same) != file {
		t.Errorf("Format(unedited lesson): err = %v, got\n%s\nwant the unchanged file", err, same)
	}
	edited, err := lesson.Edit(l, func(l *lesson.Lesson) { l.Trigger.ErrorKinds = []string{"timeout"} })
	if err != nil || !slices.Equal(edited.Trigger.ErrorKinds, []string{"timeout"}) {
		t.Fatalf("Edit = %+v, %v, want the kind timeout", edited, err)
	}
	if edited.ContentHash == l.ContentHash {
		t.Errorf("content hash after the error kinds changed = %s, want a different hash", edited.ContentHash)
	}
}

func TestUnknownErrorKindFindingNamesNearestKind(t *testing.T) {
	t.Parallel()
	found := lesson.Checker{}.CheckBook(newBook(t, lessonForErrorKinds("the-one", "timeout, comand-not-found")))
	if len(found) != 2 || found[0].Code != "unknown_kind" && found[1].Code != "unknown_kind" {
		t.Fatalf("findings = %v, want 2, one of them with the code unknown_kind", found)
	}
	for _, f := range found {
		if f.Code == "unknown_kind" && (f.Field != "trigger.metadata.precept.error_kinds[1]" || !strings.Contains(f.Message, "the most similar kind is command-not-found")) {
			t.Errorf("finding = %v, want error_kinds[1] as the field, and command-not-found as the most similar kind", f)
		}
	}
}

func TestLessonsWithSameErrorKindContradict(t *testing.T) {
	t.Parallel()
	book := newBook(t, lessonForErrorKinds("the-one", "timeout"), lessonForErrorKinds("the-two", "timeout", "outcome: success", "outcome: failure"))
	one, _ := book.Get("the-one")
	if against := book.Contradicting(one); len(against) != 1 || against[0].Slug != "the-two" {
		t.Errorf("Contradicting(the-one) = %v, want the-two", against)
	}
}

// A caution says what to avoid, so an agent would take an instruction in a caution for something to avoid.
func TestInstructionInCautionAdviceIsReported(t *testing.T) {
	t.Parallel()
	for advice, hasInstruction := range map[string]bool{
		"Look at the head of the file. Edit the input.": true, "- Fetch, then compare.": true, "Use the base branch.": true,
		"Do not force the push.": false, "The second attempt failed in the same way.": false, "Forcing a push removed commits.": false, "Never use the flag.": false,
	} {
		for outcome, isCaution := range map[string]bool{"failure": true, "success": false} {
			l, err := lesson.Parse("the-one.md", []byte(lessonFile("the-one", "outcome: success", "outcome: "+outcome, "title: Check the page before clicking", "title: Avoid forcing a push")))
			if err != nil {
				t.Fatal(err)
			}
			l.Advice = advice
			found := slices.ContainsFunc(lesson.Checker{}.CheckBook(lesson.NewBook([]*lesson.Lesson{l})), func(f lesson.Finding) bool { return f.Code == "caution_advice" })
			if found != (hasInstruction && isCaution) {
				t.Errorf("outcome %s, advice %q: caution_advice reported = %t, want %t", outcome, advice, found, hasInstruction && isCaution)
			}
		}
	}
}

func TestInstructionInCautionTitleIsReported(t *testing.T) {
	t.Parallel()
	for title, want := range map[string]bool{
		"Avoid forcing a rejected push": false, "Retrying a 403": false, "Never retry a 403": false,
		"Integrate the remote branch; do not force it": true, "Change the source, not the file": true,
	} {
		file := lessonFile("the-one", "outcome: success", "outcome: failure", "title: Check the page before clicking", "title: "+title)
		found := slices.ContainsFunc(lesson.Checker{}.CheckBook(newBook(t, file)), func(f lesson.Finding) bool { return f.Code == "caution_title" })
		if found != want {
			t.Errorf("title %q: caution_title reported = %t, want %t", title, found, want)
		}
	}
}
