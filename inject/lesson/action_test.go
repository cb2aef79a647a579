package lesson

import (
	"strings"
	"testing"
	"time"
)

const lookTwiceFile = `---
schema: learning/v1
slug: look-twice
title: Look twice
trigger:
  description: when in doubt
  metadata: {precept: {keywords: [doubt]}}
outcome: success # a comment that stays
evidence: [{kind: run, ref: one}]
---

## What to do

Look twice.
`

func TestApplyActionSetsStateAndPlan(t *testing.T) {
	at := time.Date(2031, 1, 2, 3, 4, 5, 0, time.UTC)
	l, err := Parse("look-twice.md", []byte(lookTwiceFile))
	if err != nil {
		t.Fatal(err)
	}
	hash, plan := l.ContentHash, TrialPlan{Epsilon: 0.4, Until: 0.03}
	for _, tc := range []struct {
		action    Action
		wantPlan  TrialPlan
		wantState State
	}{
		{Pause, TrialPlan{}, Paused},
		{Resume, TrialPlan{}, Active}, // a hand-written file needs no approval
		{StartTrial, plan, Trial},
		{Pause, plan, Paused},
		{Pause, plan, Paused},
		{Resume, plan, Trial},
		{Retire, plan, Archived},
		{Restore, plan, Trial},
		{Approve, TrialPlan{}, Active},
		{Retire, TrialPlan{}, Archived},
		{Restore, TrialPlan{}, Active},
		{Reject, TrialPlan{}, Rejected},
		{Retire, TrialPlan{}, Archived},
		{Restore, TrialPlan{}, Rejected},
	} {
		given := TrialPlan{}
		if tc.action == StartTrial {
			given = plan
		}
		if l, err = ApplyAction(l, tc.action, given, "kim", at); err != nil {
			t.Fatalf("%s: error = %v, want nil", tc.action, err)
		}
		if l.State != tc.wantState || l.Plan != tc.wantPlan || l.ContentHash != hash {
			t.Errorf("%s: got state %s, plan %+v and hash %s, want state %s, plan %+v and hash %s",
				tc.action, l.State, l.Plan, l.ContentHash, tc.wantState, tc.wantPlan, hash)
		}
		if tc.action == StartTrial && (l.Approval.By != "kim" || l.Approval.ContentHash != hash || !l.Approval.At.Equal(at)) {
			t.Errorf("%s: approval = %+v, want one by kim with hash %s and time %s", tc.action, l.Approval, hash, at)
		}
		if !strings.Contains(l.Raw, "# a comment that stays") {
			t.Errorf("%s removed a comment from the file:\n%s", tc.action, l.Raw)
		}
	}
	if strings.Contains(l.Raw, "trial_") || strings.Contains(l.Raw, "former_state") {
		t.Errorf("file has trial_ keys or former_state after the last Restore:\n%s", l.Raw)
	}
}

// Earlier releases did not write the key former_state, and wrote some paused lessons as quarantined with a content
// hash.
func TestActionsAcceptFilesFromEarlierVersions(t *testing.T) {
	l, err := Parse("look-twice.md", []byte(lookTwiceFile))
	if err != nil {
		t.Fatal(err)
	}
	hash := l.ContentHash
	for _, tc := range []struct {
		metadata              string
		action                Action
		wantParsed, wantAfter State
	}{
		{"state: quarantined, source: distill, content_hash: " + hash, Resume, Paused, Quarantined},
		{"state: paused, source: distill, content_hash: " + hash, Resume, Paused, Quarantined},
		{"state: paused", Resume, Paused, Quarantined},
		{"state: paused, trial_epsilon: 0.4, content_hash: " + hash, Resume, Paused, Trial},
		{"state: archived, source: distill, content_hash: " + hash, Restore, Archived, Paused},
		{"state: archived", Restore, Archived, Paused},
		{"state: archived, trial_epsilon: 0.4, content_hash: " + hash, Restore, Archived, Paused},
		{"state: archived, source: distill", Restore, Archived, Paused},                                               // the lesson was never approved
		{"state: paused, former_state: active, source: distill, content_hash: \"0011\"", Resume, Paused, Quarantined}, // the text was edited after the approval
	} {
		text := strings.Replace(lookTwiceFile, "evidence:", "metadata: {precept: {"+tc.metadata+"}}\nevidence:", 1)
		book, problems, _ := NewTexts("bank").Load(map[string][]byte{"look-twice.md": []byte(text)})
		l, ok := book.Get("look-twice")
		if !ok || l.State != tc.wantParsed {
			t.Errorf("%s: lesson = %+v, problems = %v, want state %s", tc.metadata, l, problems, tc.wantParsed)
			continue
		}
		if l, err = ApplyAction(l, tc.action, TrialPlan{}, "kim", time.Unix(0, 0)); err != nil || l.State != tc.wantAfter {
			t.Errorf("%s: lesson after %s = %+v, %v, want state %s", tc.metadata, tc.action, l, err, tc.wantAfter)
		}
	}
}

func TestRestoreAndResumeUndoRetireAndPause(t *testing.T) {
	for _, first := range []State{Trial, Active, Caution, Benched, Quarantined, Candidate, Rejected} {
		l, err := Parse("look-twice.md", []byte(strings.Replace(lookTwiceFile, "evidence:", "metadata: {precept: {state: "+string(first)+"}}\nevidence:", 1)))
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			action Action
			want   State
		}{{Pause, Paused}, {Retire, Archived}, {Retire, Archived}, {Restore, Paused}, {Resume, first}} {
			if l, err = ApplyAction(l, step.action, TrialPlan{}, "kim", time.Unix(0, 0)); err != nil || l.State != step.want {
				t.Fatalf("lesson in state %s: after %s = %+v, %v, want state %s", first, step.action, l, err, step.want)
			}
			if l, err = Parse("look-twice.md", []byte(l.Raw)); err != nil || l.State != step.want {
				t.Fatalf("lesson in state %s: Parse(file after %s) = %+v, %v, want state %s", first, step.action, l, err, step.want)
			}
		}
		if l.FormerState+l.StateBeforePause != "" {
			t.Errorf("lesson in state %s: after all actions, FormerState = %q, StateBeforePause = %q, want both empty", first, l.FormerState, l.StateBeforePause)
		}
	}
}

func TestChangedTextNeedsNewApproval(t *testing.T) {
	l, err := Parse("look-twice.md", []byte(strings.Replace(lookTwiceFile, "evidence:", "metadata: {precept: {state: active, content_hash: \"0011\"}}\nevidence:", 1)))
	if err != nil || l.State != Quarantined {
		t.Fatalf("Parse(lesson approved with hash 0011) = %+v, %v, want state %s", l, err, Quarantined)
	}
	if l, err = ApplyAction(l, Approve, TrialPlan{}, "kim", time.Unix(0, 0)); err != nil || l.State != Active {
		t.Errorf("Approve = %+v, %v, want state %s", l, err, Active)
	}
}

func TestApplyActionRefusesImpossibleActions(t *testing.T) {
	l, err := Parse("look-twice.md", []byte(strings.Replace(lookTwiceFile, "evidence:", "expires_at: 2030-01-01T00:00:00Z\nevidence:", 1)))
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2031, 1, 2, 3, 4, 5, 0, time.UTC)
	if _, err := ApplyAction(l, Approve, TrialPlan{}, "kim", at); err == nil {
		t.Error("Approve(expired lesson): got no error, want an error")
	}
	if _, err := ApplyAction(l, Retire, TrialPlan{}, "kim", at); err != nil {
		t.Errorf("Retire(expired lesson): err = %v, want nil", err)
	}
	for _, a := range []Action{Resume, Restore} {
		if _, err := ApplyAction(l, a, TrialPlan{}, "kim", at); err == nil || !strings.Contains(err.Error(), "look-twice is active, and only") {
			t.Errorf("%s(active lesson): err = %v, want \"look-twice is active, and only\"", a, err)
		}
	}
	if _, err := ApplyAction(l, StartTrial, TrialPlan{Epsilon: 1}, "kim", at); err == nil {
		t.Error("StartTrial with epsilon 1: got no error, want an error")
	}
	for _, bad := range []string{"trial_epsilon: 1.5", "trial_epsilon: yes", "trial_until_halfwidth: 0"} {
		if _, err := Parse("x.md", []byte(strings.Replace(lookTwiceFile, "evidence:", "metadata: {precept: {"+bad+"}}\nevidence:", 1))); err == nil {
			t.Errorf("Parse with %s: got no error, want an error", bad)
		}
	}
}

// With a very small epsilon (the share of withheld picks), a trial would need more picks than allowed.
func TestValidateRefusesTooSmallEpsilon(t *testing.T) {
	err := TrialPlan{Epsilon: 0.0001, Picks: 5000}.Validate()
	if err == nil || !strings.Contains(err.Error(), "choose an epsilon closer to 0.5") || strings.Contains(err.Error(), "cannot have") {
		t.Errorf("plan with the epsilon 0.0001: got error %v, want an error that asks for a larger epsilon", err)
	}
}
