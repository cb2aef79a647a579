package learning

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"precept/bandit/report"
	"precept/inject/bank/banktest"
	"precept/store/storetest"
	"precept/test/harness"
)

// agentsModel is a model that records which lessons each sender's requests contain. A message names the sender as
// @@run/agent@@.
type agentsModel struct {
	*httptest.Server
	mu              sync.Mutex
	lessonsBySender map[string]map[string]bool // lesson slugs by "run/agent"
	headers         []string                   // Precept-* headers that reached the model
}

var (
	senderPattern = regexp.MustCompile(`@@([^@]*)@@`)
	lessonPattern = regexp.MustCompile(`- \[([a-z0-9-]+)\] `)
)

func newAgentsModel(t *testing.T) *agentsModel {
	t.Helper()
	m := &agentsModel{lessonsBySender: map[string]map[string]bool{}}
	n := 0
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		m.mu.Lock()
		n++
		id := n
		for h := range r.Header {
			if strings.HasPrefix(h, "Precept-") {
				m.headers = append(m.headers, h)
			}
		}
		if sender := senderPattern.FindSubmatch(b); sender != nil {
			key := string(sender[1])
			if m.lessonsBySender[key] == nil {
				m.lessonsBySender[key] = map[string]bool{}
			}
			for _, l := range lessonPattern.FindAllSubmatch(b, -1) {
				m.lessonsBySender[key][string(l[1])] = true
			}
		}
		m.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"id":"chatcmpl-%d","object":"chat.completion","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"This is answer %d of the model."}}],"usage":{"prompt_tokens":100,"completion_tokens":5}}`, id, id)
	}))
	t.Cleanup(m.Close)
	return m
}

func (m *agentsModel) lessonsInRun(run string) map[string]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[string]bool{}
	for key, slugs := range m.lessonsBySender {
		if name, _, _ := strings.Cut(key, "/"); name == run {
			for s := range slugs {
				all[s] = true
			}
		}
	}
	return all
}

// runAgent is one of the agents that work on the task of a run, each in a separate session.
type runAgent struct {
	run, name string
	history   []map[string]any
	injected  map[string]bool // slugs of inserted lessons
	withheld  map[string]bool // slugs of withheld lessons
}

func newRunAgent(run, name string) *runAgent {
	return &runAgent{run: run, name: name, injected: map[string]bool{}, withheld: map[string]bool{}}
}

// sendMessage appends a message to the history and sends the history to the model. The request names the run in the
// path if inPath is true, and otherwise in a header.
func (a *runAgent) sendMessage(t *testing.T, base, text string, inPath bool) {
	t.Helper()
	a.history = append(a.history, map[string]any{"role": "user", "content": fmt.Sprintf("@@%s/%s@@ %s", a.run, a.name, text)})
	body, _ := json.Marshal(map[string]any{
		"model": "m", "messages": append([]map[string]any{{"role": "system", "content": "You are the " + a.name}}, a.history...),
		"tools": []any{map[string]any{"type": "function", "function": map[string]any{"name": "tool_of_" + a.name}}},
	})
	url, header := base+"/v1/chat/completions", http.Header{"Precept-Run": {a.run}, "Authorization": {"Bearer k"}}
	if inPath {
		url = base + "/p/agent=" + a.name + ",run=" + a.run + "/v1/chat/completions"
		header.Del("Precept-Run")
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // only read
	var answer struct {
		Choices []struct{ Message map[string]any }
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil || res.StatusCode != http.StatusOK || len(answer.Choices) != 1 {
		t.Fatalf("chat request: got status %q, error %v, want 200 and one choice", res.Status, err)
	}
	a.history = append(a.history, answer.Choices[0].Message)
	for field, slugs := range map[string]map[string]bool{"Precept-Lessons": a.injected, "Precept-Withheld": a.withheld} {
		for slug := range strings.SplitSeq(res.Header.Get(field), ",") {
			if slug != "" {
				slugs[slug] = true
			}
		}
	}
}

// exportedCoin is one coin for a run: the random decision to inject or to withhold a lesson, or to make the run a
// control run.
type exportedCoin struct {
	Run, Coin, Arm, Slug, Assigned string
	Outcome                        *float64
	Closed                         bool
}

func exportedCoins(t *testing.T, args ...string) (all []exportedCoin) {
	t.Helper()
	for line := range strings.Lines(harness.MustRun(t, append([]string{"export", "--format", "experiment"}, args...)...)) {
		var c exportedCoin
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}

// topicWords returns a message about the topics from first to end-1, where topic 20 is topic 0 again.
func topicWords(first, end int) string {
	var words []string
	for i := first; i < end; i++ {
		words = append(words, fmt.Sprintf("about topic%02d", i%20))
	}
	return strings.Join(words, " and ")
}

func flagsForRuns(m *agentsModel, lessons string, extraFlags ...string) []string {
	return append([]string{
		"--upstream", m.URL + "/v1", "--lessons", lessons, "--bandit-objective", "random", "--bandit-epsilon", "0.5", "--bandit-control", "0.1", "--bandit-holdout", "fixed",
		"--limits-lookup-timeout", "10s", "--debug-headers", "--bandit-salt", "a salt of the tests",
	}, extraFlags...)
}

func writeTopicLessons(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for i := range 20 {
		banktest.WriteLesson(t, dir, fmt.Sprintf("lesson-%02d", i), fmt.Sprintf("topic%02d", i))
	}
	return dir
}

// The two agents in a run share the coins (the random decisions about lessons), and the report counts a run only once.
func TestRunCountsOnceAcrossRestarts(t *testing.T) {
	t.Parallel()
	m, dir, lessons := newAgentsModel(t), t.TempDir(), writeTopicLessons(t)
	const runs, unfinished = 200, 24 // up to 24 runs are in progress at the same time
	p := harness.Launch(t, dir, []string{"PRECEPT_ADMIN_TOKEN=admin-token"}, flagsForRuns(m, lessons)...).WaitUntilReady(dir)
	restart := func(stop func(), flags ...string) {
		t.Helper()
		stop()
		<-p.Exited
		p = harness.Launch(t, dir, []string{"PRECEPT_ADMIN_TOKEN=admin-token"}, flagsForRuns(m, lessons, flags...)...).WaitUntilReady(dir)
	}
	agents := make([][2]*runAgent, runs)
	startRun := func(i int) {
		run := fmt.Sprintf("ci-%d", i)
		agents[i] = [2]*runAgent{newRunAgent(run, "writer"), newRunAgent(run, "reader")}
		agents[i][0].sendMessage(t, p.DataURL, topicWords(i, i+12), i%2 == 0)
	}
	continueRun := func(i int) {
		agents[i][1].sendMessage(t, p.DataURL, topicWords(i+6, i+18), i%2 == 0)
		agents[i][0].sendMessage(t, p.DataURL, topicWords(i+12, i+20), i%2 == 0)
		agents[i][1].sendMessage(t, p.DataURL, topicWords(i, i+6), i%2 == 0)
	}
	for i := range runs {
		startRun(i)
		switch i {
		case 70:
			restart(func() { _ = p.Cmd.Process.Signal(os.Interrupt) })
		case 140:
			asked := int64(i + 1 + 3*(i-unfinished)) // one request for each started run, and three more for each finished run
			p.Eventually(fmt.Sprint("stored exchanges: ", asked), func() bool { return harness.Doctor(t, dir).Stored == asked })
			restart(func() { _ = p.Cmd.Process.Kill() })
		}
		if i >= unfinished {
			continueRun(i - unfinished)
		}
	}
	for i := runs - unfinished; i < runs; i++ {
		continueRun(i)
	}
	rateRuns(t, func(int) string { return p.DataURL }, agents)
	restart(func() { _ = p.Cmd.Process.Signal(os.Interrupt) }, "--reward-close-after", "1s") // all sessions are older than 1s, so they close
	checkClosedRuns(t, p, m, agents, "--data-dir", dir)
	if len(m.headers) > 0 {
		t.Errorf("Precept-* headers that reached the model: got %q, want none", m.headers)
	}
}

// rateRuns gives each even-numbered run the rating 0.75. In an odd-numbered run, it gives the session of one agent the
// rating 1, and the session of the other agent the rating 0.
func rateRuns(t *testing.T, dataURL func(i int) string, agents [][2]*runAgent) {
	t.Helper()
	for i := range agents {
		run := agents[i][0].run
		bodies := []string{fmt.Sprintf(`{"id":"f","run_id":%q,"source":"user","type":"score","score":0.75}`, run)}
		if i%2 == 1 { // the same rater for both sessions
			bodies = nil
			for k, score := range []string{"1", "0"} {
				name := sendAndGetSessionName(t, dataURL(i+k), agents[i][k])
				bodies = append(bodies, fmt.Sprintf(`{"id":"f","session_id":%q,"source":"user","type":"score","score":%s,"rater":"ann"}`, name, score))
			}
		}
		for _, body := range bodies {
			if status, answer := harness.Post(t, dataURL(i)+"/v1/feedback", nil, body); status != http.StatusAccepted || !strings.Contains(answer, "joined") {
				t.Fatalf(`feedback: got status %d, answer %q, want 202 and an answer with "joined"`, status, answer)
			}
		}
	}
}

// checkClosedRuns waits until all runs are closed and in the report, and checks the export, the report and the samples.
func checkClosedRuns(t *testing.T, p *harness.Process, m *agentsModel, agents [][2]*runAgent, flags ...string) {
	t.Helper()
	var r report.Report
	p.Eventually("all runs to be closed", func() bool {
		closed := 0
		for _, c := range exportedCoins(t, flags...) {
			if c.Coin == "control" && c.Arm == "" && c.Closed && c.Outcome != nil {
				closed++
			}
		}
		return closed == len(agents)
	})
	p.Eventually("the report to count all runs", func() bool {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, p.AdminURL+"/api/report", http.NoBody)
		req.Header.Set("Authorization", "Bearer admin-token")
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close() //nolint:errcheck // only read
		r = report.Report{}
		if err := json.NewDecoder(res.Body).Decode(&r); err != nil {
			t.Fatal(err)
		}
		return r.Global.NTreated+r.Global.NControl == int64(len(agents))
	})
	checkRuns(t, m, agents, exportedCoins(t, flags...), &r)
	checkRecomputedReport(t, harness.MustRun(t, append([]string{"export", "--format", "experiment"}, flags...)...), &r)
	checkRunSamples(t, harness.MustRun(t, append([]string{"export"}, flags...)...), len(agents))
}

// The two agents in a run send their requests to different replicas, one after the other or at the same time.
func TestRunAcrossReplicasCountsOnce(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	m, lessons := newAgentsModel(t), writeTopicLessons(t)
	const runs = 60
	startReplicas := func(flags ...string) (fleet []*harness.Process) {
		for range 2 {
			dir := t.TempDir()
			flags := append(flagsForRuns(m, lessons, "--store-url", server.URL()), flags...)
			fleet = append(fleet, harness.Launch(t, dir, []string{"PRECEPT_ADMIN_TOKEN=admin-token"}, flags...).WaitUntilReady(dir))
		}
		return fleet
	}
	fleet := startReplicas()
	agents := make([][2]*runAgent, runs)
	for i := range runs {
		run := fmt.Sprintf("ci-%d", i)
		agents[i] = [2]*runAgent{newRunAgent(run, "writer"), newRunAgent(run, "reader")}
		a, b := fleet[i%2].DataURL, fleet[(i+1)%2].DataURL
		if i%3 == 0 { // simultaneously
			var both sync.WaitGroup
			both.Go(func() { agents[i][0].sendMessage(t, a, topicWords(i, i+12), false) })
			both.Go(func() { agents[i][1].sendMessage(t, b, topicWords(i+6, i+18), false) })
			both.Wait()
		} else {
			agents[i][0].sendMessage(t, a, topicWords(i, i+12), i%2 == 0)
			agents[i][1].sendMessage(t, b, topicWords(i+6, i+18), i%2 == 0)
		}
		agents[i][0].sendMessage(t, b, topicWords(i+12, i+20), i%2 == 0)
		agents[i][1].sendMessage(t, a, topicWords(i, i+6), i%2 == 0)
	}
	rateRuns(t, func(i int) string { return fleet[i%2].DataURL }, agents)
	for _, p := range fleet {
		_ = p.Cmd.Process.Signal(os.Interrupt)
		<-p.Exited
	}
	p := startReplicas("--reward-close-after", "1s")[0]
	checkClosedRuns(t, p, m, agents, "--store-url", server.URL())
}

// sendAndGetSessionName sends a message from an agent and returns the name of the agent's session.
func sendAndGetSessionName(t *testing.T, base string, a *runAgent) string {
	t.Helper()
	body, _ := json.Marshal(map[string]any{"model": "m", "messages": append(slices.Clone(a.history), map[string]any{"role": "user", "content": "thank you"})})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/v1/chat/completions", strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Precept-Run": {a.run}, "Authorization": {"Bearer k"}}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return res.Header.Get("Precept-Session")
}

// checkRuns checks the exported coins against the report and against the lessons that the agents and the model
// received.
func checkRuns(t *testing.T, m *agentsModel, agents [][2]*runAgent, trials []exportedCoin, r *report.Report) {
	t.Helper()
	type coins struct{ injected, withheld map[string]bool }
	byRun := map[string]*coins{}
	units, control := map[string]int{}, map[string]bool{}
	for _, c := range trials {
		if c.Run == "" {
			t.Errorf("exported coin %+v has no run name, want one", c)
			continue
		}
		if byRun[c.Run] == nil {
			byRun[c.Run] = &coins{map[string]bool{}, map[string]bool{}}
		}
		switch {
		case c.Coin == "control" && c.Arm == "":
			units[c.Run]++
			control[c.Run] = c.Assigned == "control"
			n, want := 0, 0.75
			_, _ = fmt.Sscanf(c.Run, "ci-%d", &n)
			if n%2 == 1 { // the mean of the ratings 1 and 0
				want = 0.5
			}
			if *c.Outcome != want {
				t.Errorf("run %s: got reward %v, want %v", c.Run, *c.Outcome, want)
			}
		case c.Assigned == "injected":
			byRun[c.Run].injected[c.Slug] = true
		case c.Assigned == "withheld":
			byRun[c.Run].withheld[c.Slug] = true
		}
	}
	injected, withheld, shared := map[string]int64{}, map[string]int64{}, 0
	for i := range agents {
		a, b := agents[i][0], agents[i][1]
		runCoins := byRun[a.run]
		if runCoins == nil || units[a.run] != 1 {
			t.Fatalf("run %s: got %d exported units, want 1, because a run counts once", a.run, units[a.run])
		}
		for _, pair := range [][2]*runAgent{{a, b}, {b, a}} {
			for slug := range pair[0].injected {
				if pair[1].withheld[slug] || pair[0].withheld[slug] {
					t.Errorf("run %s: lesson %s is injected for one of %s and %s, but withheld for one of them, want the same for both agents", a.run, slug, pair[0].name, pair[1].name)
				}
			}
		}
		for slug := range a.injected {
			if b.injected[slug] {
				shared++
			}
		}
		received := m.lessonsInRun(a.run)
		if control[a.run] && len(received)+len(runCoins.injected)+len(runCoins.withheld) > 0 {
			t.Errorf("control run %s: got lessons %v at the model and coins %v, want no lessons and no coins", a.run, received, runCoins)
		}
		for slug := range received {
			if !runCoins.injected[slug] {
				t.Errorf("run %s: the model received lesson %s, want a coin that injects the lesson; got coins %v", a.run, slug, runCoins)
			}
		}
		for slug := range runCoins.injected {
			injected[slug]++
			if !received[slug] {
				t.Errorf("run %s: lesson %s is exported as injected, but never reached the model", a.run, slug)
			}
		}
		for slug := range runCoins.withheld {
			withheld[slug]++
		}
	}
	if shared < 50 {
		t.Errorf("lessons that both agents in a run received: got %d, want at least 50", shared)
	}
	for _, l := range r.Lessons {
		if l.NInjected != injected[l.Slug] || l.NWithheld != withheld[l.Slug] {
			t.Errorf("%s: reported runs: got %d injected and %d withheld, want %d and %d", l.Slug, l.NInjected, l.NWithheld, injected[l.Slug], withheld[l.Slug])
		}
	}
}

// checkRecomputedReport recomputes the report with a script that shares no code with precept, and compares the numbers.
func checkRecomputedReport(t *testing.T, trials string, r *report.Report) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("python3 is not installed, but CI needs it")
		}
		t.Log("python3 is not installed: the report is not recomputed")
		return
	}
	script := exec.CommandContext(t.Context(), python, filepath.Join("..", "..", "examples", "experiment", "recompute.py"), "--json")
	script.Stdin = strings.NewReader(trials)
	out, err := script.Output()
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Arm     string
		Name    string
		With    int64 `json:"n_with"`
		Without int64 `json:"n_without"`
		Effect  *float64
	}
	if err := json.Unmarshal(out, &rows); err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, row := range rows {
		for _, l := range r.Lessons {
			if string(l.Arm) != row.Arm || row.Name != "" {
				continue
			}
			found++
			if row.With != l.NInjected || row.Without != l.NWithheld || (row.Effect == nil) != (l.Effect == nil) || row.Effect != nil && math.Abs(*row.Effect-*l.Effect) > 1e-5 {
				t.Errorf("%s: recomputed row: got %+v, want the reported numbers: %d injected, %d withheld, effect %v", l.Slug, row, l.NInjected, l.NWithheld, l.Effect)
			}
		}
	}
	if found != len(r.Lessons) || found == 0 {
		t.Errorf("recomputed lessons: got %d, want %d as in the report, and at least 1", found, len(r.Lessons))
	}
}

// checkRunSamples checks that the samples from the sessions of both agents contain the rating of the run.
func checkRunSamples(t *testing.T, exported string, runs int) {
	t.Helper()
	sessions := map[string]map[string]bool{}
	for line := range strings.Lines(exported) {
		var s struct {
			Feedback struct {
				Type    string
				Details struct{ Score float64 }
			}
			Meta struct{ Run, Session string }
		}
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatal(err)
		}
		n := 0
		if _, err := fmt.Sscanf(s.Meta.Run, "ci-%d", &n); err != nil {
			t.Fatalf("sample %s: got run %q, want ci-N", line, s.Meta.Run)
		}
		if n%2 == 0 && s.Feedback.Details.Score == 0.75 {
			if sessions[s.Meta.Run] == nil {
				sessions[s.Meta.Run] = map[string]bool{}
			}
			sessions[s.Meta.Run][s.Meta.Session] = true
		}
	}
	for i := 0; i < runs; i += 2 {
		if n := len(sessions[fmt.Sprintf("ci-%d", i)]); n != 2 {
			t.Errorf("sessions with the feedback on run %d: got %d, want 2", i, n)
		}
	}
}

// waitForScore waits until there are samples with the score from the given number of sessions in the run.
func waitForScore(t *testing.T, p *harness.Process, dir, run string, sessions int, score float64) {
	t.Helper()
	exported := ""
	defer func() {
		if t.Failed() {
			t.Log(exported)
		}
	}()
	p.Eventually(fmt.Sprintf("samples with score %v from %d sessions in run %s", score, sessions, run), func() bool {
		rated := map[string]bool{}
		exported = harness.MustRun(t, "export", "--data-dir", dir)
		for line := range strings.Lines(exported) {
			var s struct {
				Feedback struct{ Details struct{ Score *float64 } }
				Meta     struct{ Run, Session string }
			}
			if err := json.Unmarshal([]byte(line), &s); err != nil {
				t.Fatal(err)
			}
			if s.Meta.Run == run && s.Feedback.Details.Score != nil && *s.Feedback.Details.Score == score {
				rated[s.Meta.Session] = true
			}
		}
		return len(rated) == sessions
	})
}

func TestRunFeedbackReachesAllSessions(t *testing.T) {
	t.Parallel()
	m, dir, lessons := newAgentsModel(t), t.TempDir(), writeTopicLessons(t)
	p := harness.Launch(t, dir, nil, flagsForRuns(m, lessons, "--reward-close-after", "1s")...).WaitUntilReady(dir)
	postFeedback := func(body, status string) {
		t.Helper()
		if code, answer := harness.Post(t, p.DataURL+"/v1/feedback", nil, body); code != http.StatusAccepted || !strings.Contains(answer, `"`+status+`"`) {
			t.Fatalf("feedback: got status %d, answer %q, want 202 and an answer with %q", code, answer, `"`+status+`"`)
		}
	}
	postFeedback(`{"run_id":"early","source":"system","type":"score","score":0.25}`, "parked")
	for _, run := range []string{"early", "late"} {
		for i := range 5 {
			newRunAgent(run, fmt.Sprint("agent", i)).sendMessage(t, p.DataURL, topicWords(i, i+9), i%2 == 0)
		}
	}
	waitForScore(t, p, dir, "early", 5, 0.25)
	p.Eventually("the run \"late\" to be closed", func() bool {
		for _, c := range exportedCoins(t, "--data-dir", dir) {
			if c.Run == "late" && c.Coin == "control" && c.Closed {
				return true
			}
		}
		return false
	})
	for range 2 { // the same feedback twice
		postFeedback(`{"id":"one","run_id":"late","source":"user","type":"score","score":0.5,"comment":"half of it"}`, "joined")
	}
	waitForScore(t, p, dir, "late", 5, 0.5)
	postFeedback(`{"id":"one","run_id":"late","source":"user","type":"score","score":1}`, "joined") // replaces the earlier score from the same rater
	waitForScore(t, p, dir, "late", 5, 1)
	postFeedback(`{"session_id":"late","source":"user","type":"score","score":0,"rater":"bob"}`, "joined") // a run is also found by session_id if no session has the name
	p.Eventually("reward 0.5, the raters' mean, for the run \"late\"", func() bool {
		units := 0
		for _, c := range exportedCoins(t, "--data-dir", dir) {
			if c.Run == "late" && c.Coin == "control" && c.Arm == "" && c.Outcome != nil && *c.Outcome == 0.5 {
				units++
			}
		}
		return units == 1
	})
	// A session that joins the run after the run has closed uses the existing coins, and adds nothing to the counts.
	before := len(exportedCoins(t, "--data-dir", dir))
	a := newRunAgent("late", "straggler")
	a.sendMessage(t, p.DataURL, topicWords(0, 20), false)
	waitForScore(t, p, dir, "late", 6, 0) // samples have the newest feedback, not the mean
	if after := len(exportedCoins(t, "--data-dir", dir)); after != before {
		t.Errorf("exported coins after a new session in a closed run: got %d, want %d as before this session", after, before)
	}
}

func TestForgetKeepsOtherRuns(t *testing.T) {
	t.Parallel()
	m, dir, lessons := newAgentsModel(t), t.TempDir(), writeTopicLessons(t)
	p := harness.Launch(t, dir, []string{"PRECEPT_ADMIN_TOKEN=admin-token"}, flagsForRuns(m, lessons, "--reward-close-after", "1s")...).WaitUntilReady(dir)
	for _, run := range []string{"gone-first", "gone-second", "stays"} {
		for i := range 3 {
			newRunAgent(run, fmt.Sprint("agent", i)).sendMessage(t, p.DataURL, topicWords(i, i+9), i%2 == 0)
		}
		if code, answer := harness.Post(t, p.DataURL+"/v1/feedback", nil, fmt.Sprintf(`{"run_id":%q,"type":"score","score":1,"comment":"words on %s"}`, run, run)); code != http.StatusAccepted {
			t.Fatalf("feedback: got status %d, answer %q, want 202", code, answer)
		}
		waitForScore(t, p, dir, run, 3, 1)
	}
	checkRemaining := func(runs ...string) {
		t.Helper()
		for _, text := range []string{harness.MustRun(t, "export", "--data-dir", dir), harness.MustRun(t, "export", "--format", "experiment", "--data-dir", dir)} {
			for _, run := range []string{"gone-first", "gone-second", "stays"} {
				if strings.Contains(text, run) != slices.Contains(runs, run) {
					t.Errorf("export contains run %s = %v, want %v", run, strings.Contains(text, run), slices.Contains(runs, run))
				}
			}
		}
	}
	checkRemaining("gone-first", "gone-second", "stays")
	status, answer := harness.Post(t, p.AdminURL+"/api/forget", http.Header{"Authorization": {"Bearer admin-token"}}, `{"tenant":"default","session":"gone-first"}`)
	if status != http.StatusOK || !strings.Contains(answer, `"forgotten":4`) { // one run and three sessions
		t.Errorf("/api/forget: got status %d, answer %q, want 200 and an answer with %q", status, answer, `"forgotten":4`)
	}
	checkRemaining("gone-second", "stays")
	_ = p.Cmd.Process.Signal(os.Interrupt)
	<-p.Exited
	harness.MustRun(t, "forget", "--session", "gone-second", "--yes", "--data-dir", dir)
	checkRemaining("stays")
	for name, text := range harness.Files(t, dir) {
		if strings.Contains(text, "words on gone") {
			t.Errorf("%s contains feedback on a forgotten run", name)
		}
	}
}
