package detect_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"precept/detect"
	"precept/internal/wire"
	"precept/internal/work"
)

type toolCall struct{ tool, args, result string }

func shellCall(command, output string) toolCall {
	args, _ := json.Marshal(map[string]string{"command": command})
	return toolCall{"bash", string(args), output}
}

// workRefs returns the references in the result of the last call. The calls before it are the history.
func workRefs(t *testing.T, calls ...toolCall) []string {
	t.Helper()
	messages := []map[string]any{{"role": "user", "content": "fix it"}}
	for i, c := range calls {
		id := fmt.Sprintf("call_%d", i)
		messages = append(messages,
			map[string]any{"role": "assistant", "tool_calls": []any{map[string]any{"id": id, "type": "function", "function": map[string]any{"name": c.tool, "arguments": c.args}}}},
			map[string]any{"role": "tool", "tool_call_id": id, "content": c.result})
	}
	body, err := json.Marshal(map[string]any{"model": "m", "messages": messages})
	if err != nil {
		t.Fatal(err)
	}
	req, err := wire.Parse(wire.Chat, body)
	if err != nil {
		t.Fatal(err)
	}
	var results detect.Results
	return refStrings(results.WorkRefs(req, nil))
}

func refStrings(refs []work.Ref) (list []string) {
	for _, r := range refs {
		list = append(list, strings.TrimSpace(string(r.Kind)+" "+r.Name+" "+r.Repository))
	}
	return list
}

const fullHash = "3f2a9c1d5e6f708192a3b4c5d6e7f8091a2b3c4d"

// A work reference names a commit, branch or pull request that the agent created or pushed. A commit in a listing, a
// file or a fetch is not the agent's work.
func TestWorkRefsFindsCommitsAndBranches(t *testing.T) {
	for name, tc := range map[string]struct {
		call toolCall
		want []string
	}{
		"commit":                {shellCall("git commit -m x", "[main 3f2a9c1] x\n 1 file changed"), []string{"commit 3f2a9c1", "branch main"}},
		"first commit":          {shellCall("git add . && git commit -m x", "[main (root-commit) 3f2a9c1] x"), []string{"commit 3f2a9c1", "branch main"}},
		"commit without branch": {shellCall("git commit -m x", "[detached HEAD 3f2a9c1] x"), []string{"commit 3f2a9c1"}},
		"cherry-pick":           {shellCall("git -C /src cherry-pick abc1234", "[fix/x 3f2a9c1] x"), []string{"commit 3f2a9c1", "branch fix/x"}},
		"commit in a JSON result": {
			toolCall{"exec_command", `{"cmd":"git commit -m x"}`, `{"output":"[main 3f2a9c1] x\n 1 file changed\n","metadata":{"exit_code":0}}`},
			[]string{"commit 3f2a9c1", "branch main"},
		},
		"quiet commit with rev-parse": {shellCall("git commit -qm x && git rev-parse HEAD", fullHash+"\n"), []string{"commit " + fullHash}},
		"quiet commit with a log":     {shellCall("git commit -qm x; git log --oneline -3", "3f2a9c1 x\nabcdef0 older"), []string{"commit 3f2a9c1"}},
		"push": {
			shellCall("git push", "To github.com:Acme/Shop.git\n   1a2b3c4..3f2a9c1  main -> main\n"),
			[]string{"commit 3f2a9c1 acme/shop", "branch main acme/shop"},
		},
		"new branch pushed": {
			shellCall("git push -u origin fix/x", "remote: \nremote: Create a pull request for 'fix/x' on GitHub by visiting:\nremote:      https://github.com/acme/shop/pull/new/fix/x\nremote: \nTo https://user:token@github.com/acme/shop.git\n * [new branch]      fix/x -> fix/x\nbranch 'fix/x' set up to track 'origin/fix/x'."),
			[]string{"branch fix/x acme/shop"},
		},
		"forced push": {
			shellCall("git push -f", "To ssh://git@gitlab.example.org:2222/acme/team/shop.git\n + 1a2b3c4...3f2a9c1 fix/x -> fix/x (forced update)"),
			[]string{"commit 3f2a9c1 acme/team/shop", "branch fix/x acme/team/shop"},
		},
		"push to GitLab": {
			shellCall("git push", "remote: \nremote: View merge request for fix/x:\nremote:   https://gitlab.com/acme/shop/-/merge_requests/12\nremote: \nTo gitlab.com:acme/shop.git\n   1a2b3c4..3f2a9c1  fix/x -> fix/x"),
			[]string{"pull_request 12 acme/shop", "commit 3f2a9c1 acme/shop", "branch fix/x acme/shop"},
		},
		"porcelain push":        {shellCall("git push --porcelain", "To github.com:acme/shop.git\n \trefs/heads/fix/x:refs/heads/fix/x\t1a2b3c4..3f2a9c1\nDone"), []string{"commit 3f2a9c1 acme/shop", "branch fix/x acme/shop"}},
		"rejected push":         {shellCall("git push", "To github.com:acme/shop.git\n ! [rejected]        main -> main (fetch first)\nerror: failed to push"), nil},
		"pull and push":         {shellCall("git pull && git push", "From github.com:acme/shop\n   1111111..2222222  other      -> origin/other\nTo github.com:acme/shop.git\n   1a2b3c4..3f2a9c1  main -> main"), []string{"commit 3f2a9c1 acme/shop", "branch main acme/shop"}},
		"pushed tag":            {shellCall("git push --tags", "To github.com:acme/shop.git\n * [new tag]         v1 -> v1"), nil},
		"new branch":            {shellCall("git checkout -b fix/x", "Switched to a new branch 'fix/x'"), []string{"branch fix/x"}},
		"pull request":          {shellCall("gh pr create --fill --body 'see https://github.com/acme/shop/pull/9'", "\nCreating pull request for fix/x into main in acme/shop\n\nhttps://github.com/acme/shop/pull/12\n"), []string{"pull_request 12 acme/shop"}},
		"merge":                 {shellCall("gh pr merge 12 --squash", "✓ Squashed and merged pull request acme/shop#12 (Fix the door)"), []string{"pull_request 12 acme/shop"}},
		"merge in a repository": {shellCall("gh pr merge 12 -R acme/shop --auto", ""), nil},
		"merge by number":       {shellCall("gh pr merge 12 -R acme/shop", "merged"), []string{"pull_request 12 acme/shop"}},
		"view":                  {shellCall("gh pr view", "title:\tFix\nstate:\tOPEN\nurl:\thttps://github.com/acme/shop/pull/12\n--\nreplaces https://github.com/acme/shop/pull/9"), []string{"pull_request 12 acme/shop"}},
		"view as JSON":          {shellCall("gh pr view --json number,url,headRefName", `{"headRefName":"fix/x","number":12,"url":"https://github.com/acme/shop/pull/12"}`), []string{"pull_request 12 acme/shop", "branch fix/x acme/shop"}},
		"merge request":         {shellCall("glab mr create --fill", "!12 Fix (fix/x)\n https://gitlab.com/acme/team/shop/-/merge_requests/12"), []string{"pull_request 12 acme/team/shop"}},
		"hub":                   {shellCall("hub pull-request -m x", "https://github.com/acme/shop/pull/12"), []string{"pull_request 12 acme/shop"}},
		"code that commits": {
			toolCall{"python", `{"code":"import subprocess\nprint(subprocess.run(\"git commit -m x\", shell=True))"}`, "[main 3f2a9c1] x"},
			[]string{"commit 3f2a9c1", "branch main"},
		},
		"GitHub API, create a pull request": {
			toolCall{"mcp__github__create_pull_request", `{"owner":"Acme","repo":"shop","head":"fix/x","base":"main"}`, `{"id":1,"number":12,"html_url":"https://github.com/acme/shop/pull/12","head":{"ref":"fix/x","sha":"` + fullHash + `"},"base":{"ref":"main","sha":"1111111111111111111111111111111111111111"}}`},
			[]string{"pull_request 12 acme/shop", "commit " + fullHash + " acme/shop", "branch fix/x acme/shop"},
		},
		"GitHub API, merge": {
			toolCall{"github_merge_pull_request", `{"owner":"acme","repo":"shop","pullNumber":12}`, `{"sha":"` + fullHash + `","merged":true,"message":"Pull Request successfully merged"}`},
			[]string{"commit " + fullHash + " acme/shop", "pull_request 12 acme/shop"},
		},
		"GitHub API, push files": {
			toolCall{"mcp__github__push_files", `{"owner":"acme","repo":"shop","branch":"fix/x","files":[]}`, `{"ref":"refs/heads/fix/x","object":{"type":"commit","sha":"` + fullHash + `"}}`},
			[]string{"commit " + fullHash + " acme/shop", "branch fix/x acme/shop"},
		},
		"GitHub API, update a file": {
			toolCall{"create_or_update_file", `{"owner":"acme","repo":"shop","branch":"fix/x","path":"a"}`, `{"content":{"sha":"1111111111111111111111111111111111111111"},"commit":{"sha":"` + fullHash + `"}}`},
			[]string{"commit " + fullHash + " acme/shop", "branch fix/x acme/shop"},
		},
		"GitLab API, create a merge request": {
			toolCall{"gitlab_create_merge_request", `{"project_id":"acme/team/shop","source_branch":"fix/x"}`, `{"iid":12,"web_url":"https://gitlab.com/acme/team/shop/-/merge_requests/12","source_branch":"fix/x","sha":"` + fullHash + `"}`},
			[]string{"pull_request 12 acme/team/shop", "commit " + fullHash + " acme/team/shop", "branch fix/x acme/team/shop"},
		},
		"Git MCP tool": {toolCall{"mcp__git__git_commit", `{"repo_path":"/src","message":"x"}`, "Changes committed successfully with hash " + fullHash}, []string{"commit " + fullHash}},

		"a log":             {shellCall("git log --oneline -3", "3f2a9c1 x\nabcdef0 y"), nil},
		"a branch log":      {shellCall("git commit -qm x; git log --oneline origin/main", "3f2a9c1 x"), nil},
		"a file":            {shellCall("cat notes.txt", "[main 3f2a9c1] x\nhttps://github.com/acme/shop/pull/12"), nil},
		"a file named git":  {toolCall{"read_file", `{"path":"git commit.md"}`, "[main 3f2a9c1] x"}, nil},
		"a CLI listing":     {shellCall("gh pr list", "12\tFix\tfix/x\tOPEN"), nil},
		"an API listing":    {toolCall{"github_list_pull_requests", `{"owner":"acme","repo":"shop"}`, `[{"number":12,"html_url":"https://github.com/acme/shop/pull/12"}]`}, nil},
		"nothing to commit": {shellCall("git commit -m x", "On branch main\nnothing to commit, working tree clean"), nil},
		"a fetch":           {shellCall("git fetch", "From github.com:acme/shop\n   1111111..2222222  main -> origin/main"), nil},
		"a local file":      {toolCall{"create_file", `{"path":"a.txt","content":"x"}`, `{"ok":true,"id":"` + fullHash + `","commit":null}`}, nil},
	} {
		if got := workRefs(t, tc.call); !slices.Equal(got, tc.want) {
			t.Errorf("%s: got references %q, want %q", name, got, tc.want)
		}
	}
}

func TestLogAfterQuietCommitShowsTheCommit(t *testing.T) {
	log := shellCall("git log -1 --format=%H", fullHash)
	if got := workRefs(t, shellCall("git commit -qm x", ""), log); !slices.Equal(got, []string{"commit " + fullHash}) {
		t.Errorf("git log after a commit: got references %q, want commit %s", got, fullHash)
	}
	if got := workRefs(t, shellCall("git status", "clean"), log); got != nil {
		t.Errorf("git log after git status: got references %q, want none", got)
	}
}

func TestRefusedCallHasNoReferences(t *testing.T) {
	refused := shellCall("git commit -m x", "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT written to the file).\n[main 3f2a9c1] x")
	if got := workRefs(t, refused); got != nil {
		t.Errorf("refused commit: got references %q, want none", got)
	}
}

func TestReferencesAreLimited(t *testing.T) {
	var b strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&b, "[main %07x] x\n", 0xabc0000+i)
	}
	if got := workRefs(t, shellCall("git commit -m x", b.String())); len(got) != 32 {
		t.Errorf("result with 20,000 commits: got %d references, want 32", len(got))
	}
}

// FuzzWorkReferences checks that a reference to an agent's work, such as a commit or a pull request, has no control
// characters and at most 600 bytes.
func FuzzWorkReferences(f *testing.F) {
	f.Add("bash", "git commit -m x && git push", "[main 3f2a9c1] x\nTo a:b/c\n   1a2b3c4..3f2a9c1  main -> main")
	f.Add("create_pull_request", "", `{"html_url":"https://github.com/acme/shop/pull/12"}`)
	f.Fuzz(func(t *testing.T, tool, command, result string) {
		args, _ := json.Marshal(map[string]string{"command": command})
		for _, text := range workRefs(t, toolCall{tool, string(args), result}) {
			if strings.ContainsAny(text, "\x00\n\r\t") || len(text) > 600 {
				t.Errorf("reference %q has %d bytes, want no control characters and at most 600 bytes", text, len(text))
			}
		}
	})
}
