package admin_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"precept/admin"
	"precept/configs"
	"precept/internal/sample"
	"precept/store"
)

func TestSamplesPageShowsPreviewsAndExports(t *testing.T) {
	for name, tc := range map[string]struct {
		target   string
		change   func(*store.SampleList)
		wantText []string // a leading ! means that the page must not contain the text
	}{
		"unrated sample without output": {"/samples", func(*store.SampleList) {}, []string{
			`<span class="family">error correction</span><span class="slug ">unrated</span><span class="asked">what was asked</span>`,
			"no text", "!rated by", `href="/sessions/s-1">the session`, "<span>1 shown</span>", "!Clear", "!Newest</a>", "!Older</a>",
			`<option value="">any</option>`, `<option value="error_correction">error correction</option>`, "!further bytes",
			`href="/api/export?format=mplp&tenant=default"`, `href="/api/export?format=experiment&tenant=default"`,
		}},
		"rated sample": {"/samples", func(l *store.SampleList) {
			f := &l.Samples[0].Sample.Feedback
			f.QualityLabel, f.Source, f.Type = sample.Poor, "user", "rejection"
		}, []string{`<span class="slug bad">poor</span>`, ", rated by user, rejection; "}},
		"sample with output": {"/samples", func(l *store.SampleList) {
			l.Samples[0].Sample.Output = map[string]any{"a": "short", "b": strings.Repeat("w ", 100), "z_id": strings.Repeat("i", 300), "n": 7}
		}, []string{"<p>" + strings.Repeat("w ", 70) + "…</p>", "!no text"}},
		"preview over the limit": {"/samples", func(l *store.SampleList) {
			l.Samples[0].Sample.Output = map[string]any{"a_id": strings.Repeat("é", 20000)}
		}, []string{"further bytes</pre>", "!�"}},
		"filter by quality, family, agent and start": {"/samples?quality=good&family=error_correction,dialog_response&agent=x&since=2026-01-01", func(*store.SampleList) {}, []string{
			"1 shown of 7 read", `<a href="/samples">Clear</a>`, `<option value="good" selected>`, `value="2026-01-01"`, `<option value="error_correction" selected>`,
			`href="/api/export?agent=x&family=error_correction%2Cdialog_response&format=openai&quality=good&since=2026-01-01&tenant=default"`, "!format=experiment",
		}},
		"filter by lesson and end": {"/samples?lesson=l&until=2026-02-01", func(*store.SampleList) {}, []string{
			`href="/api/export?format=experiment&lesson=l&tenant=default&until=2026-02-01"`, ">Clear</a>",
		}},
		"older samples": {"/samples?agent=x", func(l *store.SampleList) { l.Next = "n1" }, []string{`href="/samples?after=n1&agent=x" rel="next">Older</a>`}},
		"second page":   {"/samples?agent=x&after=n1", func(*store.SampleList) {}, []string{`href="/samples?agent=x">Newest</a>`}},
		"no sample":     {"/samples", func(l *store.SampleList) { *l = store.SampleList{} }, []string{"No sample yet", "!No matching sample", "!shown"}},
		"no matching sample": {"/samples?agent=x", func(l *store.SampleList) { l.Samples = nil }, []string{
			"None of the 7 samples read matches. Use fewer filters.", "!There are older", "!No sample yet",
		}},
		"no matching sample on this page": {"/samples?agent=x", func(l *store.SampleList) { l.Samples, l.Next = nil, "n" }, []string{"There are older samples.", "!Use fewer filters"}},
	} {
		page := mainText(t, tc.target, func(source *wordSource, _ *admin.Options) {
			source.samples = store.SampleList{RowsRead: 7, Samples: []store.SampleItem{{Session: "s-1", Agent: "coder", Sample: sample.Sample{
				ID: "x", Family: sample.ErrorCorrection, Input: map[string]any{"text": "what\n\twas  asked", "no": "a"},
			}}}}
			tc.change(&source.samples)
		})
		checkPage(t, name, page, tc.wantText...)
	}
}

func TestHealthPageShowsStateAndProblems(t *testing.T) {
	for name, tc := range map[string]struct {
		change   func(*admin.Health)
		wantText []string
	}{
		"no problem": {func(*admin.Health) {}, []string{
			`<div class="good"><dt>`, `<span class="value">healthy</span>`, "<small>sqlite</small>", "!class=\"bad\"", "!problem", "!class=\"warn\"", "!>Lessons</h2>",
			"precept v1, go1, process 7, since <time", "of 12,345 admitted", `<th scope="row" class="indent more">opted out</th><td>4</td>`,
			`<th scope="row">On disk</th><td>1.0 MiB</td>`, `<th scope="row">Feedback waiting for the session</th><td>2</td>`,
			`<th scope="row">Late samples</th><td>3</td>`, `<th scope="row">Sessions and runs</th><td>9</td>`, "No entries. Approvals", "1 of 2 keys differ from the defaults",
			`<tr class="changed"><th scope="row" title="how often">bandit.epsilon</th><td data-label="Value" class="text wrap"><code>0.25</code></td><td data-label="Default" class="text wrap quiet"><code>0.1</code>`,
			`<span class="value">0.4</span>`, "<small>of 1023 B</small>",
		}},
		"revision":                         {func(h *admin.Health) { h.Revision = "0123456789abcdef" }, []string{"precept v1 (0123456789ab), go1"}},
		"failing store":                    {func(h *admin.Health) { h.Store.Healthy = false }, []string{`<div class="bad">`, ">failing<"}},
		"unreadable store":                 {func(h *admin.Health) { h.Store.Problem = "no disk" }, []string{`<div class="bad">`, ">failing<", `<p class="problem">The store cannot be read: no disk</p>`}},
		"store notice":                     {func(h *admin.Health) { h.Store.Notice = "it lost some" }, []string{`<p class="problem">it lost some</p>`, ">healthy<"}},
		"unreadable account":               {func(h *admin.Health) { h.Account.Problem = "no answer" }, []string{"The exchange counts are incomplete: no answer"}},
		"unbalanced account":               {func(h *admin.Health) { h.Account.Balanced = false }, []string{"The exchange counts do not balance"}},
		"lost exchanges":                   {func(h *admin.Health) { h.Account.Dropped["full"] = 3 }, []string{`<div class="bad">`, `<span class="value">3</span> <span class="unit">exchanges`, `<td>7</td>`}},
		"one lost exchange":                {func(h *admin.Health) { h.Account.Dropped["full"] = 1 }, []string{`<span class="value">1</span> <span class="unit">exchange</span>`}},
		"lag over a minute":                {func(h *admin.Health) { h.Outbox.Lag = 60.5 }, []string{`<div class="bad">`, ">60.5<"}},
		"lag of one minute":                {func(h *admin.Health) { h.Outbox.Lag = 60 }, []string{`!class="bad"`}},
		"no outbox":                        {func(h *admin.Health) { h.Outbox = admin.Outbox{} }, []string{"no outbox", `<span class="value">–</span>`}},
		"exchange set aside after a panic": {func(h *admin.Health) { h.Account.SetAside = 1 }, []string{`Left unprocessed after a panic</th><td class="bad">1</td>`}},
		"failed writes":                    {func(h *admin.Health) { h.SinceStart.WriteErrors = 2 }, []string{`Failed writes to the store</th><td class="warn">2</td>`}},
		"dropped exchanges":                {func(h *admin.Health) { h.SinceStart.Dropped = map[string]int64{"queue_full": 2, "none": 0} }, []string{`Dropped: queue full</th><td class="bad">2</td>`, "!Dropped: none"}},
		"figures from the program": {func(h *admin.Health) {
			h.Figures = []admin.Figure{{Name: "Lessons", Value: "12345"}, {Name: "Files", Value: "one is bad", Bad: true}}
		}, []string{`>Lessons</h2>`, `<td>12,345</td>`, `<td class="text bad">one is bad</td>`}},
		"rejected configuration": {func(h *admin.Health) { h.ReloadError = "line 3" }, []string{"was rejected; the previous configuration stays in effect: line 3"}},
	} {
		page := mainText(t, "/health", func(_ *wordSource, o *admin.Options) {
			o.Program.Health = func(context.Context) admin.Health {
				h := admin.Health{Version: "v1", Go: "go1", PID: 7, Started: time.Unix(1e9, 0)}
				h.Account.Admitted, h.Account.Balanced, h.Account.Dropped = 12345, true, map[string]int64{"opted_out": 4}
				h.Store = admin.StoreInfo{Kind: "sqlite", Healthy: true, Counts: map[string]int64{"bytes": 1 << 20, "sessions": 9, "parked": 2, "late_samples": 3}}
				h.Outbox = admin.Outbox{Dir: "d", Limit: 1023, Lag: 0.4}
				h.Config = []configs.Setting{{Path: "bandit.epsilon", Value: "0.25", Default: "0.1", Usage: "how often", Changed: true}, {Path: "listen", Value: "x", Default: "x"}}
				tc.change(&h)
				return h
			}
		})
		checkPage(t, name, page, tc.wantText...)
	}
}
