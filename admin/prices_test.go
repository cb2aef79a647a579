package admin

import (
	"context"
	"html"
	"strings"
	"testing"
	"time"

	"precept/bandit/report"
	"precept/internal/price"
	"precept/store"
)

// listArchive is an archive that contains the sessions in list.
type listArchive struct {
	Archive
	list []store.SessionItem
}

func (p listArchive) Browse(context.Context, store.SessionQuery) (store.SessionList, error) {
	list := store.SessionList{Sessions: append([]store.SessionItem(nil), p.list...), RowsRead: len(p.list)}
	return list, nil
}

func (p listArchive) Recent(context.Context, string, time.Time, time.Time) (store.Recent, error) {
	return store.Recent{Sessions: p.list, Complete: true}, nil
}

func (p listArchive) Run(context.Context, string, string) (store.RunSessions, error) {
	return store.RunSessions{Name: "r", Sessions: append([]store.SessionItem(nil), p.list...)}, nil
}

// The overview uses the mean price for sessions whose model has no price, and names the model.
func TestCostsUseTheModelPrice(t *testing.T) {
	table := &price.Table{Entries: []price.Entry{
		{Pattern: "big*", Price: price.Price{Input: 10, Cached: 1, Output: 50}},
		{Pattern: "small", Price: price.Price{Input: 1, Cached: 0.1, Output: 5}},
	}}
	list := []store.SessionItem{
		{ID: "a", Agent: "coder", Reward: new(1.0), Model: "big-2", Input: 1_000_000, Cached: 500_000, Output: new(int64(100_000)), Injected: []string{"helpful"}},
		{ID: "b", Agent: "writer", Model: "small", Input: 1_000_000, Output: new(int64(200_000))},
		{ID: "c", Agent: "coder", Model: "own", Input: 1_000_000, Output: new(int64(1)), Injected: []string{"helpful"}},
	}
	for i := range list {
		x := &list[i]
		x.Models = []store.ModelUsage{{Model: x.Model, Input: x.Input, Cached: x.Cached, Output: *x.Output}}
	}
	f, _, _ := newLessonFixture(t, func(o *Options) {
		o.Read.Archive = listArchive{o.Read.Archive, list}
		o.Program.Prices = func() Prices { return Prices{Models: table, Currency: "USD", SuccessValue: 1} }
	})
	f.reports.report.Global.Days = []report.Day{{Date: f.reports.report.GeneratedAt.Format(time.DateOnly), NTreated: 10, TokensAdded: 1_000_000, Treated: report.Spending{Sessions: 10, Input: 10, Cached: 0}}}
	f.reports.report.Lessons[2].Tokens, f.reports.report.Lessons[2].TokensTotal = 100, 1_000_000
	for path, want := range map[string][]string{
		"/sessions":         {"10.50\u00a0USD", "2.00\u00a0USD", "tokens; no price"},
		"/":                 {"1,000,000 × 5.5 a million", "−5.50\u00a0USD", "1 session uses a model without a price (own), counted at the mean price"},
		"/lessons/helpful":  {"10.00 USD", "0.0010\u00a0USD an injection"},
		"/compare?by=model": {"Cost a session, USD", "10.5000"},
		"/compare": { // only one of the two sessions has a price, and only one has a reward
			"10.5000<small>too few for an interval</small><small>of 1 of 2 sessions; no price or no tokens for the others</small>",
			`of <a href="/sessions?agent=coder&min_reward=0">1 session</a> with a reward`, `/sessions?agent=coder">2 sessions</a>`,
			`mean reward 1.00 of <a href="/sessions?agent=coder&arm=injected&lesson=helpful&min_reward=0">1 session</a>`,
		},
		"/api/compare":         {`"sessions":2,"reward":1,"rewarded":1`},
		"/runs/r":              {"12.50 USD", "3,300,001 tokens; the cost excludes 1 session without a price"},
		"/api/sessions":        {`"cost":10.5`, `"cost":2`, `"cost":null`},
		"/api/export/sessions": {`"cost":10.5`, `"cost":2`, `"cost":null`},
		"/api/export/sessions?format=csv": {
			",1000000,100000,10.5,", ",1000000,200000,2,", ",1000000,1,,",
		},
	} {
		page := html.UnescapeString(body(t, f.do(t, "GET", path, bearer(token))))
		for _, text := range want {
			if !strings.Contains(page, text) {
				t.Errorf("%s lacks %q", path, text)
			}
		}
	}
}

func TestOverviewShowsBuiltInPriceDate(t *testing.T) {
	f, _, _ := newLessonFixture(t, func(o *Options) {
		o.Read.Archive = listArchive{o.Read.Archive, []store.SessionItem{{Model: "gpt-5", Input: 10}}}
		o.Program.Prices = func() Prices { return Prices{Models: price.BuiltIn(), Currency: "USD"} }
	})
	f.reports.report.Global.NTreated = 1
	if page := body(t, f.do(t, "GET", "/", bearer(token))); !strings.Contains(page, "The cost uses built-in list prices from "+price.BuiltIn().BuiltInDate+"; set your own prices in the configuration (key prices)") {
		t.Error("overview: got no date of the built-in prices or no advice to set the key \"prices\", want both")
	}
}
