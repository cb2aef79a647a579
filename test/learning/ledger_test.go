package learning

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"precept/inject/bank"
	"precept/inject/ledger"
	"precept/inject/lesson"
	"precept/test/harness"
)

func runRecordCommand(t *testing.T, ledgerFile, sourceFile, rule string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "precept", "record", "--ledger-file", ledgerFile, "--intent-id", "INT-1", "--type", "test", "--file", sourceFile,
		"--error", "the sum is wrong", "--cause", "off by one", "--resolution", "fixed", "--rule", rule).CombinedOutput()
	if err != nil {
		t.Fatalf("precept record: %v\n%s", err, out)
	}
}

// requestContains sends a message about file, and reports whether the request that the model receives contains
// lessonText.
func requestContains(t *testing.T, p *harness.Process, m *harness.Model, agent, file, lessonText string) bool {
	t.Helper()
	harness.Post(t, p.DataURL+"/v1/chat/completions", http.Header{"Precept-Agent": {agent}},
		`{"model":"m","messages":[{"role":"user","content":"Please mend `+file+` today."}]}`)
	m.Mu.Lock()
	defer m.Mu.Unlock()
	return strings.Contains(m.Requests[len(m.Requests)-1].Raw, lessonText)
}

// A ledger is a file AGENT.md in which a project records failures. precept makes lessons from the ledger.
func TestLedgerLessonsNeedApprovalOrTrust(t *testing.T) {
	m := harness.NewModel(t, []harness.Step{{Text: "Done."}})
	for _, trust := range []string{"own", "quarantined"} {
		dir, lessons := t.TempDir(), t.TempDir()
		file := filepath.Join(dir, "AGENT.md")
		runRecordCommand(t, file, "src/cart.go", "Test the empty cart.")
		p := harness.Start(t, dir, append(harness.AlwaysInject(m, lessons), "--ledger-file", file, "--ledger-agent", "coder", "--ledger-trust", trust)...)
		waitForProposal := func(pattern string) (slug string) {
			harness.Eventually(t, "the proposal "+pattern, func() bool {
				files, _ := filepath.Glob(filepath.Join(lessons, "ledger", pattern))
				for _, f := range files {
					slug = strings.TrimSuffix(filepath.Base(f), ".md")
				}
				return slug != ""
			})
			return slug
		}
		cartLessonSent := func() bool { return requestContains(t, p, m, "coder", "src/cart.go", "Test the empty cart.") }
		shopLessonSent := func() bool { return requestContains(t, p, m, "coder", "src/shop.go", "Close the shop first.") }
		if trust == "own" {
			harness.Eventually(t, "the agent's own lesson in a request", cartLessonSent)
		} else if waitForProposal("test-the-empty-cart-*.md"); cartLessonSent() {
			t.Fatal("request before the approval: got the lesson, want no lesson")
		}
		runRecordCommand(t, file, "src/shop.go", "Close the shop first.") // the running server must notice that the file has changed
		if trust == "own" {
			harness.Eventually(t, "the lesson recorded later", shopLessonSent)
			if requestContains(t, p, m, "other", "src/shop.go", "Close the shop first.") {
				t.Fatal("request from a different agent: got the lesson, want no lesson")
			}
			continue
		}
		slug := waitForProposal("close-the-shop-first-*.md")
		if out, err := exec.CommandContext(t.Context(), "precept", "lessons", "approve", slug, "--lessons", lessons).CombinedOutput(); err != nil {
			t.Fatalf("precept lessons approve %s: %v\n%s", slug, err, out)
		}
		harness.Eventually(t, "the approved lesson in a request", shopLessonSent)
		b, err := os.ReadFile(file)
		if err != nil || strings.Count(string(b), "**Corrective Rule:**") != 2 {
			t.Fatalf("ledger after the approval: got error %v, text\n%s\nwant 2 rules", err, b)
		}
	}
}

func TestProposeActivatesTrustedLedgerLessons(t *testing.T) {
	l := &ledger.Ledger{Path: filepath.Join(t.TempDir(), "AGENT.md"), Now: time.Now}
	for n := range 20 {
		_, _, err := l.Record(t.Context(), ledger.Entry{
			IntentID: "I", Type: ledger.TypeTest, File: fmt.Sprintf("src/part%d/cart.go", n), Error: fmt.Sprintf("Type 'x%d' is not assignable to anything", n),
			Cause: "A typo.", Resolution: "Fixed.", Rule: "Test the empty list.",
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(l.Path)
	if err != nil {
		t.Fatal(err)
	}
	b := bank.New(bank.Options{Storage: bank.Directory(t.TempDir()), Now: time.Now})
	scope := lesson.Scope{Tenant: "default", Agent: "coder"}
	for _, trusted := range []bool{false, true} {
		for i, proposed := range ledger.Lessons(text) {
			if i%2 == 0 == trusted { // the lessons with odd numbers are trusted
				continue
			}
			r, err := b.Propose(context.Background(), bank.Proposal{Lesson: proposed, Source: "ledger", By: "test", Scope: scope, ActivateNow: trusted})
			if err != nil || r.Lesson.State.IsActive() != trusted {
				t.Fatalf("Propose with ActivateNow = %v: got error %v, state %q, findings %+v, want State.IsActive() = %v", trusted, err, r.Lesson.State, r.Findings, trusted)
			}
		}
	}
	book, problems, err := b.List(context.Background())
	if err != nil || len(problems) != 0 || book.Len() != 20 {
		t.Fatalf("List: got %d lessons, problems %+v, error %v, want 20 lessons without a problem", book.Len(), problems, err)
	}
	q := lesson.Query{Words: []string{"please mend src/part18/cart.go and src/part19/cart.go"}, Tenant: "default", Agent: "coder", Now: time.Now()}
	hits := book.Match(&q)
	if len(hits) != 1 || !strings.HasPrefix(hits[0].Lesson.Slug, "test-the-empty-list-") || !slices.Contains(book.Text(hits[0].Lesson).Lines(600), "Test the empty list.") {
		t.Fatalf(`matches of a message about two files: got %+v, want one lesson test-the-empty-list-* with the line "Test the empty list."`, hits)
	}
	q.Agent = "other"
	if hits = book.Match(&q); len(hits) != 0 {
		t.Fatalf("matches for another agent: got %d, want 0", len(hits))
	}
}
