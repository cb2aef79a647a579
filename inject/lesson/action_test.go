package lesson

import (
	"strings"
	"testing"
	"time"
)

const acted = `---
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

func TestActSetsTheState(t *testing.T) {
	at := time.Date(2031, 1, 2, 3, 4, 5, 0, time.UTC)
	l, err := Parse("look-twice.md", []byte(acted))
	if err != nil {
		t.Fatal(err)
	}
	hash := l.ContentHash
	for _, c := range []struct {
		action Action
		plan   TrialPlan
		state  State
	}{
		{StartTrial, TrialPlan{Epsilon: 0.4, Until: 0.03}, Trial},
		{Pause, TrialPlan{}, Quarantined},
		{Approve, TrialPlan{}, Active},
		{StartTrial, TrialPlan{}, Trial},
		{Retire, TrialPlan{}, Archived},
		{Reject, TrialPlan{}, Rejected},
	} {
		if l, err = Act(l, c.action, c.plan, "kim", at); err != nil {
			t.Fatalf("%s: got %v, want no error", c.action, err)
		}
		if l.State != c.state || l.Plan != c.plan || l.ContentHash != hash {
			t.Errorf("%s: state %s, plan %+v, hash %s; the numbers of %s are those of another text", c.action, l.State, l.Plan, l.ContentHash, hash)
		}
		if l.State.Fires() && (l.Approval.By != "kim" || l.Approval.ContentHash != hash || !l.Approval.At.Equal(at)) {
			t.Errorf("%s: approval %+v", c.action, l.Approval)
		}
		if !strings.Contains(l.Raw, "# a comment that stays") {
			t.Errorf("%s rewrote the file:\n%s", c.action, l.Raw)
		}
	}
	if strings.Contains(l.Raw, "trial_") {
		t.Errorf("the plan of a trial that is over stays:\n%s", l.Raw)
	}
}

// An approval covers the current text: an edited lesson is active again after its approval.
func TestApprovalCoversTheCurrentText(t *testing.T) {
	l, err := Parse("look-twice.md", []byte(strings.Replace(acted, "evidence:", "metadata: {precept: {state: active, content_hash: \"0011\"}}\nevidence:", 1)))
	if err != nil || l.State != Quarantined {
		t.Fatalf("got l %v, error %v, want no error and l.State = %q", l, err, Quarantined)
	}
	if l, err = Act(l, Approve, TrialPlan{}, "kim", time.Unix(0, 0)); err != nil || l.State != Active {
		t.Errorf("got l %v, error %v, want no error and l.State = %q", l, err, Active)
	}
}

func TestActRefuses(t *testing.T) {
	l, err := Parse("look-twice.md", []byte(strings.Replace(acted, "evidence:", "expires_at: 2030-01-01T00:00:00Z\nevidence:", 1)))
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2031, 1, 2, 3, 4, 5, 0, time.UTC)
	if _, err := Act(l, Approve, TrialPlan{}, "kim", at); err == nil {
		t.Error("an expired lesson was approved")
	}
	if _, err := Act(l, Retire, TrialPlan{}, "kim", at); err != nil {
		t.Errorf("an expired lesson can be retired: %v", err)
	}
	if _, err := Act(l, StartTrial, TrialPlan{Epsilon: 1}, "kim", at); err == nil {
		t.Error("a trial that never injects")
	}
	for _, bad := range []string{"trial_epsilon: 1.5", "trial_epsilon: yes", "trial_until_halfwidth: 0"} {
		if _, err := Parse("x.md", []byte(strings.Replace(acted, "evidence:", "metadata: {precept: {"+bad+"}}\nevidence:", 1))); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
}
