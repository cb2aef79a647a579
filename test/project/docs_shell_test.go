package project

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"precept/test/harness"

	"github.com/goccy/go-yaml"

	"precept/inject/bank/banktest"
	"precept/store/storetest"
)

type docBlock struct {
	line           int // line number of the opening fence
	language, text string
	notRun         string // the reason in <!-- not run: ... --> on the line above the block
}

var (
	notRunPattern  = regexp.MustCompile(`^<!-- not run: (.+) -->$`)
	commandPattern = regexp.MustCompile(`^(?:\$ )?(?:(?:bin/|\./)?precept [a-z]+(?: [^ ]|$)|(?:make|docker|kubectl|git|curl|export|redis-cli|pip|python|npm) )`)
)

// docBlocks returns the fenced blocks in a document. It also returns the line numbers with shell commands in indented
// blocks, which the test cannot run.
func docBlocks(text string) (blocks []docBlock, indented []int) {
	var current *docBlock
	previousLine := ""
	for n, line := range strings.Split(text, "\n") {
		language, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && current == nil:
			current = &docBlock{line: n + 1, language: language}
			if m := notRunPattern.FindStringSubmatch(previousLine); m != nil {
				current.notRun = m[1]
			}
		case fence:
			blocks, current = append(blocks, *current), nil
		case current != nil:
			current.text += line + "\n"
		case strings.HasPrefix(line, "    ") && commandPattern.MatchString(strings.TrimSpace(line)):
			indented = append(indented, n+1)
		}
		previousLine = line
	}
	return blocks, indented
}

func TestDocBlocksFindsFencedAndIndentedCommands(t *testing.T) {
	t.Parallel()
	blocks, indented := docBlocks("a\n\n<!-- not run: why -->\n```sh\nx\ny\n```\n```\nz\n```\n\n    precept check\n    make test  # x\n    precept serve   words\n")
	first := docBlock{line: 4, language: "sh", text: "x\ny\n", notRun: "why"}
	if len(blocks) != 2 || blocks[0] != first || blocks[1].language != "" || !slices.Equal(indented, []int{12, 13}) {
		t.Errorf("docBlocks: got blocks %+v and indented commands in lines %v, want %+v, a block without a language, and lines 12 and 13",
			blocks, indented, first)
	}
}

// The test runs the shell blocks in each document in order, except blocks with the comment "not run".
func TestDocsShellBlocksRun(t *testing.T) {
	t.Parallel()
	ran := 0
	for _, file := range documentPaths(t) {
		if filepath.Ext(file) != ".md" || strings.HasPrefix(file, "docs/decisions/") || file == "CHANGELOG.md" {
			continue
		}
		blocks, indented := docBlocks(readRepoFile(t, file))
		for _, line := range indented {
			t.Errorf("%s:%d: command in an indented block cannot be run; use a fenced sh block", file, line)
		}
		var shell []docBlock
		for _, b := range blocks {
			switch b.language {
			case "sh":
				if b.notRun == "" {
					shell = append(shell, b)
				}
			case "json", "yaml":
				var v any
				err := json.Unmarshal([]byte(b.text), &v)
				if b.language == "yaml" {
					err = yaml.Unmarshal([]byte(b.text), &v)
				}
				if err != nil {
					t.Errorf("%s:%d: invalid %s: %v", file, b.line, b.language, err)
				}
			case "":
				t.Errorf("%s:%d: block without a language, want sh, json, yaml or text", file, b.line)
			}
		}
		if ran += len(shell); len(shell) == 0 {
			continue
		}
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			env := newDocEnv(t)
			if strings.HasPrefix(file, "examples/redis/") {
				env.addSampleToRedis(t)
			}
			for _, b := range shell {
				env.run(t, b)
			}
		})
	}
	if ran < 8 {
		t.Errorf("shell blocks in the documents: got %d, want at least 8", ran)
	}
}

// docEnv is the environment in which the documented commands run. It has a git project with lessons and transcripts,
// lessons from two more projects, a running precept, and a running Redis.
type docEnv struct {
	dir, redis   string
	env          []string
	placeholders *strings.Replacer // replaces addresses and placeholders in a block
}

func newDocEnv(t *testing.T) *docEnv {
	t.Helper()
	root := t.TempDir()
	dir, other, own := filepath.Join(root, "project"), filepath.Join(root, "other-team", "lessons"), filepath.Join(root, "our-other-project", "lessons")
	for _, path := range []string{filepath.Join(dir, "lessons"), filepath.Join(dir, "data"), other, own} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	banktest.WriteLesson(t, filepath.Join(dir, "lessons"), "check-the-target", "build script")
	addPreventedPhrase(t, filepath.Join(dir, "lessons", "check-the-target.md"), "no rule to make")
	banktest.WriteLesson(t, filepath.Join(dir, "lessons"), "ask-first", "drop the table")
	banktest.WriteLesson(t, other, "their-lesson", "load the page")
	banktest.WriteLesson(t, own, "our-lesson", "open the drawer")
	transcript := `{"source":"old","id":"1","messages":[{"role":"user","content":"Click on load more, please."},{"role":"assistant","content":"Done."}]}` + "\n"
	if err := os.WriteFile(filepath.Join(dir, "transcripts.jsonl"), []byte(transcript), 0o600); err != nil {
		t.Fatal(err)
	}
	server := storetest.StartRedis(t, "--requirepass", "documents")
	data := filepath.Join(dir, "data")
	p := harness.Launch(t, data, []string{"PRECEPT_ADMIN_TOKEN=documents-token", "PRECEPT_HOOKS_GITHUB=documents-hook"}, "--upstream", harness.InstantModel(t).URL+"/v1", "--lessons", filepath.Join(dir, "lessons")).WaitUntilReady(data)
	sendSession(t, p)
	sendChat(t, p, "ci-43", `{"model":"m","messages":[{"role":"user","content":"Commit the fix."},{"role":"assistant","tool_calls":[{"id":"call_1","type":"function","function":{"name":"bash","arguments":"{\"command\":\"git commit -m x && gh pr create --fill\"}"}}]},{"role":"tool","tool_call_id":"call_1","content":"[fix/x 3f2a9c1d] x\nhttps://github.com/acme/shop/pull/12"}]}`)
	d := &docEnv{dir: dir, redis: server.Addr, placeholders: strings.NewReplacer(
		"127.0.0.1:8080", strings.TrimPrefix(p.DataURL, "http://"), "127.0.0.1:8081", strings.TrimPrefix(p.AdminURL, "http://"),
		"host:6379", ":documents@"+server.Addr, "redis-cli ", "redis-cli -e -p "+portOf(t, server.Addr)+" ",
		"SLUG", "check-the-target", "ENTRY_ID", "1-1")}
	d.env = append(os.Environ(), "HOME="+root, "OPENAI_BASE_URL=", "PRECEPT_ADMIN_TOKEN=documents-token", "NO_COLOR=1", "REDIS_PASSWORD=documents", "GITHUB_WEBHOOK_SECRET=documents-hook",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org")
	d.run(t, docBlock{text: `printf 'data\nci-data\nout\n' > .gitignore
git init -q -b main && git add . && git commit -qm begin
git init -q --bare ../origin.git && git remote add origin ../origin.git && git push -q -u origin main
git config push.autoSetupRemote true`})
	return d
}

func (d *docEnv) run(t *testing.T, b docBlock) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "bash", "-euxo", "pipefail", "-c", d.placeholders.Replace(b.text))
	c.Dir, c.Env = d.dir, d.env
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("block at line %d: %v\n%s\n%s", b.line, err, b.text, out)
	}
}

func sendSession(t *testing.T, p *harness.Process) {
	t.Helper()
	sendChat(t, p, "ci-42", `{"model":"m","messages":[{"role":"user","content":"Run the build script."}]}`)
}

func sendChat(t *testing.T, p *harness.Process, session, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.DataURL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Precept-Session", session)
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
}

func (d *docEnv) addSampleToRedis(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	p := harness.Launch(t, dir, nil, "--upstream", harness.InstantModel(t).URL+"/v1", "--store-url", "redis://:documents@"+d.redis+"/0", "--reward-close-after", "1s").WaitUntilReady(dir)
	sendSession(t, p)
	p.Eventually("a sample in Redis", func() bool {
		out, err := exec.CommandContext(t.Context(), "redis-cli", "-p", portOf(t, d.redis), "-a", "documents", "--no-auth-warning", "--scan", "--pattern", "precept:{*}:f942583df4eeb46b:samples").Output()
		return err == nil && strings.Count(string(out), "\n") == 1
	})
}

func addPreventedPhrase(t *testing.T, file, phrase string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	edited := strings.Replace(string(text), "outcome: success\n", "outcome: success\nmetadata:\n  precept:\n    prevents: [\""+phrase+"\"]\n", 1)
	if err := os.WriteFile(file, []byte(edited), 0o600); err != nil {
		t.Fatal(err)
	}
}
