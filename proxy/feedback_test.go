package proxy

import (
	"strings"
	"testing"
	"time"

	"precept/bandit/feedback"
	"precept/configs"
	"precept/store"
)

func TestParkedMessageNamesSubjectPeriodAndCheck(t *testing.T) {
	for _, tc := range []struct {
		post      feedback.Post
		delayed   bool
		tenancy   string
		retention time.Duration
		want      string
	}{
		{feedback.Post{SessionID: "ci-42"}, false, "single", 0, `precept knows no session "ci-42" yet, keeps the feedback for up to 7 days, and adds the feedback when the session appears; check the name against the Precept-Session response header`},
		{feedback.Post{RunID: "r"}, false, "single", 24 * time.Hour, `no run "r" yet, keeps the feedback for up to 1 day,`},
		{feedback.Post{RequestID: "req_1"}, false, "keys", 0, "Precept-Request-Id response header, and send the agent's API key"},
		{feedback.Post{ResponseID: "chatcmpl-1"}, false, "single", 90 * time.Minute, `no response "chatcmpl-1" yet, keeps the feedback for up to 1h30m0s,`},
		{feedback.Post{SessionID: "ci-42"}, true, "single", 0, "the store does not answer; precept keeps the feedback for up to 7 days"},
	} {
		cfg := configs.Default()
		cfg.Tenancy, cfg.Learning.Retention = tc.tenancy, tc.retention
		if got := parkedMessage(&tc.post, &store.Posted{Status: store.Parked, Delayed: tc.delayed}, cfg); !strings.Contains(got, tc.want) {
			t.Errorf("parkedMessage(%+v): got %q, want it to contain %q", tc.post, got, tc.want)
		}
	}
}
