package learning

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"precept/inject/lesson"
	"precept/test/harness"
)

func TestAutomaticGateActivatesDemoLesson(t *testing.T) {
	if testing.Short() {
		t.Skip("the demo plays 2,240 sessions")
	}
	dir := t.TempDir()
	out, done, stop := startCycleDemo(t, dir, "--gate", "auto")
	var states []lesson.State
	for !strings.Contains(out.String(), "The dashboard runs until") || states[len(states)-1] == lesson.Trial {
		select {
		case err := <-done:
			t.Fatalf("the demo ended before the test interrupted it: error %v, lesson states %v\n%s", err, states, out.String())
		case <-time.After(50 * time.Millisecond):
		}
		banks, _ := filepath.Glob(filepath.Join(dir, "precept-circle-*", "lessons"))
		for _, b := range banks {
			book, _, err := lesson.Load(b)
			if err != nil {
				continue
			}
			if l, ok := book.Get("give-floor-as-a-whole-number-to-book-room"); ok && (len(states) == 0 || states[len(states)-1] != l.State) {
				states = append(states, l.State)
				if l.State.IsActive() && l.Approval.By != "gate: auto" {
					t.Errorf("lesson approval in state %s: got %q, want \"gate: auto\"", l.State, l.Approval.By)
				}
			}
		}
	}
	if n := len(states); n < 2 || states[n-1] != lesson.Active || states[n-2] != lesson.Trial {
		t.Errorf("lesson states: got %v, want %q and %q as the last two; output %s", states, lesson.Trial, lesson.Active, out.String())
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// startCycleDemo starts precept demo --circle, which takes a lesson from the first failures to a measured effect. When
// the process ends, the channel done receives the error or nil.
func startCycleDemo(t *testing.T, dir string, flags ...string) (out *harness.LockedBuffer, done <-chan error, stop func()) {
	t.Helper()
	out = &harness.LockedBuffer{}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 4*time.Minute)
	cmd := exec.CommandContext(ctx, "precept", append([]string{"demo", "--circle", "--agents", "8", "--seed", "1"}, flags...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	result, exited := make(chan error, 1), make(chan struct{})
	go func() {
		result <- cmd.Wait()
		close(exited)
	}()
	t.Cleanup(func() {
		cancel()
		<-exited
	})
	return out, result, func() { _ = cmd.Process.Signal(os.Interrupt) }
}

type cycleRow struct {
	Slug      string   `json:"slug"`
	Verdict   string   `json:"verdict"`
	Matched   int64    `json:"matched"`
	Picked    int64    `json:"picked"`
	NInjected int64    `json:"n_injected"`
	Verdicts  []string // the verdicts in all rows with the slug
}

// readCycleReport returns the rows of the report by slug. If several rows have the same slug, their counts are added
// up.
func readCycleReport(t *testing.T, admin, token string) map[string]cycleRow {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, admin+"/api/report", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var rep struct {
		Lessons []cycleRow `json:"lessons"`
	}
	if err := json.NewDecoder(res.Body).Decode(&rep); err != nil {
		t.Fatal(err)
	}
	rows := map[string]cycleRow{}
	for _, r := range rep.Lessons { // a lesson that became a caution (a warning) has one row for each of its forms
		sum := rows[r.Slug]
		sum.Slug, sum.Verdicts = r.Slug, append(sum.Verdicts, r.Verdict)
		sum.Matched, sum.Picked, sum.NInjected = sum.Matched+r.Matched, sum.Picked+r.Picked, sum.NInjected+r.NInjected
		rows[r.Slug] = sum
	}
	return rows
}
