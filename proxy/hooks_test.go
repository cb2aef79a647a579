package proxy_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
)

func (f *fixture) postWebhook(t *testing.T, secret, event, id, payload string) (code int, got hookResponse) {
	t.Helper()
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(payload))
	h := http.Header{"Content-Type": {"application/json"}}
	h.Set("X-GitHub-Event", event)
	h.Set("X-GitHub-Delivery", id)
	h.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(m.Sum(nil)))
	res, body := f.send(t, "POST", "/v1/hooks/github", h, payload)
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatalf("decode response to a delivery: %v: %s", err, body)
	}
	return res.StatusCode, got
}

type hookResponse struct {
	Status, Reason string
	Events         []struct {
		Session string `json:"session_id"`
		Error   string
	}
	Error struct{ Message string }
}

// hookPayload reads a payload, and replaces the first text in each pair with the second text.
func hookPayload(t *testing.T, name string, pairs ...string) string {
	t.Helper()
	text, err := os.ReadFile("hooks/testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer(pairs...).Replace(string(text))
}

func TestWebhookRatesPullRequestSession(t *testing.T) {
	flags := injectAll()
	flags["hooks.github"] = "s3cret"
	f := newFixture(t, newUpstream(t, nil), "", nil, flags)
	f.sendCommandTurns(t, sessionHeader("a"), "git commit -m x && gh pr create --fill", "[fix/x 3f2a9c1] x\nhttps://github.com/acme/shop/pull/12")
	merged := hookPayload(t, "github_pull_request_merged.json")
	for _, tc := range []struct {
		name, secret, event, id, payload string
		code                             int
		status                           string
	}{
		{"wrong secret", "other", "pull_request", "1", merged, 401, ""},
		{"ping", "s3cret", "ping", "2", `{"zen":"x"}`, 200, "ignored"},
		{"not JSON", "s3cret", "pull_request", "3", `{"action":`, 400, ""},
		{"check", "s3cret", "check_run", "4", hookPayload(t, "github_check_run.json"), 202, "joined"},
		{"merge", "s3cret", "pull_request", "5", merged, 202, "joined"},
		{"repeated delivery", "s3cret", "pull_request", "5", merged, 200, "ignored"},
		{"same body, different id", "s3cret", "pull_request", "6", merged, 200, "ignored"},
		{"unknown pull request", "s3cret", "pull_request", "7", hookPayload(t, "github_pull_request_merged.json", ":12,", ":13,", "fix/x", "fix/y", "3f2a9c1d", "4f2a9c1d"), 200, "ignored"},
	} {
		code, got := f.postWebhook(t, tc.secret, tc.event, tc.id, tc.payload)
		if code != tc.code || got.Status != tc.status || tc.status == "ignored" && got.Reason == "" || tc.status == "" && got.Error.Message == "" {
			t.Errorf("%s: got status code %d, body %+v, want status code %d and status %q, with a reason if ignored or a message if failed", tc.name, code, got, tc.code, tc.status)
		}
		if tc.status == "joined" && (len(got.Events) != 1 || got.Events[0].Session != "a") {
			t.Errorf("%s: events = %+v, want one for session a", tc.name, got.Events)
		}
	}
}

// Only hooks.gitlab is configured.
func TestGitLabHookStatus(t *testing.T) {
	flags := injectAll()
	flags["hooks.gitlab"] = "s3cret"
	f := newFixture(t, newUpstream(t, nil), "", nil, flags)
	f.sendCommandTurns(t, sessionHeader("a"), "git push", "To gitlab.example.org:acme/shop.git\n   1a2b3c4..3f2a9c1  fix/x -> fix/x")
	token := http.Header{"X-Gitlab-Token": {"s3cret"}, "X-Gitlab-Event": {"Pipeline Hook"}}
	for path, want := range map[string]int{"/v1/hooks/gitlab": 202, "/v1/hooks/github": 404, "/v1/hooks/other": 404, "/v1/hooks": 404, "/v1/hooks/gitlab/x": 404} {
		if res, body := f.send(t, "POST", path, token, hookPayload(t, "gitlab_pipeline.json")); res.StatusCode != want {
			t.Errorf("%s: got status %d, body %s, want status %d", path, res.StatusCode, body, want)
		}
	}
	if res, body := f.send(t, "POST", "/hooks/gitlab/", token, hookPayload(t, "gitlab_pipeline.json")); res.StatusCode != 200 {
		t.Errorf("same delivery under a different base URL: got status %d, body %s, want status 200", res.StatusCode, body)
	}
	if res, _ := f.send(t, "GET", "/v1/hooks/gitlab", token, ""); res.StatusCode != 405 {
		t.Errorf("GET: got status %d, want 405", res.StatusCode)
	}
	if res, _ := f.send(t, "POST", "/v1/hooks/gitlab", http.Header{"X-Gitlab-Token": {"other"}}, "{}"); res.StatusCode != 401 {
		t.Errorf("wrong token: got status %d, want 401", res.StatusCode)
	}
	if res, _ := f.send(t, "POST", "/v1/hooks/gitlab", nil, strings.Repeat(" ", 9<<20)); res.StatusCode != 401 {
		t.Errorf("body above the limit without a token: got status %d, want 401", res.StatusCode)
	}
	if res, _ := f.send(t, "POST", "/v1/hooks/gitlab", token, strings.Repeat(" ", 9<<20)); res.StatusCode != 413 {
		t.Errorf("body above the limit: got status %d, want 413", res.StatusCode)
	}
}

// The secret belongs to a different tenant than the session that made the commit.
func TestWebhookIgnoresCommitOfOtherTenant(t *testing.T) {
	f := newFixture(t, newUpstream(t, nil), "", nil, map[string]string{
		"tenancy": "by-credential", "hooks.github": "[{tenant: t-other, secret: s3cret}]",
	})
	f.sendCommandTurns(t, sessionHeader("a", "Authorization", "Bearer one"), "git commit -m x", "[fix/x 3f2a9c1] x")
	if code, got := f.postWebhook(t, "s3cret", "pull_request", "1", hookPayload(t, "github_pull_request_merged.json")); code != 200 {
		t.Errorf("merge of a different tenant's commit: code = %d, want 200", code)
	} else if got.Status != "ignored" {
		t.Errorf(`merge of a different tenant's commit: Status = %q, want "ignored"`, got.Status)
	}
}
