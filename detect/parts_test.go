package detect

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestAnalyseShell(t *testing.T) {
	for _, tc := range []struct {
		cmd  string
		want string // properties: "read-only", "masked" (a pipe or list hides the exit code), "waits"
	}{
		{"ls -la", "read-only"},
		{"cat a | grep x | wc -l", "read-only masked"},
		{"cd /srv && git status --short", "read-only"},
		{"git -C /srv log -3", "read-only"},
		{"git checkout main", ""},
		{"find . -name '*.go'", "read-only"},
		{"find . -name '*.o' -delete", ""},
		{"sed -n 1,9p a", "read-only"},
		{"sed -i s/a/b/ a", ""},
		{"echo hi > a", ""},
		{"echo '> a'", "read-only"},
		{"ls 2>/dev/null", "read-only"},
		{"ls 2>&1", "read-only"},
		{"make 2>&1 | tail -3", "masked"},
		{"set -o pipefail; make | tail -3", ""},
		{"make || true", "masked"},
		{"make; echo $?", "masked"},
		{"make\necho $?", "masked"},
		{"make && x=$(date; true)", ""},
		{"(Get-Content a)[0]", ""},
		{"sleep 5; cat state", "read-only waits"},
		{"FOO=1 BAR='a b' npm test", ""},
		{"sudo apt-get install x", ""},
		{"timeout 30 go test ./...", ""},
		{"cat <<EOF > a\nrm -rf /\nEOF", ""},
		{"(cd a && ls)", "read-only"},
		{"/usr/bin/grep x a", "read-only"},
		{"node --version", "read-only"},
		{"node app.js", ""},
		{"", ""},
	} {
		shell := compiledPhrases().analyseShell(tc.cmd)
		var properties []string
		if shell.readOnly {
			properties = append(properties, "read-only")
		}
		if shell.statusMasked {
			properties = append(properties, "masked")
		}
		if shell.waits {
			properties = append(properties, "waits")
		}
		if got := strings.Join(properties, " "); got != tc.want {
			t.Errorf("analyseShell(%q) = %q, want %q", tc.cmd, got, tc.want)
		}
	}
}

// A list under the "commands" key holds several commands. A list under any other key holds the words of one command.
func TestListedCommandsAreSeparate(t *testing.T) {
	for args, want := range map[string]string{
		`{"commands":["cd x","make test"]}`:             "cd x\nmake test",
		`{"timeout":5,"commands":["cd x","make test"]}`: "cd x\nmake test",
		`{"a":1,"Commands":[{"cmd":"ls"},{"cmd":"w"}]}`: "ls\nw",
		`{"commands_file":"a","command":["ls","-l"]}`:   "ls -l",
		`{"commands":[],"command":["ls","-l"]}`:         "ls -l",
	} {
		if c := compiledPhrases().analyseCall("run_commands", args); c.command != want {
			t.Errorf("%s: command = %q, want %q", args, c.command, want)
		}
	}
}

func TestCallPurposeFollowsNameAndArguments(t *testing.T) {
	for _, tc := range []struct {
		tool, args string
		want       purpose
	}{
		{"Bash", `{"command":"make"}`, purposeExec},
		{"exec_command", `{"cmd":"make"}`, purposeExec},
		{"run_shell_command", `{"command":"x"}`, purposeExec},
		{"run_commands", `{"commands":["x"]}`, purposeExec},
		{"run_code", `{"code":"x"}`, purposeExec},
		{"run_terminal_cmd", `{"command":"x"}`, purposeExec},
		{"mcp__sh__execute_command", `{"command":"x"}`, purposeExec},
		{"shell", `{"command":["bash","-lc","x"]}`, purposeExec},
		{"Read", `{"file_path":"a"}`, purposeRead},
		{"read_file", `{"path":"a"}`, purposeRead},
		{"list_dir", `{"path":"a"}`, purposeRead},
		{"mcp__fs__read_text_file", `{"path":"a"}`, purposeRead},
		{"str_replace_editor", `{"command":"view","path":"a"}`, purposeRead},
		{"str_replace_editor", `{"command":"str_replace","path":"a"}`, purposeEdit},
		{"Edit", `{"file_path":"a"}`, purposeEdit},
		{"write_file", `{"path":"a"}`, purposeEdit},
		{"apply_patch", "*** Begin", purposeEdit},
		{"MultiEdit", `{"file_path":"a"}`, purposeEdit},
		{"Grep", `{"pattern":"a"}`, purposeSearch},
		{"Glob", `{"pattern":"a"}`, purposeSearch},
		{"search_files", `{"path":"a","regex":"b"}`, purposeSearch},
		{"WebFetch", `{"url":"a"}`, purposeWeb},
		{"browser_click", `{}`, purposeWeb},
		{"TodoWrite", `{}`, purposePlan},
		{"update_plan", `{}`, purposePlan},
		{"think", `{}`, purposePlan},
		{"write_stdin", `{"session_id":1}`, purposeWait},
		{"BashOutput", `{}`, purposeWait},
		{"bash", `{"command":"sleep 9"}`, purposeWait},
		{"get_order_details", `{"order_id":"1"}`, purposeOther},
		{"search_flights", `{"from":"a"}`, purposeOther},
		{"update_order", `{"order_id":"1"}`, purposeOther},
		{"", ``, purposeOther},
	} {
		if got := compiledPhrases().analyseCall(tc.tool, tc.args); got.purpose != tc.want {
			t.Errorf("%s %s: got purpose %d, want %d", tc.tool, tc.args, got.purpose, tc.want)
		}
	}
}

func TestParseLenientReadsBrokenJSON(t *testing.T) {
	for _, tc := range []struct {
		in string
		ok bool
	}{
		{`{"a":1}`, true},
		{`{'a': None, 'b': (1, 2), 'c': True}`, true},
		{`[1,2`, true},
		{`{"a":"cut`, true},
		{`{"a": {"b": ...`, true},
		{`[]`, true},
		{`{"a":1} and more`, false},
		{`[tag] text`, false},
		{`{broken json}`, false},
		{`hello`, false},
		{``, false},
		{strings.Repeat("[", 1<<20), false},
	} {
		if _, ok := parseLenient(tc.in); ok != tc.ok {
			t.Errorf("parseLenient(%.40q): ok = %v, want %v", tc.in, ok, tc.ok)
		}
	}
	v, _ := parseLenient(`{'msg': "it\'s \u00e9\x41\n \ud83d\ude00 \ud83d \/ \q\u12", "n": -1.5e3, 'deep': [[[[[[[[1]]]]]]]]}`)
	const want = "it's éA\n 😀 \ufffd / qu12"
	if s, _ := v.get("MSG"); s.text() != want {
		t.Errorf("key MSG: text = %q, want %q", s.text(), want)
	}
	if n, _ := v.get("n"); n.num != -1500 {
		t.Errorf("key n: num = %v, want -1500", n.num)
	}
}

func TestParseLenientReadsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.MapOf(rapid.StringMatching(`[a-z]{1,8}`), rapid.String()).Draw(t, "m")
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		v, ok := parseLenient(string(b))
		if !ok || len(v.keys) != len(m) {
			t.Fatalf("parseLenient(%s): ok = %v, %d keys, want true, %d keys", b, ok, len(v.keys), len(m))
		}
		for k, want := range m {
			got, has := v.get(k)
			if !has || got.text() != strings.ToValidUTF8(want, "\ufffd") {
				t.Fatalf("parseLenient(%s): key %q: found = %v, value %q, want true, %q", b, k, has, got.text(), want)
			}
		}
	})
}

func FuzzParseLenient(f *testing.F) {
	for _, s := range []string{`{"a":[1,{"b":'c'}]}`, `{'a': ...`, `[[[[`, `{"\u00`, `("a",)`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, ok := parseLenient(s)
		if ok && v.kind != objectValue && v.kind != arrayValue {
			t.Fatalf("parseLenient(%q): kind = %d, want an object or an array", s, v.kind)
		}
		_ = v.text()
	})
}

func TestHeadline(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{
			"traceback",
			"Exit code 1\nstarting\nTraceback (most recent call last):\n  File \"/a.py\", line 3, in <module>\n    f()\nshop.cart.EmptyCart: nothing to sum\n",
			"shop.cart.EmptyCart: nothing to sum",
		},
		{
			"json", `{"stdout":"","stderr":"fatal: not a git repository\n","exit_code":128}`,
			"fatal: not a git repository",
		},
		{
			"nested", `{"error":"","response":"{'message': 'genre must be a number'}"}`,
			"genre must be a number",
		},
		{
			"compiler",
			"# shop\n\x1b[31m./cart.go:9:2: undefined: total\x1b[0m\n./cart.go:12:2: undefined: total\n",
			"./cart.go:9:2: undefined: total\n./cart.go:12:2: undefined: total",
		},
		{"repeats", "npm error code 1\nnpm error code 1\nnpm error code 1", "npm error code 1"},
		{
			"error line and exit status", "main.go:9:2: something new\nexit status 1",
			"main.go:9:2: something new\nexit status 1",
		},
		{
			"exit status without an error line", "must provide a title\n\nUsage: gh pr create\nexit status 1",
			"must provide a title\nUsage: gh pr create\nexit status 1",
		},
		{
			"gradle",
			"FAILURE: Build failed with an exception.\n\n* What went wrong:\nCould not resolve all files.\n   > It needs Java 11.\n\n* Try:\n> Run with --info\n\nBUILD FAILED in 1s",
			"FAILURE: Build failed with an exception.\nCould not resolve all files.\n> It needs Java 11.\nBUILD FAILED in 1s",
		},
		{
			"terraform",
			"╷\n│ Error: Inconsistent dependency lock file\n│ \n│ run: terraform init\n╵",
			"Error: Inconsistent dependency lock file",
		},
		{"no error line: the first two lines and the last four", "a\nb\nc\nd\ne\nf\ng\nh", "a\nb\ne\nf\ng\nh"},
		{
			"frame",
			"Chunk ID: 1a\nWall time: 0.1 seconds\nProcess exited with code 3\nOutput:\nerror: no rule to make demo\n",
			"error: no rule to make demo",
		},
		{"empty", "", ""},
	} {
		if got := Headline(tc.text); got != tc.want {
			t.Errorf("%s: Headline = %q, want %q", tc.name, got, tc.want)
		}
	}
}

// The signature of a short result has all lines except stack frames. The signature of a long result is the headline,
// which has the few lines that describe the failure.
func TestSignature(t *testing.T) {
	long := strings.Repeat("building\ndone\n", 4)
	for _, tc := range []struct{ name, text, want string }{
		{
			"short",
			"Author identity unknown\n\n*** Please tell me who you are.\n\nfatal: no address",
			"Author identity unknown\n*** Please tell me who you are.\nfatal: no address",
		},
		{
			"long",
			long + strings.Repeat("a line of it\n", 9) + "*** Please tell me who you are.\nfatal: no address",
			"fatal: no address",
		},
		{
			"many lines", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\nm\nfatal: no address",
			"fatal: no address",
		},
		{"few long lines", strings.Repeat("x", 1100) + "\nfatal: no address", "fatal: no address"},
		{
			"traceback",
			"starting\nTraceback (most recent call last):\n  File \"/a.py\", line 3, in <module>\n    f()\nshop.cart.EmptyCart: nothing to sum\n",
			"starting\nTraceback (most recent call last):\nshop.cart.EmptyCart: nothing to sum",
		},
	} {
		if got := Signature(tc.text); got != tc.want {
			t.Errorf("%s: Signature = %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestSignatureSizeIsLimited(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Repeat(rapid.StringN(0, 400, 800).Draw(t, "line")+"\nError: é"+rapid.StringN(0, 50, -1).Draw(t, "e")+"\n", rapid.IntRange(1, 30).Draw(t, "n"))
		s := Signature(text)
		if len(s) > maxSignature || strings.Count(s, "\n") >= maxSignatureLines {
			t.Fatalf("signature: got %d bytes in %d lines, want at most %d bytes in %d lines", len(s), strings.Count(s, "\n")+1, maxSignature, maxSignatureLines)
		}
		if utf8.ValidString(text) && !utf8.ValidString(s) {
			t.Fatalf("signature = %q, want valid UTF-8 as in the text", s)
		}
	})
}

// The search in a user text skips a phrase if one of the phrase's byte triples is missing from the text.
func TestUserTextFilterDoesNotChangeTheResult(t *testing.T) {
	words := []string{"it", "it's", "works", "doesn't", "wrong", "ty", "k", "но", "да", "不对", "que", "\xff", "", "still", "fails"}
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(words), rapid.String()), 0, 40)
		text := strings.Join(list.Draw(t, "text"), rapid.SampledFrom([]string{" ", ""}).Draw(t, "between"))
		p := strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 1, 3).Draw(t, "phrase"), " ")
		if len(text) > 0 && rapid.Bool().Draw(t, "from the text") {
			from := rapid.IntRange(0, len(text)-1).Draw(t, "from")
			p = text[from:min(len(text), from+rapid.IntRange(1, 12).Draw(t, "length"))]
		}
		if p == "" { // the lists have no empty phrase
			p = "it"
		}
		s := newUserText(text)
		if got := s.hasPhrase("not in any text", p); got != hasPhrase(text, p) {
			t.Errorf("hasPhrase(%q) in %q = %v, want %v", p, text, got, hasPhrase(text, p))
		}
		if got, want := s.containsAny("not in any text", p), strings.Contains(text, p); got != want {
			t.Errorf("containsAny(%q) in %q = %v, want %v", p, text, got, want)
		}
	})
}

func TestMayContainSkipsAbsentPhrases(t *testing.T) {
	s := newUserText("please open the file and read what stands in it")
	for _, p := range []string{"doesn't work", "looks good", "instead", "谢谢"} {
		if s.mayContain(p) {
			t.Errorf("mayContain(%q) = true, want false, because the text lacks byte triples of the phrase", p)
		}
	}
}
