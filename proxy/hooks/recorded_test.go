package hooks_test

import (
	"net/http"
	"testing"

	"precept/proxy/hooks"
)

// The files in testdata/recorded are complete deliveries from GitHub and GitLab.
func TestParseReadsRecordedDeliveries(t *testing.T) {
	for _, tc := range []struct {
		service     hooks.Service
		event, file string
		want        string // events (see describe), or the reason why Parse ignores the delivery
	}{
		{
			hooks.GitHub, "pull_request", "github_pull_request",
			"closed 0; pull_request 2@codertocat/hello-world commit ec26c3e57ca3a959ca5aad62de7213c562f8c821@codertocat/hello-world branch changes@codertocat/hello-world",
		},
		{
			hooks.GitHub, "check_run", "github_check_run",
			"check_failed 0.2; commit ec26c3e57ca3a959ca5aad62de7213c562f8c821@codertocat/hello-world; pull_request 2@codertocat/hello-world; branch changes@codertocat/hello-world",
		},
		{
			hooks.GitHub, "check_suite", "github_check_suite",
			"check_passed 0.7; commit ec26c3e57ca3a959ca5aad62de7213c562f8c821@codertocat/hello-world; pull_request 2@codertocat/hello-world; branch changes@codertocat/hello-world",
		},
		{
			hooks.GitHub, "workflow_run", "github_workflow_run",
			"check_passed 0.7; commit 3484a3fb816e0859fd6e1cea078d76385ff50625@octo-org/octo-repo",
		},
		{
			hooks.GitHub, "status", "github_status",
			"check_passed 0.7; commit 6113728f27ae82c7b1a177c8d03f9e96e0adf246@codertocat/hello-world",
		},
		{hooks.GitHub, "push", "github_push", "the push reverts nothing"},
		{hooks.GitLab, "Merge Request Hook", "gitlab_merge_request", "the merge request was neither merged nor closed"},
		{
			hooks.GitLab, "Pipeline Hook", "gitlab_pipeline",
			"check_passed 0.7; commit bcbb5ec396a2c0f828686f14fac9b80b780504f2@gitlab-org/gitlab-test; pull_request 1@gitlab-org/gitlab-test",
		},
		{hooks.GitLab, "Push Hook", "gitlab_push", "the push reverts nothing"},
		{hooks.GitLab, "Job Hook", "gitlab_job", "precept rates pipelines, not individual jobs; select pipeline events in the webhook's settings"},
	} {
		h := http.Header{"X-Github-Event": {tc.event}, "X-Gitlab-Event": {tc.event}}
		events, ignored, err := hooks.Parse(tc.service, h, []byte(payload(t, "recorded/"+tc.file+".json")))
		if err != nil {
			t.Errorf("%s: Parse: %v", tc.file, err)
		}
		if got := describe(events) + ignored; got != tc.want {
			t.Errorf("%s: events or reason = %q, want %q", tc.file, got, tc.want)
		}
		for i := range events {
			if events[i].At.IsZero() {
				t.Errorf("%s: event has no time", tc.file)
			}
		}
	}
}
