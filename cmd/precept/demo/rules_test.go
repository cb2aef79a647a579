package demo_test

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"precept/cmd/precept/demo"
)

// successRateWithout runs the sessions in precept demo --rules, removes the headings for the given sections from each
// request, and returns the success rate.
func successRateWithout(t *testing.T, seed uint64, sessions int, sections ...string) float64 {
	t.Helper()
	world := demo.NewRules(seed)
	var mu sync.Mutex
	var sum, rated float64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.HasSuffix(r.URL.Path, "/feedback") {
			var f struct{ Score float64 }
			_ = json.Unmarshal(body, &f)
			mu.Lock()
			defer mu.Unlock()
			sum, rated = sum+f.Score, rated+1
			return
		}
		for _, s := range sections {
			if !bytes.Contains(body, []byte("## "+s+`\n`)) {
				t.Errorf("got request %s, want a request that contains the section %s", body, s)
			}
			body = bytes.ReplaceAll(body, []byte("## "+s+`\n`), nil)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		world.ServeHTTP(w, r)
	}))
	defer server.Close()
	if err := world.RunSessions(t.Context(), server.URL+"/v1", server.Client(), 4 /* agents */, sessions); err != nil {
		t.Fatal(err)
	}
	if int(rated) != sessions || world.Done() != int64(sessions) {
		t.Fatalf("got feedback on %v sessions, and %d finished sessions; want %d of each", rated, world.Done(), sessions)
	}
	return sum / rated
}

// The demo decides each ticket by one random number that does not depend on the rules file. Leaving out a section
// without an effect therefore changes no result.
func TestRulesSuccessRateChangesBySectionEffect(t *testing.T) {
	const sessions = 500
	whole := successRateWithout(t, 1, sessions)
	for _, s := range demo.NewRules(1).Truths {
		if s.Section == "Run the checks" || s.Section == "Rewrite on sight" || s.Section == "Voice" {
			if effect := whole - successRateWithout(t, 1, sessions, s.Section); math.Abs(effect-s.Effect) > .05 || s.Effect == 0 && effect != 0 {
				t.Errorf("without the section %s: got a success rate that changes by %.3f, want a change of %.2f, give or take 0.05, or of exactly 0 if the section has no effect", s.Section, -effect, -s.Effect)
			}
		}
	}
}

func TestRulesFileHasSectionForEachTruth(t *testing.T) {
	truths := demo.NewRules(1).Truths
	counts := map[float64]int{} // sections by the sign of their effect: 1, -1 or 0
	for _, s := range truths {
		if strings.Count(demo.RulesFile, "\n## "+s.Section+"\n") != 1 {
			t.Errorf("heading of the section %q in the rules file: got %d occurrences, want 1", s.Section, strings.Count(demo.RulesFile, "\n## "+s.Section+"\n"))
		}
		counts[math.Round(math.Copysign(min(1, 1000*math.Abs(s.Effect)), s.Effect))]++
	}
	if counts[1] != 3 || counts[-1] != 2 || counts[0] != 7 || strings.Count(demo.RulesFile, "\n## ") != len(truths) {
		t.Errorf("got %d sections and %d true effects, want equal numbers; got sections by the sign of their effect %v, want 3 positive, 2 negative and 7 without effect", strings.Count(demo.RulesFile, "\n## "), len(truths), counts)
	}
}
