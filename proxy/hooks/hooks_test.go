package hooks_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"precept/proxy/hooks"
)

const commitHash = "3f2a9c1d5e6f708192a3b4c5d6e7f8091a2b3c4d"

func payload(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// describe returns one line per event: outcome, score, and each group of references (see RefGroups) after a semicolon.
func describe(events []hooks.Event) string {
	var lines []string
	for _, e := range events {
		line := fmt.Sprint(e.Outcome, " ", e.Outcome.Score())
		for _, group := range e.RefGroups {
			line += ";"
			for _, ref := range group {
				line += " " + string(ref.Kind) + " " + ref.Name + "@" + ref.Repository
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func ExampleParse() {
	body, _ := os.ReadFile("testdata/github_pull_request_merged.json")
	events, _, _ := hooks.Parse(hooks.GitHub, http.Header{"X-Github-Event": {"pull_request"}}, body)
	for _, ref := range events[0].RefGroups[0] {
		fmt.Println(events[0].Outcome, events[0].Outcome.Score(), ref.Kind, ref.Name[:2])
	}
	// Output:
	// merged 1 pull_request 12
	// merged 1 commit 3f
	// merged 1 branch fi
}

func TestParseReturnsPayloadEvents(t *testing.T) {
	merged, check := payload(t, "github_pull_request_merged.json"), payload(t, "github_check_run.json")
	mergeRequest, pipeline := payload(t, "gitlab_merge_request.json"), payload(t, "gitlab_pipeline.json")
	replace := func(text string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(text) }
	const oneGroup = "; pull_request 12@acme/shop commit " + commitHash + "@acme/shop branch fix/x@acme/shop"
	const separateGroups = "; commit " + commitHash + "@acme/shop; pull_request 12@acme/shop; branch fix/x@acme/shop"
	for name, tc := range map[string]struct {
		service     hooks.Service
		event, body string
		want        string // see describe, or "ignored"
	}{
		"closed without a merge":               {hooks.GitHub, "pull_request", replace(merged, `"merged":true`, `"merged":false`), "closed 0" + oneGroup},
		"pull request opened":                  {hooks.GitHub, "pull_request", replace(merged, `"closed","number"`, `"opened","number"`), "ignored"},
		"pull request from the default branch": {hooks.GitHub, "pull_request", replace(merged, `"ref":"fix/x"`, `"ref":"main"`), "merged 1; pull_request 12@acme/shop commit " + commitHash + "@acme/shop"},
		"pull request from a deleted fork":     {hooks.GitHub, "pull_request", replace(merged, `{"id":2,"name":"shop","full_name":"acme/shop","private":true,"default_branch":"main"}`, "null"), "merged 1; pull_request 12@acme/shop commit " + commitHash + "@acme/shop"},
		"pull request from a fork closed": {
			hooks.GitHub, "pull_request", replace(merged, `"merged":true`, `"merged":false`, `"full_name":"acme/shop","private":true,"default_branch":"main"}},"base"`, `"full_name":"eve/shop","private":true,"default_branch":"main"}},"base"`),
			"closed 0; pull_request 12@acme/shop branch fix/x@eve/shop",
		},
		"deleted fork, branch named as the default branch": {
			hooks.GitHub, "pull_request", replace(merged, `{"id":2,"name":"shop","full_name":"acme/shop","private":true,"default_branch":"main"}`, "null", `"ref":"fix/x"`, `"ref":"main"`, `"merged":true`, `"merged":false`),
			"closed 0; pull_request 12@acme/shop",
		},
		"workflow in a fork": {
			hooks.GitHub, "workflow_run", `{"action":"completed","workflow_run":{"name":"CI","head_branch":"fix/x","head_sha":"` + commitHash + `","conclusion":"failure","updated_at":"2026-11-20T11:00:00Z","head_repository":{"full_name":"eve/shop"}},"repository":{"full_name":"acme/shop","default_branch":"main"}}`,
			"check_failed 0.2; commit " + commitHash + "@acme/shop; branch fix/x@eve/shop",
		},
		"pull request with a revert": {
			hooks.GitHub, "pull_request", replace(merged, "Fix the door", `Revert \"Fix the window\"`, "The door opens again.", "Reverts acme/shop#7"),
			"merged 1" + oneGroup + "\nreverted 0; pull_request 7@acme/shop",
		},
		"check passed":    {hooks.GitHub, "check_run", check, "check_passed 0.7" + separateGroups},
		"check failed":    {hooks.GitHub, "check_run", replace(check, `"conclusion":"success"`, `"conclusion":"failure"`), "check_failed 0.2" + separateGroups},
		"check cancelled": {hooks.GitHub, "check_run", replace(check, `"conclusion":"success"`, `"conclusion":"cancelled"`), "ignored"},
		"check created":   {hooks.GitHub, "check_run", replace(check, `"action":"completed"`, `"action":"created"`), "ignored"},
		"check suite":     {hooks.GitHub, "check_suite", `{"action":"completed","check_suite":{"head_branch":"fix/x","head_sha":"` + commitHash + `","conclusion":"success","updated_at":"2026-11-20T11:00:00Z","app":{"slug":"ci"},"pull_requests":[{"number":12}]},"repository":{"full_name":"acme/shop","default_branch":"main"}}`, "check_passed 0.7" + separateGroups},
		"workflow":        {hooks.GitHub, "workflow_run", `{"action":"completed","workflow_run":{"name":"CI","head_branch":"fix/x","head_sha":"` + commitHash + `","conclusion":"timed_out","updated_at":"2026-11-20T11:00:00Z","pull_requests":[{"number":12}]},"repository":{"full_name":"acme/shop","default_branch":"main"}}`, "check_failed 0.2" + separateGroups},
		"status":          {hooks.GitHub, "status", `{"sha":"` + commitHash + `","state":"success","context":"ci/x","updated_at":"2026-11-20T11:00:00Z","branches":[{"name":"fix/x"}],"repository":{"full_name":"acme/shop","default_branch":"main"}}`, "check_passed 0.7; commit " + commitHash + "@acme/shop; branch fix/x@acme/shop"},
		"pending status":  {hooks.GitHub, "status", `{"sha":"` + commitHash + `","state":"pending","context":"ci/x","repository":{"full_name":"acme/shop"}}`, "ignored"},
		"push with a revert": {
			hooks.GitHub, "push", `{"ref":"refs/heads/main","commits":[{"message":"Revert \"Fix the door (#12)\"\n\nThis reverts commit ` + commitHash + `.","timestamp":"2026-11-20T11:00:00Z"}],"repository":{"full_name":"acme/shop","default_branch":"main"}}`,
			"reverted 0; commit " + commitHash + "@acme/shop pull_request 12@acme/shop",
		},
		"push with a revert to a branch":     {hooks.GitHub, "push", `{"ref":"refs/heads/x","commits":[{"message":"Revert \"x\"\n\nThis reverts commit ` + commitHash + `."}],"repository":{"full_name":"acme/shop","default_branch":"main"}}`, "ignored"},
		"push without a revert":              {hooks.GitHub, "push", `{"ref":"refs/heads/main","commits":[{"message":"x"}],"repository":{"full_name":"acme/shop","default_branch":"main"}}`, "ignored"},
		"ping":                               {hooks.GitHub, "ping", `{"zen":"x","hook_id":1}`, "ignored"},
		"GitLab merge request merged":        {hooks.GitLab, "", mergeRequest, "merged 1" + oneGroup},
		"GitLab merge request closed":        {hooks.GitLab, "", replace(mergeRequest, `"action":"merge"`, `"action":"close"`), "closed 0" + oneGroup},
		"GitLab merge request updated":       {hooks.GitLab, "", replace(mergeRequest, `"action":"merge"`, `"action":"update"`), "ignored"},
		"GitLab merge request with a revert": {hooks.GitLab, "", replace(mergeRequest, `"title":"Fix the door"`, `"title":"Revert \"Fix the window\""`, `"description":""`, `"description":"This reverts merge request !7"`), "merged 1" + oneGroup + "\nreverted 0; pull_request 7@acme/shop"},
		"GitLab merge request from a fork merged": {
			hooks.GitLab, "", replace(mergeRequest, `"source":{"name":"Shop","path_with_namespace":"acme/shop"`, `"source":{"name":"Shop","path_with_namespace":"eve/shop"`),
			"merged 1; pull_request 12@acme/shop commit " + commitHash + "@acme/shop branch fix/x@eve/shop",
		},
		"GitLab merge request from a fork closed": {
			hooks.GitLab, "", replace(mergeRequest, `"action":"merge"`, `"action":"close"`, `"source":{"name":"Shop","path_with_namespace":"acme/shop"`, `"source":{"name":"Shop","path_with_namespace":"eve/shop"`),
			"closed 0; pull_request 12@acme/shop branch fix/x@eve/shop",
		},
		"GitLab merge request from a fork's default branch": {
			hooks.GitLab, "", replace(mergeRequest, `"action":"merge"`, `"action":"close"`, `"source":{"name":"Shop","path_with_namespace":"acme/shop"`, `"source":{"name":"Shop","path_with_namespace":"eve/shop"`, `"source_branch":"fix/x"`, `"source_branch":"main"`),
			"closed 0; pull_request 12@acme/shop",
		},
		"GitLab merge request from a deleted fork": {
			hooks.GitLab, "", replace(mergeRequest, `"action":"merge"`, `"action":"close"`, `{"name":"Shop","path_with_namespace":"acme/shop","default_branch":"main"}`, "null"),
			"closed 0; pull_request 12@acme/shop",
		},
		"GitLab pipeline failed":       {hooks.GitLab, "", pipeline, "check_failed 0.2" + separateGroups},
		"GitLab pipeline passed":       {hooks.GitLab, "", replace(pipeline, `"status":"failed"`, `"status":"success"`), "check_passed 0.7" + separateGroups},
		"GitLab pipeline running":      {hooks.GitLab, "", replace(pipeline, `"status":"failed"`, `"status":"running"`), "ignored"},
		"GitLab push with a revert":    {hooks.GitLab, "", `{"object_kind":"push","ref":"refs/heads/main","project":{"path_with_namespace":"acme/shop","default_branch":"main"},"commits":[{"message":"Revert \"x\"\n\nThis reverts commit ` + commitHash + `","timestamp":"2026-11-20T11:00:00Z"}]}`, "reverted 0; commit " + commitHash + "@acme/shop"},
		"GitLab comment":               {hooks.GitLab, "", `{"object_kind":"note","object_attributes":{"action":7}}`, "ignored"},
		"event without a pull request": {hooks.GitHub, "pull_request", `{"action":"closed"}`, "closed 0"},
		"invalid pull request numbers": {hooks.GitHub, "pull_request", `{"action":"closed","pull_request":{"number":-1,"merged":true,"title":"Revert \"#99999999999999999999\""}}`, "merged 1"},
	} {
		h := http.Header{}
		h.Set("X-GitHub-Event", tc.event)
		events, reason, err := hooks.Parse(tc.service, h, []byte(tc.body))
		got := describe(events)
		if reason != "" {
			got = "ignored"
		}
		if err != nil {
			t.Fatalf("%s: error = %v", name, err)
		}
		if got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
	form := http.Header{"X-Github-Event": {"pull_request"}, "Content-Type": {"application/x-www-form-urlencoded"}}
	events, reason, err := hooks.Parse(hooks.GitHub, form, []byte("payload="+url.QueryEscape(merged)))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := describe(events), "merged 1"+oneGroup; got != want {
		t.Errorf("form-encoded payload: got %q, reason %q, want %q", got, reason, want)
	}
	for _, body := range []string{"", "x", `[]`, `{"pull_request":7}`, `{"action":["closed"]}`} {
		if _, _, err := hooks.Parse(hooks.GitHub, http.Header{"X-Github-Event": {"pull_request"}}, []byte(body)); err == nil {
			t.Errorf("Parse(GitHub body %q) error = nil, want an error", body)
		}
	}
}

func pushEvent(messages ...string) []byte {
	var commits []map[string]string
	for _, message := range messages {
		commits = append(commits, map[string]string{"message": message, "timestamp": "2026-11-20T11:00:00Z"})
	}
	body, _ := json.Marshal(map[string]any{
		"ref": "refs/heads/main", "commits": commits, "repository": map[string]string{"full_name": "acme/shop", "default_branch": "main"},
	})
	return body
}

// In a revert's commit message, the hash can be in quotes or brackets, and text can follow the hash. The message of a
// reverted merge also names a second commit.
func TestParseFindsRevertedCommitInMessage(t *testing.T) {
	const found = "reverted 0; commit " + commitHash + "@acme/shop"
	for text, want := range map[string]string{
		commitHash:       found,
		commitHash + ".": found,
		commitHash + ", reversing\nchanges made to 0123456789abcdef0123456789abcdef01234567.": found,
		commitHash + "\r\n\r\nThe door squeaks.":                                              found,
		commitHash + "; the door squeaks":                                                     found,
		"(" + commitHash + ")":                                                                found,
		`"` + commitHash + `"`:                                                                found,
		"`" + commitHash + "`, which squeaks":                                                 found,
		"[" + commitHash + "](https://x.invalid)":                                             found,
		"defacedly done":                                                                      "",
		"3f2a9c":                                                                              "",
		"":                                                                                    "",
	} {
		push := pushEvent("Revert \"Merge branch 'door'\"\n\nThis reverts commit " + text)
		events, _, err := hooks.Parse(hooks.GitHub, http.Header{"X-Github-Event": {"push"}}, push)
		if got := describe(events); err != nil {
			t.Errorf("%q: error = %v", text, err)
		} else if got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// Parse reads at most 20 reverts in a push. Any number of other commits can precede a revert.
func TestParseLimitsPushReverts(t *testing.T) {
	const revert = "Revert \"Fix the door\"\n\nThis reverts commit " + commitHash + "."
	for _, tc := range []struct{ others, reverts, want int }{{200, 1, 1}, {0, 20, 20}, {30, 21, 20}} {
		messages := append(slices.Repeat([]string{"Paint the door"}, tc.others), slices.Repeat([]string{revert}, tc.reverts)...)
		events, _, err := hooks.Parse(hooks.GitHub, http.Header{"X-Github-Event": {"push"}}, pushEvent(messages...))
		if err != nil {
			t.Fatalf("%d other commits and %d reverts: %v", tc.others, tc.reverts, err)
		}
		if len(events) != tc.want {
			t.Errorf("%d other commits and %d reverts: events = %+v, want %d events", tc.others, tc.reverts, events, tc.want)
		}
	}
}

func hmacSum(key, text string) []byte {
	m := hmac.New(sha256.New, []byte(key))
	m.Write([]byte(text))
	return m.Sum(nil)
}

// GitLab sends either the secret itself as a token, or a signature with a time. IsSigned accepts only a recent time.
func TestIsSignedVerifiesSignatureOrToken(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	const body, secret = `{"a":1}`, "It's a Secret to Everybody"
	github := func(signature string) http.Header {
		h := http.Header{}
		h.Set("X-Hub-Signature-256", signature)
		return h
	}
	gitlab := func(key string, at time.Time) http.Header {
		h, stamp := http.Header{}, strconv.FormatInt(at.Unix(), 10)
		h.Set("Webhook-Id", "msg_1")
		h.Set("Webhook-Timestamp", stamp)
		h.Set("Webhook-Signature", "v1,AAAA v1,"+base64.StdEncoding.EncodeToString(hmacSum(key, "msg_1."+stamp+"."+body)))
		return h
	}
	token := func(text string) http.Header { h := http.Header{}; h.Set("X-Gitlab-Token", text); return h }
	valid := "sha256=" + hex.EncodeToString(hmacSum(secret, body))
	for name, tc := range map[string]struct {
		service hooks.Service
		header  http.Header
		body    string
		secret  string
		want    bool
	}{
		"GitHub":                            {hooks.GitHub, github(valid), body, secret, true},
		"GitHub, modified body":             {hooks.GitHub, github(valid), `{"a":2}`, secret, false},
		"GitHub, wrong secret":              {hooks.GitHub, github(valid), body, "other", false},
		"GitHub, no signature":              {hooks.GitHub, http.Header{}, body, secret, false},
		"GitHub, truncated signature":       {hooks.GitHub, github(valid[:40]), body, secret, false},
		"GitHub, signature not hex":         {hooks.GitHub, github("sha256=zz"), body, secret, false},
		"GitHub, empty secret":              {hooks.GitHub, github("sha256=" + hex.EncodeToString(hmacSum("", body))), body, "", false},
		"GitHub, GitLab token":              {hooks.GitHub, token(secret), body, secret, false},
		"GitLab token":                      {hooks.GitLab, token(secret), body, secret, true},
		"GitLab, wrong token":               {hooks.GitLab, token("other"), body, secret, false},
		"GitLab, no token":                  {hooks.GitLab, http.Header{}, body, secret, false},
		"GitLab signature":                  {hooks.GitLab, gitlab(secret, now.Add(-time.Minute)), body, secret, true},
		"GitLab, secret with prefix whsec_": {hooks.GitLab, gitlab("key", now), body, "whsec_" + base64.StdEncoding.EncodeToString([]byte("key")), true},
		"GitLab, old signature":             {hooks.GitLab, gitlab(secret, now.Add(-time.Hour)), body, secret, false},
		"GitLab, wrong secret":              {hooks.GitLab, gitlab("other", now), body, secret, false},
	} {
		if got := hooks.IsSigned(tc.service, tc.header, []byte(tc.body), tc.secret, now); got != tc.want {
			t.Errorf("%s: IsSigned = %v, want %v", name, got, tc.want)
		}
	}
}

// FuzzParse checks that any body yields at most 20 events, and references without a space, newline or NUL.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"github_pull_request_merged.json", "github_check_run.json", "gitlab_merge_request.json", "gitlab_pipeline.json"} {
		f.Add(payload(f, name))
	}
	f.Fuzz(func(t *testing.T, body string) {
		for _, event := range []string{"pull_request", "check_run", "check_suite", "workflow_run", "status", "push"} {
			for _, service := range []hooks.Service{hooks.GitHub, hooks.GitLab} {
				events, _, _ := hooks.Parse(service, http.Header{"X-Github-Event": {event}}, []byte(body))
				if len(events) > 20 {
					t.Errorf("Parse returned %d events, want at most 20", len(events))
				}
				for i := range events {
					for _, group := range events[i].RefGroups {
						for _, ref := range group {
							if strings.ContainsAny(ref.Name, " \n\x00") {
								t.Errorf("reference = %q, want no space, newline or NUL", ref.Name)
							}
						}
					}
				}
			}
		}
	})
}
