package admin

import (
	"encoding/json"
	"html"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"precept/bandit/trial"
	"precept/internal/price"
	"precept/internal/sample"
	sessionpkg "precept/internal/session"
	"precept/store"
)

// newModelsFixture returns a server with two sessions. The sub-agents of both sessions used the model "small". The
// sub-agents of the session "unpriced" also used the model "other", which has no price.
func newModelsFixture(t *testing.T) *fixture {
	t.Helper()
	sessions := newSessionStore(t, time.Now())
	for _, name := range []string{"priced", "unpriced"} {
		sessions.addSession(t, name, 1, func(r *sessionpkg.Record, exchanges []sample.Exchange) {
			r.Identity.Model = "large"
			r.Thread.Models = sessionpkg.ModelTokens{
				"large": {Input: 1_000_000, Cached: 500_000, Written: 200_000, WrittenHour: 100_000, Output: 100_000},
				"small": {Input: 3_000_000, Output: 200_000},
			}
			if name == "unpriced" {
				r.Thread.Models["other"] = price.Tokens{Input: 7}
			}
			r.Thread.Used = trial.Usage{Input: 4_000_007, Cached: 500_000}
			if name == "priced" {
				r.Thread.Used.Input = 4_000_000
			}
			exchanges[0].Reply.Written = 345
		})
	}
	return newStoreFixture(t, sessions, func(o *Options) {
		o.Now = time.Now
		o.Program.Prices = func() Prices {
			return Prices{Currency: "USD", Models: &price.Table{Entries: []price.Entry{
				{Pattern: "large", Price: price.Price{Input: 10, Cached: 1, Written: 12, WrittenHour: 15, Output: 50}},
				{Pattern: "small", Price: price.Price{Input: 1, Cached: 0.1, Output: 5}},
			}}}
		}
	})
}

func TestSessionPageShowsCostByModel(t *testing.T) {
	f := newModelsFixture(t)
	for name, want := range map[string][]string{
		"priced": {
			"15.20 USD", "500,000 cached, 200,000 written to the cache", "(800 cached, 345 written to the cache)", "By model",
			"small", "4.00\u00a0USD", "large", "11.20\u00a0USD",
		},
		"unpriced": {"tokens; no price for other", "no price</td>"},
	} {
		page := html.UnescapeString(get(t, f, "/sessions/"+name, http.StatusOK))
		for _, text := range want {
			if !strings.Contains(page, text) {
				t.Errorf("page of the session %s: got no text %q, want this text", name, text)
			}
		}
	}
	if page := get(t, f, "/sessions", http.StatusOK); !strings.Contains(page, "15.20\u00a0USD") {
		t.Errorf(`session list = %q, want substring "15.20\u00a0USD"`, page)
	} else if strings.Count(page, "tokens; no price") != 1 {
		t.Errorf(`session list: count of "tokens; no price" = %d, want 1`, strings.Count(page, "tokens; no price"))
	}
}

func TestSessionAPIHasTokensByModel(t *testing.T) {
	f := newModelsFixture(t)
	var x store.Transcript
	if err := json.Unmarshal([]byte(get(t, f, "/api/sessions/priced", http.StatusOK)), &x); err != nil {
		t.Fatal(err)
	}
	if len(x.Models) != 2 {
		t.Fatalf("session in the API: Models = %+v, want 2 items", x.Models)
	}
	if x.Models[0].Model != "small" {
		t.Fatalf(`session in the API: Model = %q, want "small"`, x.Models[0].Model)
	}
	if x.Models[1].WrittenHour != 100_000 {
		t.Fatalf("session in the API: [1].WrittenHour = %d, want 100_000", x.Models[1].WrittenHour)
	}
	if x.Written != 200_000 {
		t.Fatalf("session in the API: Written = %d, want 200_000", x.Written)
	}
	if x.TurnItems[0].Written != 345 {
		t.Fatalf("session in the API: Written = %d, want 345", x.TurnItems[0].Written)
	}
	for i, want := range []float64{4, 11.2} {
		if got := x.Models[i].Cost; got == nil {
			t.Errorf("cost of the model %s = nil", x.Models[i].Model)
		} else if math.Abs(*got-want) > 1e-9 {
			t.Errorf("cost of the model %s = %v, want %v within 1e-9", x.Models[i].Model, *got, want)
		}
	}
	if x.Cost == nil {
		t.Fatal("cost of the session: Cost = nil")
	}
	if math.Abs(*x.Cost-15.2) > 1e-9 {
		t.Errorf("cost of the session = %v, want 15.2 within 1e-9", *x.Cost)
	}
	if got := get(t, f, "/api/traffic", http.StatusOK); !strings.Contains(got, `"cache_write_tokens":400000`) {
		t.Errorf("/api/traffic: got %s, want 400000 written tokens", got)
	}
}
