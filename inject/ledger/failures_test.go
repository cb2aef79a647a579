package ledger_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reviewdog/errorformat/fmts"

	"precept/inject/ledger"
)

func ExampleFailures() {
	for _, f := range ledger.Failures(ledger.Output{
		Dir:  "/home/dev/shop",
		Text: "cart.go:15:28: Error return value is not checked (errcheck)\nFAILED cart_test.py::test_total - assert 3 == 4\n",
	}) {
		fmt.Printf("%s, %s: %s\n", f.Tool, f.File, f.Error)
	}
	// Output:
	// golangci-lint, cart.go: Error return value is not checked (errcheck)
	// pytest, cart_test.py: test_total: assert 3 == 4
}

// Each .want file has the failures expected for one output in testdata/outputs. Set PRECEPT_GOLDEN to write the .want
// files.
func TestFailuresGolden(t *testing.T) {
	outputs, err := filepath.Glob("testdata/outputs/*.txt")
	if err != nil || len(outputs) < 25 {
		t.Fatalf("got %d output files, err = %v, want at least 25", len(outputs), err)
	}
	for _, file := range outputs {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for _, f := range ledger.Failures(ledger.Output{Text: string(text), Dir: "/home/dev/shop", Module: "example.com/shop"}) {
				fmt.Fprintf(&got, "%s | %s | %s | %s\n", f.Tool, f.Type, f.File, f.Error)
			}
			golden := strings.TrimSuffix(file, ".txt") + ".want"
			if os.Getenv("PRECEPT_GOLDEN") != "" {
				if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got.String() != string(want) {
				t.Fatalf("failures =\n%s\nwant\n%s", got.String(), want)
			}
		})
	}
}

func TestSuccessfulOutputHasNoFailures(t *testing.T) {
	for _, text := range []string{
		"",
		"ok  \texample.com/shop/shop\t0.005s\n",
		"=== RUN   TestTotal\n    cart_test.go:12: a note\n--- PASS: TestTotal (0.00s)\nok  \tx\t0.1s\n",
		`{"Action":"output","Package":"x","Test":"TestA","Output":"    a_test.go:3: a note\n"}` + "\n" + `{"Action":"pass","Package":"x","Test":"TestA"}`,
		"All checks passed!\n",
		"Success: no issues found in 3 source files\n",
		"==== 5 passed in 0.02s ====\n",
		"store.py:8: note: Revealed type is \"int\"\n",
		"main.go:12 started\n2026/01/01 10:00:00 main.go:12: listening\n",
		"test result: ok. 3 passed; 0 failed\nwarning: unused variable: `x`\n --> src/lib.rs:1:5\n",
		"    see src/a.go:3:4: for an example\n",
	} {
		if got := ledger.Failures(ledger.Output{Text: text, Dir: "/home/dev/shop"}); len(got) != 0 {
			t.Errorf("%q: failures = %+v, want none", text, got)
		}
	}
}

func TestFailuresIgnoreLineNumbersAndAddresses(t *testing.T) {
	first := ledger.Failures(ledger.Output{Text: "store.py:8:1: F401 `os` imported but unused\nE: at 0x7f32a38ff710\n"})
	second := ledger.Failures(ledger.Output{Text: "store.py:80:7: F401 `os` imported but unused\n"})
	if len(first) != 1 || len(second) != 1 || first[0] != second[0] {
		t.Fatalf("different line numbers: failures = %+v and %+v, want one failure in each output, and equal failures", first, second)
	}
	a := ledger.Failures(ledger.Output{Text: "a.go:8:1: bad pointer 0xc000012345 (vet)\n"})
	b := ledger.Failures(ledger.Output{Text: "a.go:8:1: bad pointer 0xc000099999 (vet)\n"})
	if len(a) != 1 || len(b) != 1 || a[0] != b[0] {
		t.Fatalf("different addresses: failures = %+v and %+v, want one failure in each output, and equal failures", a, b)
	}
}

func FuzzFailures(f *testing.F) {
	outputs, err := filepath.Glob("testdata/outputs/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range outputs {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, failure := range ledger.Failures(ledger.Output{Text: text, Dir: "/home/dev/shop", Module: "m"}) {
			if failure.File == "" || failure.Error == "" || failure.Tool == "" || strings.ContainsAny(failure.Error, "\n\r\x1b") {
				t.Fatalf("failure = %+v, want a file, a tool, and a single-line error without escape characters", failure)
			}
		}
	})
}

func TestCommandNameDecidesUnknownOutputFormat(t *testing.T) {
	for _, tc := range []struct{ command, text, want string }{
		{
			"bundle exec rubocop", "Inspecting 2 files\nCC\n\nlib/cart.rb:4:1: C: Layout/EmptyLines: Extra blank line detected.\n\n^\nlib/cart.rb:9:81: C: Layout/LineLength: Line is too long. [83/80]\n",
			"rubocop lint lib/cart.rb Layout/EmptyLines: Extra blank line detected.|rubocop lint lib/cart.rb Layout/LineLength: Line is too long. [83/80]",
		},
		{
			"dotnet build", "Api.cs(75,27): warning CS0649: Field 'a' is never assigned [/home/dev/shop/Shop.csproj]\nApi.cs(9,13): error CS0103: The name 'cart' does not exist [/home/dev/shop/Shop.csproj]\n",
			"dotnet static-analysis Api.cs error CS0103: The name 'cart' does not exist [/home/dev/shop/Shop.csproj]",
		},
		{"vendor/bin/phpstan.phar analyse --error-format raw", "/home/dev/shop/src/Cart.php:63:Undefined property Cart::$id.\n", "phpstan static-analysis src/Cart.php Undefined property Cart::$id."},
		{"npx stylelint a.css", "\na.css\n  46:3   ✖  Unexpected unit  length-zero-no-unit\n\n", "stylelint lint a.css Unexpected unit length-zero-no-unit"},
		{
			"yamllint -f parsable .", "a.yml:1:1: [warning] missing document start (document-start)\na.yml:2:81: [error] line too long (line-length)\n",
			"yamllint lint a.yml [error] line too long (line-length)",
		},
		{"yamllint .", "a.yml:1:1: [warning] missing document start (document-start)\n", "yamllint lint a.yml [warning] missing document start (document-start)"},
		{"buf lint", strings.Repeat("x", 1<<17) + "\npet.proto:42:10:Field name \"petID\" should be lower_snake_case.\n", "buf lint pet.proto Field name \"petID\" should be lower_snake_case."},
		{"make lint", "lib/cart.rb:4:1: C: Layout/EmptyLines: Extra blank line detected.\n", ""},
		{"mypy .", "a.py:3: error: Bad type  [assignment]\n", "mypy static-analysis a.py Bad type [assignment]"},
	} {
		var got []string
		for _, f := range ledger.Failures(ledger.Output{Text: tc.text, Command: strings.Fields(tc.command), Dir: "/home/dev/shop"}) {
			got = append(got, strings.Join([]string{f.Tool, f.Type, f.File, f.Error}, " "))
		}
		if joined := strings.Join(got, "|"); joined != tc.want {
			t.Errorf("%s: failures = %q, want %q", tc.command, joined, tc.want)
		}
	}
}

// Failures must not panic on any output, because otherwise precept verify would not return the command's exit status.
func FuzzFormats(f *testing.F) {
	for _, text := range []string{
		"a.rb:4:1: C: Extra blank line.\n^\n", "\na.css\n  46:3   ✖  Unexpected unit\n\n", "[error] a.scala:6: b\n[error]   ^\n", "a.py:1 at module level:\n        D100: c\n",
		"a.yml:99999999999999999999999:1: [error] x\n", "ERROR: a.py Imports\n", "error: `x` should be `y`\n  --> a.go:1:1\n",
	} {
		for name := range fmts.DefinedFmts() {
			f.Add(name, text)
		}
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		for _, failure := range ledger.Failures(ledger.Output{Text: text, Command: []string{name}}) {
			if failure.File == "" || failure.Error == "" {
				t.Errorf("%s: output %q: failure = %+v, want a file and an error", name, text, failure)
			}
		}
	})
}
