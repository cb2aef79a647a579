package proxy_test

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"precept/internal/sample"
	"precept/store/sqlite"
	"precept/store/storetest"
)

// With bandit.epsilon 0.2, a fifth of the sessions get no lesson. A session's second turn and stored exchange follow
// the first turn's decision.
func TestWithheldShareIsEpsilon(t *testing.T) {
	const sessions, withSecondTurn, workers = 1500, 100, 8
	up := &upstream{Server: httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, chatReply("c", fmt.Sprint("blocks: ", strings.Count(string(b), "- [one]"))))
	}))}
	t.Cleanup(up.Close)
	f := newFixture(t, up, "", newBook(t, "one: alpha"), map[string]string{
		"bandit.objective": "random", "bandit.epsilon": "0.2", "bandit.control": "0",
	})
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: workers}}
	t.Cleanup(c.CloseIdleConnections)
	sendTurn := func(session int, body string) bool {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url+chatPath, strings.NewReader(body))
		req.Header.Set("Precept-Session", fmt.Sprint("s", session))
		res, err := c.Do(req)
		if err != nil {
			t.Error(err)
			return false
		}
		defer func() { _ = res.Body.Close() }()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Error(err)
		} else if !strings.Contains(string(b), "blocks: ") {
			t.Errorf(`body = %q, want substring "blocks: "`, string(b))
		}
		return strings.Contains(string(b), "blocks: 1")
	}
	var injected [sessions]bool
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			for i := worker; i < sessions; i += workers {
				const first = `{"messages":[{"role":"user","content":"do alpha"}`
				injected[i] = sendTurn(i, first+`]}`)
				if i < withSecondTurn && injected[i] != sendTurn(i, first+`,{"role":"assistant","content":"x"},{"role":"user","content":"alpha"}]}`) {
					t.Errorf("session %d: second turn has lesson one = %v, want %v, as in the first turn", i, !injected[i], injected[i])
				}
			}
		})
	}
	all.Wait()
	f.stop()
	withheld := 0
	for _, isInjected := range injected {
		if !isInjected {
			withheld++
		}
	}
	if share := float64(withheld) / sessions; math.Abs(share-0.2) > 3*math.Sqrt(0.2*0.8/sessions) {
		t.Errorf("withheld in %d of %d sessions, want about a fifth", withheld, sessions)
	}
	stored := map[string]string{} // state of the lesson, by session
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(f.dir, "precept.db"), ReadOnly: true, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	err = storetest.EachExchange(t.Context(), db, func(x sample.Exchange) error {
		for _, l := range x.Lessons {
			stored[x.SessionName] += l.State
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, isInjected := range injected {
		if want := map[bool]string{true: "injected", false: "withheld"}[isInjected]; stored[fmt.Sprint("s", i)] != want {
			t.Fatalf("session %d: stored state of the lesson = %q, want %q", i, stored[fmt.Sprint("s", i)], want)
		}
	}
}
