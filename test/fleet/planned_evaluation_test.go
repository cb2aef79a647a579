package fleet

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"precept/bandit/report"
	"precept/inject/bank/banktest"
	"precept/store/storetest"
	"precept/test/harness"
)

// A planned evaluation computes a lesson's effect once, here after the lesson was selected for 80 sessions. All
// replicas must report the same result, although half the rewards reach a replica that did not serve the session.
func TestReplicasShareOnePlannedEvaluation(t *testing.T) {
	t.Parallel()
	lessons, model := t.TempDir(), harness.RepeatingServer(t, harness.ChatReply("c", "ok")).URL
	banktest.WriteLesson(t, lessons, "look-first", "targets")
	url := "redis://" + storetest.StartRedis(t).Addr + "/0"
	harness.MustRun(t, "lessons", "trial", "look-first", "--picks", "80", "--yes", "--lessons", lessons, "--data-dir", t.TempDir())
	args := []string{"--reward-close-after", "3s", "--limits-lookup-timeout", "10s", "--bandit-control", "0", "--bandit-epsilon", "0.2"}
	fleet := startReplicas(t, 2, url, model, lessons, args...)
	const sessions = 140
	for n := range sessions {
		p, name := fleet[n%2], fmt.Sprintf("looked-%d", n)
		p.Chat(t, http.Header{"Precept-Session": {name}}, `{"model":"m","messages":[{"role":"user","content":"build the targets"}]}`)
		body := fmt.Sprintf(`{"session_id":%q,"source":"user","type":"score","score":%d}`, name, n*5%7%2) // scores 0 and 1 that do not depend on the lesson
		fleet[(n/2)%2].PostFeedback(t, nil, body)
	}
	readReport := func(p *harness.Process) (r report.Report) {
		t.Helper()
		status, body := harness.Get(t, p.AdminURL+"/api/report", "token")
		if err := json.Unmarshal([]byte(body), &r); err != nil || status != http.StatusOK {
			t.Fatalf("/api/report: got status %d, error %v, body %s, want 200 and JSON", status, err, body)
		}
		return r
	}
	countedSessions := func(p *harness.Process) int64 { r := readReport(p); return r.Global.NTreated + r.Global.NControl }
	fleet[0].Eventually("all sessions in both replicas' reports", func() bool { return countedSessions(fleet[0]) == sessions && countedSessions(fleet[1]) == sessions })
	newReplica := startReplicas(t, 1, url, model, lessons, args...)[0]
	newReplica.Eventually("all sessions in the new replica's report", func() bool { return countedSessions(newReplica) == sessions })
	var firstTrials []byte
	for _, p := range []*harness.Process{fleet[0], fleet[1], newReplica} {
		row := readReport(p).Lessons[0]
		if len(row.PlannedTrials) != 1 || !row.PlannedTrials[0].Evaluated || row.PlannedTrials[0].NInjected+row.PlannedTrials[0].NWithheld != 80 || row.Trial != "ended" {
			t.Fatalf("look-first row = %+v, want an ended trial with one planned evaluation after 80 picks", row)
		}
		plannedTrials, err := json.Marshal(row.PlannedTrials)
		if err != nil {
			t.Fatal(err)
		}
		if firstTrials == nil {
			firstTrials = plannedTrials
		}
		if string(plannedTrials) != string(firstTrials) {
			t.Errorf("planned evaluation on replica %s = %s, want the same as on the first replica: %s", p.AdminURL, plannedTrials, firstTrials)
		}
	}
}
