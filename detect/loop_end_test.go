package detect_test

import (
	"strings"
	"testing"

	"precept/detect"
)

func countLoops(t *testing.T, steps ...testStep) (n int) {
	t.Helper()
	found, err := inspect(t, mustJSON(t, obj{"messages": chat(steps)}))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if f.Kind == detect.KindLoop {
			n++
		}
	}
	return n
}

// The verb in the tool's name shows whether a call changes something. A call that only reads, or that fails, does not
// end a loop.
func TestCallThatChangesSomethingEndsALoop(t *testing.T) {
	failing := call("get_quote", `{"id":7}`, `{"error":"there is no quote"}`)
	for verbs, changes := range map[string]bool{
		"update cancel book create modify exchange return delete send set add remove post put write insert transfer":          true,
		"submit apply move rename pay start stop restart enable disable install deploy run execute upload save reset approve": true,
		"assign merge push commit schedule register buy purchase upgrade edit login authenticate logout spawn delegate grant": true,
		"revoke change patch import publish unlock lock refund charge":                                                        true,
		"get list search find fetch read show query lookup check calculate count describe view retrieve is has browse":        false,
		"analyze summarize compare validate ponder":                                                                           false,
	} {
		for verb := range strings.FieldsSeq(verbs) {
			between := call(verb+"_order", `{"id":3}`, `{"id":3,"total":12}`)
			want := 1
			if changes {
				want = 0
			}
			if got := countLoops(t, failing, between, failing); got != want {
				t.Errorf("%s between two identical failures: got %d loops, want %d", verb, got, want)
			}
			between.result = `{"error":"it is forbidden"}`
			if got := countLoops(t, failing, between, failing); got != 1 {
				t.Errorf("failed %s between two identical failures: got %d loops, want 1", verb, got)
			}
		}
	}
}

// A command that only reads or tests does not end a loop.
func TestFileChangingCommandEndsALoop(t *testing.T) {
	for command, changes := range map[string]bool{
		"ls -la":                      false,
		"cat a.go | head -3":          false,
		"grep -rn total .":            false,
		"git status":                  false,
		"git log --oneline":           false,
		"git diff HEAD~1":             false,
		"git config --get user.name":  false,
		"git config -l":               false,
		"git config user.name x":      true,
		"git checkout main":           true,
		"git pull":                    true,
		"sed -i s/a/b/ a.go":          true,
		"sed -n 1,3p a.go":            false,
		"sed -Ei s/a/b/ a.go":         true,
		"yq -i .a=1 a.yaml":           true,
		"yq -o json .a a.yaml":        false,
		"ls | xargs sed -i s/a/b/":    true,
		"ls | xargs sed -n 1,3p":      false,
		"echo x > a.go":               true,
		"npm install":                 true,
		"rm -r build":                 true,
		"go test ./...":               false,
		"pytest -q":                   false,
		"npx eslint .":                false,
		"npx eslint --fix .":          true,
		"npx prettier --write .":      true,
		"gofmt -w . && go test ./...": true,
		"npx jest -u":                 true,
		"npx jest --updateSnapshot":   true,
		"go generate && go test":      true,
		"cd web && npm test":          false,
		"python fix.py":               true,
	} {
		want := 1
		if changes {
			want = 0
		}
		if got := countLoops(t, failedBash("make demo"), bash(command, "fine"), failedBash("make demo")); got != want {
			t.Errorf("%s between two identical failures: got %d loops, want %d", command, got, want)
		}
	}
}

// A tool that only reads, searches or plans does not end a loop.
func TestEditOrBrowserToolEndsALoop(t *testing.T) {
	for _, tc := range []struct {
		tool, args string
		changes    bool
	}{
		{"Read", `{"file_path":"a.go"}`, false},
		{"Grep", `{"pattern":"total"}`, false},
		{"Glob", `{"pattern":"*.go"}`, false},
		{"TodoWrite", `{"todos":[]}`, false},
		{"Edit", `{"file_path":"a.go","old_string":"a","new_string":"b"}`, true},
		{"Write", `{"file_path":"a.go","content":"b"}`, true},
		{"apply_patch", `{"input":"*** Begin Patch"}`, true},
		{"browser_click", `{"ref":"e3"}`, true},
		{"browser_type", `{"ref":"e3","text":"x"}`, true},
		{"browser_navigate", `{"url":"http://h/"}`, true},
		{"browser_snapshot", `{}`, false},
		{"WebFetch", `{"url":"http://h/"}`, false},
	} {
		want := 1
		if tc.changes {
			want = 0
		}
		if got := countLoops(t, failedBash("make demo"), call(tc.tool, tc.args, "done"), failedBash("make demo")); got != want {
			t.Errorf("%s between two identical failures: got %d loops, want %d", tc.tool, got, want)
		}
	}
}

// A failing API call that the agent repeats after a user turn is still a loop if the user neither reports a change nor
// asks for a retry, and the failure is not transient.
func TestUserTurnEndsALoop(t *testing.T) {
	refused := call("get_quote", `{"id":7}`, `{"error":"there is no quote"}`)
	if got := countLoops(t, failedBash("make demo"), userTurn("and the docs?"), failedBash("make demo")); got != 0 {
		t.Errorf("command that fails before and after a user's question: got %d loops, want 0", got)
	}
	if got := countLoops(t, refused, userTurn("and the docs?"), refused); got != 1 {
		t.Errorf("API call that fails before and after a user's question: got %d loops, want 1", got)
	}
	for _, text := range []string{
		"try again", "Please try it again.", "Try that again", "retry", "run it again", "Run again, please", "do it again", "check again", "once more", "One more time!", "rerun", "re-run it",
		"now it is there", "it works now", "that should work", "it should be fixed", "I fixed it", "I've fixed the key", "I have fixed that", "fixed it", "I changed the plan", "I've changed it", "I updated it", "I've updated",
		"I have updated it", "I added a quote", "I've added one", "I installed it", "I've installed it", "I restarted it", "I've restarted the server", "I created it", "I've created one", "I enabled it", "I've enabled it",
		"it is back", "it's back", "the server is up again", "de novo", "otra vez", "nochmal", "Noch einmal bitte", "encore une fois",
	} {
		if got := countLoops(t, refused, userTurn(text), refused); got != 0 {
			t.Errorf("API call that fails before and after %q: got %d loops, want 0", text, got)
		}
	}
	for _, text := range []string{"go on", "why?", "the retrying is odd", "against it", "what was fixed?"} {
		if got := countLoops(t, refused, userTurn(text), refused); got != 1 {
			t.Errorf("API call that fails before and after %q: got %d loops, want 1", text, got)
		}
	}
	for _, why := range []string{
		"timeout", "the request timed out", "gateway time-out", "rate limit reached", "too many requests", "temporarily down", "service unavailable", "try again later",
		"connection refused", "the model is overloaded", "the device is busy", "the row is locked", "network unreachable",
	} {
		transient := call("get_quote", `{"id":7}`, `{"error":"`+why+`"}`)
		if got := countLoops(t, transient, userTurn("and the docs?"), transient); got != 0 {
			t.Errorf("failure %q before and after a user's question: got %d loops, want 0", why, got)
		}
	}
}
