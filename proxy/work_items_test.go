package proxy_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
)

// sendCommandTurns sends two turns. The result in the second turn contains work items: commits, branches and pull
// requests.
func (f *fixture) sendCommandTurns(t *testing.T, header http.Header, command, result string) {
	t.Helper()
	a := newAgent("Please fix the build of " + header.Get("Precept-Session"))
	f.chat(t, header, a.body())
	a.addCall("call_1", command, result)
	f.chat(t, header, a.body())
}

func sessionHeader(session string, pairs ...string) http.Header {
	h := http.Header{"Precept-Session": {session}}
	for i := 0; i+1 < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

type feedbackResponse struct {
	code           int
	Status         string
	Session        string `json:"session_id"`
	Run            string `json:"run_id"`
	Sessions, Runs []string
	Error          struct{ Message string }
}

// postScore posts a score. member is the JSON member that names a session or a work item, such as "branch":"fix/x".
func (f *fixture) postScore(t *testing.T, header http.Header, member string) (got feedbackResponse) {
	t.Helper()
	res, body := f.send(t, "POST", "/v1/feedback", header, `{`+member+`,"source":"system","type":"score","score":1}`)
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatalf("decode response to feedback: %v: %s", err, body)
	}
	got.code = res.StatusCode
	return got
}

const commitHash = "3f2a9c1d5e6f708192a3b4c5d6e7f8091a2b3c4d"

func TestFeedbackIsJoinedByWorkItem(t *testing.T) {
	f := newFixture(t, newUpstream(t, nil), "", nil, injectAll())
	f.sendCommandTurns(t, sessionHeader("a"), "git commit -am x && git push && gh pr create --fill",
		"[fix/x 3f2a9c1] x\nTo github.com:acme/shop.git\n * [new branch]      fix/x -> fix/x\nhttps://github.com/acme/shop/pull/12")
	for _, member := range []string{
		`"commit":"3f2a9c1"`, `"commit":"` + commitHash + `"`, `"commit":"3F2A9C1D"`, `"branch":"fix/x"`, `"branch":"refs/heads/fix/x"`,
		`"pull_request":"https://github.com/acme/shop/pull/12"`, `"pull_request":"https://github.com/Acme/Shop/pull/12/files#r1"`,
		`"pull_request":"acme/shop#12"`, `"pull_request":"https://api.github.com/repos/acme/shop/pulls/12"`,
	} {
		if got := f.postScore(t, nil, member); got.code != 202 {
			t.Errorf("feedback on %s: code = %d, want 202", member, got.code)
		} else if got.Status != "joined" {
			t.Errorf(`feedback on %s: Status = %q, want "joined"`, member, got.Status)
		} else if got.Session != "a" {
			t.Errorf(`feedback on %s: Session = %q, want "a"`, member, got.Session)
		} else if !slices.Equal(got.Sessions, []string{"a"}) {
			t.Errorf("feedback on %s: Sessions = %q, want %q", member, got.Sessions, []string{"a"})
		}
	}
	for member, want := range map[string]int{
		`"commit":"3f2a9c2"`: 404, `"branch":"fix/y"`: 404, `"pull_request":"acme/shop#13"`: 404, `"pull_request":"acme/other#12"`: 404,
		`"commit":"3f2a9"`: 400, `"commit":"main branch"`: 400, `"commit":"0000000"`: 400, `"branch":"a b"`: 400, `"branch":".."`: 400,
		`"pull_request":"12"`: 400, `"pull_request":"https://github.com/acme/shop"`: 400, `"pull_request":"acme/shop#0"`: 400,
		`"commit":"3f2a9c1","branch":"fix/x"`: 400, `"commit":"3f2a9c1","session_id":"a"`: 400, `"commit":7`: 400, `"branch":""`: 400,
	} {
		if got := f.postScore(t, nil, member); got.code != want {
			t.Errorf("feedback on %s: code = %d, want %d", member, got.code, want)
		} else if got.Error.Message == "" {
			t.Errorf("feedback on %s: Message is empty", member)
		}
	}
}

func TestFeedbackOnAmbiguousCommitIsRefused(t *testing.T) {
	f := newFixture(t, newUpstream(t, nil), "", nil, injectAll())
	f.sendCommandTurns(t, sessionHeader("a"), "git commit -qm x && git rev-parse HEAD", "3f2a9c1a11111111111111111111111111111111")
	f.sendCommandTurns(t, sessionHeader("b"), "git commit -qm x && git rev-parse HEAD", "3f2a9c1b22222222222222222222222222222222")
	if got := f.postScore(t, nil, `"commit":"3f2a9c1"`); got.code != 409 {
		t.Errorf("hash shared by two commits: got %+v, want status 409", got)
	}
	if got := f.postScore(t, nil, `"commit":"3f2a9c1b"`); got.code != 202 {
		t.Errorf("longer hash: code = %d, want 202", got.code)
	} else if got.Session != "b" {
		t.Errorf(`longer hash: Session = %q, want "b"`, got.Session)
	}
	f.sendCommandTurns(t, sessionHeader("c"), "git commit -m x", "[main 3f2a9c1b2] x") // a shorter hash of session b's commit
	if got := f.postScore(t, nil, `"commit":"3f2a9c1b22222222222222222222222222222222"`); !slices.Equal(got.Sessions, []string{"c", "b"}) {
		t.Errorf("commit: got %+v, want sessions c and b", got)
	}
}

// Feedback on a work item rates the twenty newest sessions with the item. If these sessions belong to a run, feedback
// rates the run once.
func TestFeedbackOnWorkItemRatesNewestSessions(t *testing.T) {
	f := newFixture(t, newUpstream(t, nil), "", nil, injectAll())
	for i := range 24 {
		f.sendCommandTurns(t, sessionHeader(fmt.Sprintf("s%02d", i)), "git commit -m x", "[fix/x 3f2a9c1] x")
	}
	got := f.postScore(t, nil, `"branch":"fix/x"`)
	if len(got.Sessions) != 20 {
		t.Fatalf("branch with 24 sessions = %q, want 20 items", got.Sessions)
	}
	if got.Sessions[0] != "s23" {
		t.Errorf(`branch with 24 sessions: Sessions[0] = %q, want "s23"`, got.Sessions[0])
	}
	if got.Sessions[19] != "s04" {
		t.Errorf(`branch with 24 sessions: Sessions[19] = %q, want "s04"`, got.Sessions[19])
	}
	for _, name := range []string{"r1", "r2"} {
		f.sendCommandTurns(t, sessionHeader(name, "Precept-Run", "nightly"), "git commit -m x", "[fix/run 4f2a9c1] x")
	}
	if got := f.postScore(t, nil, `"commit":"4f2a9c1"`); got.Run != "nightly" {
		t.Errorf(`commit in a run = %q, want "nightly"`, got.Run)
	} else if !slices.Equal(got.Runs, []string{"nightly"}) {
		t.Errorf("commit in a run: Runs = %q, want %q", got.Runs, []string{"nightly"})
	} else if got.Sessions != nil {
		t.Errorf("commit in a run: Sessions = %q, want nil", got.Sessions)
	}
}

func TestWorkItemIsUnknownToOtherTenant(t *testing.T) {
	f := newFixture(t, newUpstream(t, nil), "", nil, map[string]string{"tenancy": "by-credential"})
	f.sendCommandTurns(t, sessionHeader("a", "Authorization", "Bearer one"), "git commit -m x", "[fix/x 3f2a9c1] x")
	if got := f.postScore(t, http.Header{"Authorization": {"Bearer two"}}, `"commit":"3f2a9c1"`); got.code != 404 {
		t.Errorf("feedback from a different tenant: got %+v, want status 404", got)
	}
	if got := f.postScore(t, http.Header{"Authorization": {"Bearer one"}}, `"commit":"3f2a9c1"`); got.code != 202 {
		t.Errorf("feedback from the session's tenant: got %+v, want status 202", got)
	}
}

func TestOptedOutWorkItemIsUnknown(t *testing.T) {
	f := newFixture(t, newUpstream(t, nil), "", nil, injectAll())
	f.sendCommandTurns(t, sessionHeader("a", "Precept-Learn", "off"), "git commit -m x", "[fix/x 3f2a9c1] x")
	if got := f.postScore(t, nil, `"commit":"3f2a9c1"`); got.code != 404 {
		t.Errorf("commit in an opted-out session: got %+v, want status 404", got)
	}
}

func TestWorkItemsSurviveRestart(t *testing.T) {
	dir := t.TempDir()
	up := newUpstream(t, nil)
	f := newFixture(t, up, dir, nil, injectAll())
	f.sendCommandTurns(t, sessionHeader("a"), "git push", "To github.com:acme/shop.git\n   1a2b3c4..3f2a9c1  fix/x -> fix/x")
	f.stop()
	f = newFixture(t, up, dir, nil, injectAll())
	if got := f.postScore(t, nil, `"commit":"3f2a9c1"`); got.code != 202 {
		t.Errorf("commit after a restart: code = %d, want 202", got.code)
	} else if got.Session != "a" {
		t.Errorf(`commit after a restart: Session = %q, want "a"`, got.Session)
	}
}
