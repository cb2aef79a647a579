package lesson_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"precept/detect"
	"precept/inject/lesson"
)

const preventingFile = `---
schema: learning/v1
slug: free-the-port
title: Stop the old server first.
trigger:
  description: A server starts.
  metadata: {precept: {keywords: ["start the server"]}}
outcome: success
evidence: [{kind: run, ref: run-1}]
confidence: 0.5
metadata: {precept: {prevents: [port-in-use, "address already taken"]}}
---
## What to do (or avoid)
Stop the old server first.
`

// parsePreventing returns the lesson in preventingFile, and the same lesson without the prevents key.
func parsePreventing(t *testing.T) (l, plain *lesson.Lesson) {
	t.Helper()
	withoutKey := strings.Replace(preventingFile, `metadata: {precept: {prevents: [port-in-use, "address already taken"]}}`+"\n", "", 1)
	l, err := lesson.Parse("free-the-port.md", []byte(preventingFile))
	plain, plainErr := lesson.Parse("free-the-port.md", []byte(withoutKey))
	if err := errors.Join(err, plainErr); err != nil {
		t.Fatal(err)
	}
	return l, plain
}

// The prevents key lists the errors that a lesson prevents. The content hash does not cover this key, so adding the key
// does not invalidate an approval.
func TestShouldPreventMatchesKindsAndPhrases(t *testing.T) {
	l, plain := parsePreventing(t)
	if !l.IsAboutError() || plain.IsAboutError() || plain.ContentHash != l.ContentHash {
		t.Errorf("IsAboutError = %t with prevents and %t without, hashes %s and %s; want true with the key, false without it, and equal hashes", l.IsAboutError(), plain.IsAboutError(), l.ContentHash, plain.ContentHash)
	}
	for name, tc := range map[string]struct {
		text lesson.ErrorText
		want bool
	}{
		"kind":          {lesson.ErrorText{Text: "bind failed", Kinds: []detect.Kind{"port-in-use"}}, true},
		"phrase":        {lesson.ErrorText{Text: "Error: Address already taken"}, true},
		"another error": {lesson.ErrorText{Text: "Error: no such file", Kinds: []detect.Kind{"path-missing"}}, false},
	} {
		if got := l.ShouldPrevent([]lesson.ErrorText{tc.text}); got != tc.want {
			t.Errorf("%s: ShouldPrevent = %t, want %t", name, got, tc.want)
		}
	}
}

func TestStartTrialChecksPlannedOutcome(t *testing.T) {
	l, plain := parsePreventing(t)
	plan := lesson.TrialPlan{Epsilon: 0.5, Picks: 120, Outcome: "recurrence"}
	start := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	inTrial, err := lesson.ApplyAction(l, lesson.StartTrial, plan, "ann", start)
	if err != nil || inTrial.Plan.Outcome != "recurrence" || len(inTrial.Prevents) != 2 {
		t.Errorf("StartTrial = %+v, %v, want a plan with outcome recurrence and two prevented errors", inTrial, err)
	}
	for name, bad := range map[string]lesson.TrialPlan{
		"an unknown outcome": {Epsilon: 0.5, Picks: 120, Outcome: "mood"}, "no pick count": {Epsilon: 0.5, Outcome: "errors"},
	} {
		if _, err := lesson.ApplyAction(l, lesson.StartTrial, bad, "ann", start); err == nil {
			t.Errorf("StartTrial, plan with %s: got no error, want an error", name)
		}
	}
	if _, err := lesson.ApplyAction(plain, lesson.StartTrial, plan, "ann", start); err == nil || !strings.Contains(err.Error(), "prevents") {
		t.Errorf("StartTrial with outcome recurrence for a lesson that is not about an error: err = %v, want an error that mentions the key \"prevents\"", err)
	}
}
