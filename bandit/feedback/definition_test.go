package feedback_test

import (
	"testing"
	"time"

	"precept/bandit/feedback"
)

func TestDefinitionStringRoundTrip(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		d    feedback.Definition
		want string
	}{
		{feedback.Definition{CloseAfter: 24 * time.Hour}, "user>verifier>implicit@24h0m0s"},
		{feedback.Definition{Tiers: []int{3, 1, 2, 1}, CloseAfter: 24 * time.Hour}, "user>verifier>implicit@24h0m0s"},
		{feedback.Definition{Tiers: []int{2, 1}, CloseAfter: time.Second}, "user>verifier@1s"},
		{feedback.Definition{Tiers: []int{3}, Sentiment: true, CloseAfter: 90 * time.Minute}, "implicit+sentiment@1h30m0s"},
	} {
		if got := tc.d.String(); got != tc.want {
			t.Errorf("(%+v).String() = %q, want %q", tc.d, got, tc.want)
		}
		if parsed, err := feedback.ParseDefinition(tc.want); err != nil || parsed.String() != tc.want {
			t.Errorf("ParseDefinition(%q) = %q, %v, want the same text and no error", tc.want, parsed, err)
		}
	}
	for _, bad := range []string{"", "user", "user@", "@1s", "user>friend@1s", "user@soon", "user+sentiment+sentiment@1s"} {
		if d, err := feedback.ParseDefinition(bad); err == nil {
			t.Errorf("ParseDefinition(%q) = %v, want an error", bad, d)
		}
	}
}
