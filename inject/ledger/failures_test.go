package ledger_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

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

// The outputs are what the tools themselves printed, at their usual settings and some others;
// PRECEPT_GOLDEN=1 writes what is read in them now, to be read by a person.
func TestFailures(t *testing.T) {
	outputs, err := filepath.Glob("testdata/outputs/*.txt")
	if err != nil || len(outputs) < 25 {
		t.Fatal(len(outputs), err)
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
				t.Fatalf("got\n%s\nwant\n%s", got.String(), want)
			}
		})
	}
}

// What succeeds, and what merely mentions errors, is no failure.
func TestNoFailures(t *testing.T) {
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
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// The same failure in two runs is the same: neither lines nor addresses are in it.
func TestFailuresAreStable(t *testing.T) {
	one := ledger.Failures(ledger.Output{Text: "store.py:8:1: F401 `os` imported but unused\nE: at 0x7f32a38ff710\n"})
	two := ledger.Failures(ledger.Output{Text: "store.py:80:7: F401 `os` imported but unused\n"})
	if len(one) != 1 || len(two) != 1 || one[0] != two[0] {
		t.Fatal(one, two)
	}
	a := ledger.Failures(ledger.Output{Text: "a.go:8:1: bad pointer 0xc000012345 (vet)\n"})
	b := ledger.Failures(ledger.Output{Text: "a.go:8:1: bad pointer 0xc000099999 (vet)\n"})
	if len(a) != 1 || len(b) != 1 || a[0] != b[0] {
		t.Fatal(a, b)
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
		for _, x := range ledger.Failures(ledger.Output{Text: text, Dir: "/home/dev/shop", Module: "m"}) {
			if x.File == "" || x.Error == "" || x.Tool == "" || strings.ContainsAny(x.Error, "\n\r\x1b") {
				t.Fatalf("%+v", x)
			}
		}
	})
}
