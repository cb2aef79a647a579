//go:build !race

package learning

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"precept/test/harness"
)

// All sessions in a run share the coins (the random decisions to inject or to withhold a lesson) and the feedback,
// before and after a restart.
func TestRunWithManySessionsCountsOnce(t *testing.T) {
	t.Parallel()
	const sessions = 1500
	m, dir, lessons := newAgentsModel(t), t.TempDir(), writeTopicLessons(t)
	p := harness.Launch(t, dir, nil, flagsForRuns(m, lessons)...).WaitUntilReady(dir)
	agents := make([]*runAgent, sessions)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := w; i < sessions; i += 4 {
				agents[i] = newRunAgent("many", fmt.Sprint("agent", i))
				agents[i].sendMessage(t, p.DataURL, topicWords(i%20, i%20+6), i%2 == 0)
			}
		})
	}
	wg.Wait()
	injected, withheld := map[string]bool{}, map[string]bool{}
	for _, a := range agents {
		maps.Copy(injected, a.injected)
		maps.Copy(withheld, a.withheld)
	}
	for slug := range injected {
		if withheld[slug] {
			t.Errorf("lesson %s: injected in some sessions of the run and withheld in others, want the same in all", slug)
		}
	}
	if code, answer := harness.Post(t, p.DataURL+"/v1/feedback", nil, `{"run_id":"many","source":"user","type":"score","score":0.75}`); code != http.StatusAccepted || !strings.Contains(answer, "joined") {
		t.Fatalf(`feedback: got status %d, answer %q, want 202 and an answer with "joined"`, code, answer)
	}
	_ = p.Cmd.Process.Signal(os.Interrupt)
	<-p.Exited
	p = harness.Launch(t, dir, nil, flagsForRuns(m, lessons, "--reward-close-after", "1s")...).WaitUntilReady(dir)
	waitForScore(t, p, dir, "many", sessions, 0.75)
	units, picks := 0, 0 // the experiment counts units; here, the unit is the run
	for _, c := range exportedCoins(t, "--data-dir", dir) {
		switch {
		case c.Run != "many":
			t.Fatalf("exported coin %+v: got run %q, want many", c, c.Run)
		case c.Coin == "holdout":
			picks++
		case c.Arm == "":
			units++
		}
	}
	if units != 1 || picks != len(injected)+len(withheld) {
		t.Errorf("exported run: got %d units and %d picks, want 1 unit and %d picks", units, picks, len(injected)+len(withheld))
	}
	if code, answer := harness.Post(t, p.DataURL+"/v1/feedback", nil, `{"run_id":"many","source":"user","type":"score","score":0.25}`); code != http.StatusAccepted || !strings.Contains(answer, "joined") {
		t.Fatalf(`feedback: got status %d, answer %q, want 202 and an answer with "joined"`, code, answer)
	}
	waitForScore(t, p, dir, "many", sessions, 0.25) // the score of the feedback that arrived after all sessions had closed
}
