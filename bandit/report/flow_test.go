package report_test

import (
	"slices"
	"testing"

	"precept/bandit/report"
	"precept/bandit/trial"
)

func flowReport(sessions map[trial.ExclusionReason]int64, in report.Input) report.Report {
	in.Now, in.Counters = noon, trial.NewCounters()
	for why, n := range sessions {
		a := trial.Assignment{Decided: true, Day: today()}
		if why != "" {
			a.Exclude(why)
		}
		ds := a.ClosingDeltas()
		for i := range ds {
			ds[i].Value *= n
		}
		in.Counters.Add(ds)
	}
	return report.Build(in)
}

func TestFlowSentenceNamesExclusionReasons(t *testing.T) {
	many := map[trial.ExclusionReason]int64{"": 1180, trial.ExcludedTwin: 4, trial.ExcludedLate: 20}
	for name, tc := range map[string]struct {
		sessions map[trial.ExclusionReason]int64
		in       report.Input
		want     string
		groups   []string
	}{
		"no session": {},
		"none excluded": {
			sessions: map[trial.ExclusionReason]int64{"": 12},
			want:     "Sessions: 12 closed, 12 in the experiment, 0 excluded",
			groups:   []string{"in the experiment: 0 treated, 0 control, 12 without a match; with a reward: 0"},
		},
		"two reasons": {
			sessions: many,
			want:     "Sessions: 1,204 closed, 1,180 in the experiment, 24 excluded (late look-up 20, identical histories 4)",
			groups:   []string{"in the experiment: 0 treated, 0 control, 1,180 without a match; with a reward: 0"},
		},
		"all excluded":    {sessions: map[trial.ExclusionReason]int64{trial.ExcludedKeys: 1_234_567, trial.ExcludedUnknown: 1}, want: "Sessions: 1,234,568 closed, 0 in the experiment, 1,234,568 excluded (unknown keys 1,234,567, unknown reason 1)"},
		"member sessions": {sessions: map[trial.ExclusionReason]int64{trial.ExcludedMember: 3}, groups: []string{"further sessions, each counted with the run or parent session: 3"}},
		"one-day window":  {sessions: many, in: report.Input{Window: 24 * 3600e9}, want: "Sessions from all time: 1,204 closed, 1,180 in the experiment, 24 excluded (late look-up 20, identical histories 4)"},
		"open included":   {sessions: many, in: report.Input{Provisional: true}, want: "Sessions: 1,204 closed or open, 1,180 in the experiment, 24 excluded (late look-up 20, identical histories 4)"},
	} {
		r := flowReport(tc.sessions, tc.in)
		if got := r.FlowSentence(); got != tc.want {
			t.Errorf("%s: FlowSentence = %q, want %q", name, got, tc.want)
		}
		if got := r.Flow.Groups(); tc.groups != nil && !slices.Equal(got, tc.groups) {
			t.Errorf("%s: Groups = %q, want %q", name, got, tc.groups)
		}
	}
}

func TestEachExclusionReasonHasPhraseAndCause(t *testing.T) {
	phrases, causes := map[string]bool{}, map[string]bool{}
	list := trial.ExclusionReasons()
	reasons := append(list[:], trial.ExcludedImport, trial.ExcludedMember)
	for _, why := range reasons {
		phrases[report.ExclusionPhrase(why)], causes[report.ExclusionCause(why)] = true, true
	}
	if len(phrases) != len(reasons) || len(causes) != len(reasons) {
		t.Errorf("phrases and causes for %d reasons: got %v and %v, want a different phrase and a different cause for each reason", len(reasons), phrases, causes)
	}
}
