package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// recordInto runs precept record on a ledger.
func recordInto(t *testing.T, file, what, rule string) {
	t.Helper()
	bin, err := program()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), bin, "record", "--ledger-file", file, "--intent-id", "INT-1", "--type", "test", "--file", what,
		"--error", "the sum is wrong", "--cause", "off by one", "--resolution", "fixed", "--rule", rule).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// reached asks until the model sees a word, or the time is over.
func reached(t *testing.T, p *running, m *model, agent, about, word string) bool {
	t.Helper()
	header := http.Header{"Precept-Agent": {agent}}
	for deadline := time.Now().Add(6 * time.Second); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		post(t, p.Data+"/v1/chat/completions", header, `{"model":"m","messages":[{"role":"user","content":"Please mend `+about+` today."}]}`)
		m.mu.Lock()
		raw := m.asked[len(m.asked)-1].raw
		m.mu.Unlock()
		if strings.Contains(raw, word) {
			return true
		}
	}
	return false
}

// What an agent recorded reaches that agent alone where it trusts itself, and otherwise nobody before it is approved.
func TestLedgerIsASourceOfLessons(t *testing.T) {
	m := newModel(t, []step{{Text: "Done."}})
	for _, trust := range []string{"own", "quarantined"} {
		dir, lessons := t.TempDir(), t.TempDir()
		file := filepath.Join(dir, "AGENT.md")
		recordInto(t, file, "src/cart.go", "Test the empty cart.")
		p := start(t, dir, append(always(m, lessons), "--ledger-file", file, "--ledger-agent", "coder", "--ledger-trust", trust)...)
		if got := reached(t, p, m, "coder", "src/cart.go", "Test the empty cart."); got != (trust == "own") {
			t.Fatalf("%s: the agent's own lesson reached it: %v\n%s", trust, got, p.log)
		}
		recordInto(t, file, "src/shop.go", "Close the shop first.") // the file is watched
		if trust == "own" {
			if !reached(t, p, m, "coder", "src/shop.go", "Close the shop first.") {
				t.Fatalf("what was recorded later did not reach its agent\n%s", p.log)
			}
			if reached(t, p, m, "other", "src/shop.go", "Close the shop first.") {
				t.Fatal("another agent got it")
			}
			continue
		}
		slug := ""
		for deadline := time.Now().Add(5 * time.Second); slug == "" && time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
			files, _ := filepath.Glob(filepath.Join(lessons, "ledger", "close-the-shop-first-*.md"))
			for _, f := range files {
				slug = strings.TrimSuffix(filepath.Base(f), ".md")
			}
		}
		bin, _ := program()
		if out, err := exec.CommandContext(t.Context(), bin, "lessons", "approve", slug, "--lessons", lessons).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if !reached(t, p, m, "coder", "src/shop.go", "Close the shop first.") {
			t.Fatalf("what was approved did not reach its agent\n%s", p.log)
		}
		b, err := os.ReadFile(file)
		if err != nil || strings.Count(string(b), "**Corrective Rule:**") != 2 {
			t.Fatal("the ledger was touched", err)
		}
	}
}
