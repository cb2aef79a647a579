package distill_test

import (
	"fmt"
	"testing"

	"precept/distill"
)

// editCall returns a call that edits a file and fails with the message, or succeeds if the message is empty.
func editCall(file, message string) event {
	if message == "" {
		message = "The file was updated."
	}
	return call("edit_file", fmt.Sprintf(`{"path":"/srv/%s","old_string":"alpha","new_string":"beta"}`, file), message)
}

// storeSessions stores n sessions with the same events, each after a different user message.
func storeSessions(f *fixture, name string, n int, events ...event) {
	for i := range n {
		f.addSession(fmt.Sprint(name, i), append([]event{user(fmt.Sprint(name, " number ", i, "."))}, events...)...)
	}
}

// The distiller compares sessions that followed the advice of a lesson with sessions that did not. It does not propose
// a lesson without a benefit, unless there are too few sessions of the second kind to compare with.
func TestAdviceWithoutBenefitIsNotProposed(t *testing.T) {
	const refusal = "Error: old_string not found in rows.go"
	read := call("read_file", `{"path":"/srv/rows.go"}`, "gamma")
	for name, tc := range map[string]struct {
		followed, followedFailed, other, otherFailed int
		proposed                                     bool
	}{
		"advice ends the failure":                  {followed: 4, otherFailed: 4, proposed: true},
		"failure ends as often without the advice": {followed: 4, other: 8},
		"failure persists despite the advice":      {followedFailed: 4, other: 4},
		"too few sessions without the advice":      {followed: 2, other: 1, proposed: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			storeSessions(f, "a", tc.followed, editCall("rows.go", refusal), read, editCall("rows.go", ""))
			storeSessions(f, "b", tc.followedFailed, editCall("rows.go", refusal), read, editCall("rows.go", refusal))
			storeSessions(f, "c", tc.other, editCall("rows.go", refusal), editCall("rows.go", ""))
			storeSessions(f, "d", tc.otherFailed, editCall("rows.go", refusal), editCall("rows.go", refusal))
			sum := f.runDistiller()
			if got := fmt.Sprint(f.slugs()) == "[copy-the-text-to-replace-exactly-from-the-file]"; got != tc.proposed {
				t.Fatalf("lessons = %v, NotProposed = %+v, want the lesson proposed: %v", f.slugs(), sum.NotProposed, tc.proposed)
			}
			want := distill.Comparison{
				Followed:    distill.Outcomes{Ended: tc.followed, Sessions: tc.followed + tc.followedFailed},
				NotFollowed: distill.Outcomes{Ended: tc.other, Sessions: tc.other + tc.otherFailed},
			}
			if tc.proposed {
				checkEqual(t, "comparison", *sum.Drafts[0].Comparison, want)
			} else {
				checkEqual(t, "comparison", sum.NotProposed[0].Comparison, want)
			}
		})
	}
}

// The edit tools of different coding agents report the same kind of error in different words. The kind determines the
// lesson.
func TestEditErrorKindSelectsLesson(t *testing.T) {
	for refusal, slug := range map[string]string{
		"Error: String to replace not found in file.":                                    "copy-the-text-to-replace-exactly-from-the-file",
		"oldString not found in content":                                                 "copy-the-text-to-replace-exactly-from-the-file",
		"Failed to edit, 0 occurrences found for old_string in /srv/rows.go.":            "copy-the-text-to-replace-exactly-from-the-file",
		"Error: The SEARCH block does not match anything in the file.":                   "copy-the-text-to-replace-exactly-from-the-file",
		"Error: Found 3 matches of the string to replace, but replace_all is false.":     "make-the-text-to-replace-unique",
		"Error: oldText must be unique in the file":                                      "make-the-text-to-replace-unique",
		"Error: File has been modified since read, either by the user or by a linter.":   "reread-a-file-that-changed-since-it-was-read",
		"Error: You must read the file before editing it.":                               "read-a-file-before-editing-it",
		"apply_patch verification failed: Failed to find expected lines in /srv/rows.go": "make-a-patch-against-the-present-file",
		"Error: the error text 'alpha' is a plain value and nothing more":                "",
	} {
		f := newFixture(t)
		wider := call("edit_file", `{"path":"/srv/rows.go","old_string":"line\nalpha\nline","new_string":"beta"}`, "The file was updated.")
		f.addSession("one", user("Change it."), editCall("rows.go", refusal), call("read_file", `{"path":"/srv/rows.go"}`, "gamma\n"+refusal), wider)
		f.runDistiller()
		want := "[]"
		if slug != "" {
			want = "[" + slug + "]"
		}
		if got := fmt.Sprint(f.slugs()); got != want {
			t.Errorf("error %q: lessons = %s, want %s", refusal, got, want)
		}
	}
}

// In these cases, the session does not show why a call succeeded, or no call succeeded at all.
func TestCoincidencesGiveNoLesson(t *testing.T) {
	checkLessons(t, []lessonCase{
		{"code that was edited between two runs", "", []event{
			failedCall("python", `{"file":"W77812.py"}`, "the value cannot be converted to a number"), acceptedCall("edit", `{"file":"W77812.py"}`), acceptedCall("python", `{"file":"W77812.py"}`),
		}},
		{"an unrelated tool with the same value", "", []event{
			failedCall("track_parcel", `{"number":"W77812"}`, "the parcel was not found by its number"), acceptedCall("latest_weather", `{"number":"W77812"}`),
		}},
		{"programs in two sentences", "", []event{
			bashCall("git status", "ok", 0), user("No, do not commit with git yet.\nFormat it with npx first."), bashCall("npx prettier .", "ok", 0),
		}},
		{"an opinion about a different program", "", []event{
			bashCall("git log", "ok", 0), user("That is not right. Look at git, then use npx instead."), bashCall("npx tsc", "ok", 0),
		}},
		{"a tool that fails every time", "", []event{
			failedCall("search_web", `{"q":"W77812"}`, "the resource does not exist here"), failedCall("search_web", `{"q":"W77812"}`, "the resource does not exist here"), failedCall("search_web", `{"q":"W77812"}`, "the resource does not exist here"),
		}},
	})
}
