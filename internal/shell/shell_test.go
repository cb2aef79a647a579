package shell_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"precept/internal/shell"
)

func ExampleParse() {
	line := shell.Parse(`cd api && CGO_ENABLED=0 go test "./..." 2>&1 | tail -5`)
	for _, c := range line.Commands {
		fmt.Printf("%q %q %q\n", c.Operator, c.EnvNames, c.Words)
	}
	fmt.Println("writes a file:", line.Writes)
	// Output:
	// "" [] ["cd" "api"]
	// "&&" ["CGO_ENABLED"] ["go" "test" "./..."]
	// "|" [] ["tail" "-5"]
	// writes a file: false
}

func commandWords(text string) string {
	var out []string
	for _, c := range shell.Parse(text).Commands {
		out = append(out, strings.Join(c.Words, " "))
	}
	return strings.Join(out, " | ")
}

func TestParseReadsBashGrammar(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"# look first\nls -la # all of it", "ls -la"},
		{"cat <<'EOF' | wc -l && make\nrm -rf /\nEOF\nls", "cat | wc -l | make | ls"},
		{"echo $(make gen) `date`", "echo $(make gen) `date` | make gen | date"},
		{"diff <(sort a) <(sort b)", "diff <(sort a) <(sort b) | sort a | sort b"},
		{`sed -n "s/\"a|b\"/c;d/p" 'x && y'`, `sed -n s/"a|b"/c;d/p x && y`},
		{"for f in *.go; do gofmt -l \"$f\"; done", "gofmt -l $f"},
		{"if [[ -f a ]]; then cat a; elif test -d b; then ls b; else echo; fi", "[[ | cat a | test -d b | ls b | echo"},
		{"case $x in a) ls;; *) pwd;; esac", "ls | pwd"},
		{"while read l; do echo $l; done < a", "read l | echo $l"},
		{"f() { make; }; ! time f", "make | f"},
		{"(cd a; { ls; })", "cd a | ls"},
		{"export A=b C=d", "export A=b C=d"},
		{`bash -lc "cd a && npm test"`, "cd a | npm test"},
		{`sh -c "bash -c 'make -j2'"`, "make -j2"},
		{"A=1 B=2", ""},
		{`.\build.ps1 C:\temp a\ b`, `.\build.ps1 C:\temp a b`},
		{"a \\\n  --b", "a --b"},
		{"a\r\nb", "a | b"},
		{"", ""},
	} {
		if got, parsed := commandWords(tc.text), shell.Parse(tc.text).Parsed; got != tc.want || !parsed {
			t.Errorf("Parse(%q): got commands %q, Parsed = %v, want %q, true", tc.text, got, parsed, tc.want)
		}
	}
}

func TestParseReturnsOperatorBeforeEachCommand(t *testing.T) {
	var got []string
	for _, c := range shell.Parse("a | b |& c && d || e; f & g\nh $(i | j) && (k; l)").Commands {
		if !c.InSubstitution {
			got = append(got, c.Words[0]+c.Operator)
		}
	}
	if want := []string{"a", "b|", "c|", "d&&", "e||", "f;", "g;", "h;", "k&&", "l;"}; !slices.Equal(got, want) {
		t.Errorf("got commands and operators %q, want %q", got, want)
	}
}

func TestParseReportsRedirectionsToFiles(t *testing.T) {
	for text, want := range map[string]bool{
		"a > b": true, "a >> b": true, "a &> b": true, "a >& b": true, "a >| b": true, "a 2> b": true, "a <> b": true,
		"x=$(a > b)": true, "bash -c 'a > b'": true,
		"a 2>&1": false, "a >&2": false, "a >/dev/null 2>&1": false, "a > /dev/stderr": false, "a < b": false, "a '> b'": false, `a \> b`: false,
		"a <<< b": false, "a <<E\n> b\nE": false,
	} {
		if got := shell.Parse(text).Writes; got != want {
			t.Errorf("Parse(%q): got Writes = %v, want %v", text, got, want)
		}
	}
}

func TestParseSplitsInvalidBash(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"(Get-Content a.txt)[0] | Select-String 'b;c' && make", "Get-Content a.txt)[0] | Select-String b;c | make"},
		{"fi; make", "fi | make"},
		{"cat > a <<EOF\nrm -rf /", "cat > a"},
		{"make \"cut", "make cut"},
	} {
		if got, parsed := commandWords(tc.text), shell.Parse(tc.text).Parsed; got != tc.want || parsed {
			t.Errorf("Parse(%q): got commands %q, Parsed = %v, want %q, false", tc.text, got, parsed, tc.want)
		}
	}
}

// The Bash parser recurses at each bracket and keyword, so a megabyte of brackets could overflow the stack.
func TestParseOfHugeTextIsFast(t *testing.T) {
	for _, unit := range []string{
		"(", "((", "$(", "$((", "`", "\"$(", "{ ", "if ", "[[ (", "a[$((", "${a:-", "<(", "!(", "a <<E\n", "f() ", "case x in (",
		"time ", "! ", "a|", "$((1+", "((a=", "a=(", "\\`", "while ", "${a[", "$((a?", "coproc ", "function f ", "a&&", "<<<", "$'", "sh -c '",
	} {
		start := time.Now()
		shell.Parse(strings.Repeat(unit, 1_000_000))
		if elapsed := time.Since(start); elapsed > time.Second {
			t.Errorf("Parse(a million %q) took %v, want at most 1 s", unit, elapsed)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"cd a && go test ./... 2>&1 | tail -5", "cat <<'EOF' > a\nb\nEOF\nls", "echo \"$(a `b` ${c:-$(d)})\"", "for f in *; do x; done", "bash -c \"sh -c 'a'\"",
		"((((", "[[ a =~ (b|c) ]]", "a &>> b; coproc c { d; }", "$'\\x41' \\\n \xff", "let a=1 b[$((c))]=2", "{a,b}{1..3} @(c|d)",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		line := shell.Parse(text)
		for _, c := range line.Commands {
			if len(c.Words) == 0 {
				t.Errorf("Parse(%q): got a command without words", text)
			}
			if c.InSubstitution && c.Operator != "" {
				t.Errorf("Parse(%q): inner command %q: got Operator = %q, want none", text, c.Words, c.Operator)
			}
		}
		if len(line.Commands) > len(text) {
			t.Errorf("Parse(%q): got %d commands, want at most one per byte", text, len(line.Commands))
		}
	})
}

// Bash cannot quote a NUL byte, so Quote leaves a word with a NUL byte unchanged.
func TestQuote(t *testing.T) {
	for _, tc := range []struct {
		words []string
		want  string
	}{
		{[]string{"make", "test"}, "make test"},
		{[]string{"sh", "-c", "echo hi; exit 7"}, "sh -c 'echo hi; exit 7'"},
		{[]string{"a\x00b"}, "a\x00b"},
	} {
		if got := shell.Quote(tc.words...); got != tc.want {
			t.Errorf("Quote(%q) = %q, want %q", tc.words, got, tc.want)
		}
	}
}
