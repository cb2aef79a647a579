package admin_test

import (
	"strings"
	"testing"
	"time"

	"precept/admin"
	"precept/bandit/feedback"
	"precept/bandit/trial"
	"precept/internal/sample"
	"precept/store"
)

// sessionPageWith returns the page of a closed session with one turn. It calls change to alter the session first.
func sessionPageWith(t *testing.T, change func(*store.Transcript)) string {
	t.Helper()
	return mainText(t, "/sessions/s-1", func(source *wordSource, _ *admin.Options) {
		source.transcript = store.Transcript{
			SessionItem: store.SessionItem{ID: "s-1", Agent: "coder", Model: "gpt", Closed: true, Turns: 1},
			Exchanges:   1, Next: 1,
			TurnItems: []store.TurnItem{{Turn: 1, Model: "gpt", Status: 200, Outcome: sample.Complete, LatencyMS: 1250}},
		}
		change(&source.transcript)
	})
}

func TestTurnHeadingShowsMarksAndTokens(t *testing.T) {
	const mark = `<span class="mark">`
	if page := sessionPageWith(t, func(*store.Transcript) {}); strings.Contains(page, mark) {
		t.Errorf("turn without unusual properties = %q, want no %q", page, mark)
	} else if strings.Contains(page, "tokens in") {
		t.Errorf(`turn without unusual properties = %q, want no "tokens in"`, page)
	}
	for want, change := range map[string]func(turn *store.TurnItem){
		mark + "client gone</span>":                          func(x *store.TurnItem) { x.Outcome = "client_gone" },
		mark + "status 400</span>":                           func(x *store.TurnItem) { x.Status = 400 },
		mark + "loop</span>":                                 func(x *store.TurnItem) { x.Loops = 2 },
		mark + "copy cut off at limits.capture_bytes</span>": func(x *store.TurnItem) { x.Truncated = true },
		mark + "5 redacted</span>":                           func(x *store.TurnItem) { x.Redacted = map[string]int{"email": 2, "card": 3} },
		"so the turn is not shown.":                          func(x *store.TurnItem) { x.Hidden = true },
		" · 12,345 tokens in (7 cached), 9 out":              func(x *store.TurnItem) { x.Input, x.Cached, x.Output = 12345, 7, 9 },
		" · gpt · 1.25 s</span>":                             func(*store.TurnItem) {},
	} {
		checkPage(t, want, sessionPageWith(t, func(s *store.Transcript) { change(&s.TurnItems[0]) }), want)
	}
}

func TestTurnEntriesShowAuthorAndText(t *testing.T) {
	long := strings.Repeat("x", 1200)
	for want, entry := range map[string]store.Entry{
		`"said user"><div class="who">user</div><pre dir="auto">hello</pre></div>`: {Kind: "user", Text: "hello"},
		`"said assistant"><div class="who">assistant</div></div>`:                  {Kind: "assistant"},
		`"said call"><div class="who">call to bash</div>`:                          {Kind: sample.EventCall, Tool: "bash"},
		`"said result"><div class="who">answer from bash</div>`:                    {Kind: sample.MessageResult, Tool: "bash", Outcome: "ok"},
		`"said result"><div class="who">answer from a tool</div>`:                  {Kind: sample.MessageResult},
		`"said result"><div class="who">answer from bash: pending</div>`:           {Kind: sample.MessageResult, Tool: "bash", Outcome: "pending"},
		`"said result error"><div class="who">answer from bash: failed <span class="quiet">(detected by exit_code)</span></div>`: {
			Kind: sample.MessageResult, Tool: "bash", Outcome: "error", Rule: "exit_code",
		},
		`"said error"><div class="who">upstream error</div>`: {Kind: store.KindError, Text: "busy"},
		`"said block"><div class="who">inserted by precept <span class="slug">look</span></div><pre dir="auto">- look</pre>`: {
			Kind: store.KindBlock, Text: "- look\n\n", Slugs: []string{"look"},
		},
		`"said block"><div class="who">loop warning, inserted by precept</div>`: {Kind: store.KindBlock, Loop: true},
		`<span class="quiet">inserted again after the agent`:                    {Kind: store.KindBlock, Reinserted: true},
		`"said ghost"><div class="who">withheld at random <span class="quiet">the injection probability was 0.75</span></div>`: {
			Kind: store.KindWithheld, Propensity: 0.75, Why: "withheld",
		},
		`"said ghost"><div class="who">not shown: control session</div>`:          {Kind: store.KindWithheld, Why: "control"},
		`<p class="quiet">5 further bytes are not shown; an export has them.</p>`: {Kind: "user", Text: "a", CutBytes: 5},
		`<details><summary>Be careful.</summary><pre dir="auto">Be careful.` + "\n" + `Ask.</pre>`: {
			Kind: sample.MessageSystem, Text: "Be careful.\nAsk.",
		},
		`<pre dir="auto">` + long + `</pre></div>`:                              {Kind: "user", Text: long},
		`<details><summary>` + long[:90] + `…</summary><pre dir="auto">` + long: {Kind: "user", Text: long + "x"},
	} {
		page := sessionPageWith(t, func(s *store.Transcript) { s.TurnItems[0].Entries = []store.Entry{entry} })
		checkPage(t, entry.Kind, page, want)
		if folded := strings.Contains(want, "<summary>"); strings.Contains(page, "<summary>") != folded {
			t.Errorf("entry of kind %q: folded = %v, want %v", entry.Kind, !folded, folded)
		}
		if entry.CutBytes == 0 && strings.Contains(page, "further bytes") || entry.Rule == "" && strings.Contains(page, "detected by") ||
			!entry.Reinserted && strings.Contains(page, "inserted again") || entry.Propensity == 0 && strings.Contains(page, "injection probability was") {
			t.Errorf("entry of kind %q: got data on the page that the entry does not contain; page:\n%s", entry.Kind, page)
		}
	}
}

func TestSessionPageShowsStateAndReward(t *testing.T) {
	setReward := func(s *store.Transcript) *store.RewardDetail {
		s.Verdict, s.Rewarded.Value, s.Rewarded.Tier, s.Rewarded.Definition = sample.Good, new(0.875), feedback.TierVerifier, "user"
		return &s.Rewarded
	}
	addFeedback := func(s *store.Transcript, change func(*store.SourceItem)) {
		x := store.SourceItem{Entry: feedback.Entry{Type: "score", Score: 0.5, Source: "user", At: time.Unix(1e9, 0)}}
		change(&x)
		setReward(s).Sources = []store.SourceItem{x}
	}
	for name, tc := range map[string]struct {
		change   func(*store.Transcript)
		wantText []string // a leading ! means that the page must not contain the text
	}{
		"closed session without feedback": {func(*store.Transcript) {}, []string{
			"!Control session", "!outside the experiment", "!refused this session", "!opted out", "!; open", "!Earlier turns",
			"!Later turns", "no feedback", `<strong class="">–</strong>`, `<strong>not matched</strong><small>word</small>`, "<h1>s-1</h1>", "1</span> <span class=\"unit\">turn</span>",
			"!sources", `name="sure"`, `value="approval"`, "!No turn is stored",
		}},
		"session name":                      {func(s *store.Transcript) { s.Name = "ci-42" }, []string{"<h1>ci-42</h1>"}},
		"blank name":                        {func(s *store.Transcript) { s.Name = " \t" }, []string{"<h1>s-1</h1>"}},
		"control session":                   {func(s *store.Transcript) { s.Control = true }, []string{"Control session"}},
		"excluded session":                  {func(s *store.Transcript) { s.Excluded = true }, []string{"outside the experiment. An earlier release excluded the session"}},
		"excluded for an identical history": {func(s *store.Transcript) { s.Excluded, s.ExcludedFor = true, trial.ExcludedTwin }, []string{"outside the experiment. Another conversation had an identical history"}},
		"reward of an excluded session": {func(s *store.Transcript) { s.Excluded, s.ExcludedFor = true, trial.ExcludedTwin; setReward(s) }, []string{
			"from verifier results; not counted, because the session is outside the experiment (identical histories)<", "!; counted",
		}},
		"changed request refused upstream": {func(s *store.Transcript) { s.Refused = true }, []string{"upstream refused a request that precept had changed"}},
		"two turns opted out":              {func(s *store.Transcript) { s.OptedOut = []int{2, 3} }, []string{"2 turns opted out and are not stored"}},
		"one turn opted out":               {func(s *store.Transcript) { s.OptedOut = []int{2} }, []string{"1 turn opted out and is not stored"}},
		"open session":                     {func(s *store.Transcript) { s.Closed = false; setReward(s) }, []string{"; open", "; counts when the session closes"}},
		"no stored turn":                   {func(s *store.Transcript) { s.TurnItems = nil }, []string{"No turn is stored yet"}},
		"second page of turns":             {func(s *store.Transcript) { s.From = store.TurnsShown + 7 }, []string{`?from=7" rel="prev">Earlier turns`}},
		"page from the fourth turn":        {func(s *store.Transcript) { s.From = 3 }, []string{`?from=0" rel="prev">Earlier turns`}},
		"later turns":                      {func(s *store.Transcript) { s.Exchanges = 9 }, []string{`?from=1" rel="next">Later turns`, "9 kept"}},
		"session with a reward": {func(s *store.Transcript) { setReward(s) }, []string{
			`<strong class="good">0.88</strong>`, "from verifier results<", "!counted", `<div class="good">`,
		}},
		"counted reward": {func(s *store.Transcript) { setReward(s).Counted = new(0.875) }, []string{"verifier results; counted<"}},
		"poor session":   {func(s *store.Transcript) { setReward(s); s.Verdict = sample.Poor }, []string{`<strong class="bad">`}},
		"loops":          {func(s *store.Transcript) { s.Loops = 1 }, []string{`<div class="warn"><dt>`, `1</span> <span class="unit">loop</span>`}},
		"feedback from a user": {func(s *store.Transcript) { addFeedback(s, func(*store.SourceItem) {}) }, []string{
			"<li><strong>score</strong> 0.50 by user, <time", "!rule", "!, turn 0", "!decides", "!<q>",
		}},
		"feedback that decides the reward": {func(s *store.Transcript) { addFeedback(s, func(x *store.SourceItem) { x.Decides = true }) }, []string{
			`<li class="decides">`, `<span class="slug">decides</span>`,
		}},
		"feedback with author, rule and comment": {func(s *store.Transcript) {
			addFeedback(s, func(x *store.SourceItem) { x.Rater, x.Rule, x.Turn, x.Comment = "kim", "praise", 3, "fine" })
		}, []string{" 0.50 by user (kim), rule praise, turn 3, ", "<q>fine</q>"}},
		"lessons and rules file sections": {func(s *store.Transcript) {
			s.Fates = []store.Fate{
				{Slug: "a", State: "injected", Propensity: 0.9, Turn: 2},
				{Slug: "b", State: "withheld", Propensity: 0.5, Turn: 4},
				{Slug: "h", State: "injected", Triggers: `keyword "push it" in the user's message`, Propensity: 0.9, Turn: 2},
				{Slug: "c", State: "control"},
				{Slug: "d", State: "not_picked", Why: "room"},
				{Slug: "e", State: "not_picked", Why: "slots"},
				{Slug: "f", State: "not_picked", Why: "rank"},
				{Slug: "g", State: "not_picked"},
				{Slug: "rule:AGENTS.md#Own", State: "withheld", Propensity: 0.5, Turn: 4},
				{Slug: "rule:AGENTS.md#Cut", State: "withheld", Propensity: 0.5, Turn: 4, Shared: true},
				{Slug: "rule:AGENTS.md#Kept", State: "injected", Propensity: 0.5, Turn: 4, Shared: true},
			}
		}, []string{
			`>a</a> <strong>injected</strong><small>turn 2; the injection probability was 0.90</small>`,
			`>b</a> <strong>withheld</strong><small>withheld at random, turn 4; the injection probability was 0.50</small>`,
			`>h</a> <strong>injected</strong><small>keyword "push it" in the user's message; turn 2;`,
			`>c</a> <strong>control</strong><small>matched; a control session, chosen at random`,
			`>d</a> <strong>not picked</strong><small>matched; no room for the text (inject.budget_bytes)</small>`,
			"<small>removed at random: a rules file section; turn 4; the probability of keeping the section was 0.50</small>",
			"<small>removed at random: a rules file section; the run's sessions share the random assignment; the probability of keeping the section was 0.50</small>",
			"<small>requests in the run keep a rules file section; the run's sessions share the random assignment; the probability of keeping the section was",
			"better lessons took all places", "expects less gain than the inserted tokens cost", "the reason was not stored", `class="not_matched"`,
		}},
	} {
		checkPage(t, name, sessionPageWith(t, tc.change), tc.wantText...)
	}
}

func TestSessionsPageListsAndFilters(t *testing.T) {
	list := func(target string, change func(*store.SessionList)) string {
		return mainText(t, target, func(source *wordSource, _ *admin.Options) {
			source.list = store.SessionList{RowsRead: 7, OldestStart: new(time.Unix(1e9, 0)), Sessions: []store.SessionItem{{
				ID: "s-1", Agent: strings.Repeat("a", 49), Turns: 2, Verdict: "unrated",
			}}}
			change(&source.list)
		})
	}
	none := func(l *store.SessionList) { l.Sessions = nil }
	for name, tc := range map[string]struct {
		target   string
		change   func(*store.SessionList)
		wantText []string
	}{
		"unrated session": {"/sessions", func(*store.SessionList) {}, []string{
			`href="/sessions/s-1"`, strings.Repeat("a", 48) + "…<", `<td data-label="Loops">0</td>`, `<td data-label="Reward" class="">–<small>unrated</small></td>`,
			"!outside the experiment", "!control<", "!hit", "<span>1 shown</span>", "!Newest</a>", "!Older</a>", "!Clear", "!the sessions one by one",
		}},
		"session with a loop": {"/sessions", func(l *store.SessionList) { l.Sessions[0].Loops = 1 }, []string{`<td data-label="Loops" class="warn">1</td>`}},
		"good session":        {"/sessions", func(l *store.SessionList) { l.Sessions[0].Verdict, l.Sessions[0].Reward = sample.Good, new(1.0) }, []string{`class="good">1.00<small>good</small></td>`}},
		"poor session":        {"/sessions", func(l *store.SessionList) { l.Sessions[0].Verdict = sample.Poor }, []string{`class="bad">–<small>poor</small></td>`}},
		"control session":     {"/sessions", func(l *store.SessionList) { l.Sessions[0].Control = true }, []string{`<span class="slug control">control</span>`}},
		"excluded session": {"/sessions", func(l *store.SessionList) {
			l.Sessions[0].Excluded, l.Sessions[0].ExcludedFor = true, trial.ExcludedLate
		}, []string{`title="The store did not answer in time, so`, "outside the experiment"}},
		"injected and withheld lesson": {"/sessions", func(l *store.SessionList) {
			l.Sessions[0].Injected, l.Sessions[0].Withheld = []string{"a"}, []string{"b"}
		}, []string{
			`<span class="slug">a</span>`, `<span class="slug ghost" title="withheld at random">b</span>`,
		}},
		"search hit": {"/sessions?words=x", func(l *store.SessionList) { l.Sessions[0].Found = &store.Found{Turn: 3, Role: "user", Text: "a x"} }, []string{
			`<span class="hit">turn 3, user: a x</span>`, "the sessions one by one",
		}},
		"filter by agent":          {"/sessions?agent=x", func(*store.SessionList) {}, []string{"1 shown of the 7 sessions since <time", `<a href="/sessions">Clear</a>`}},
		"filter by loops":          {"/sessions?loops=true", func(*store.SessionList) {}, []string{">Clear</a>"}},
		"filter by lowest reward":  {"/sessions?min_reward=0", func(*store.SessionList) {}, []string{">Clear</a>", `value="0"`}},
		"filter by highest reward": {"/sessions?max_reward=0.5", func(*store.SessionList) {}, []string{">Clear</a>", `value="0.5"`}},
		"filter by start":          {"/sessions?since=2026-01-01", func(*store.SessionList) {}, []string{">Clear</a>", `value="2026-01-01"`}},
		"filter by tool":           {"/sessions?tool=bash", func(*store.SessionList) {}, []string{">Clear</a>", "the sessions one by one"}},
		"older sessions":           {"/sessions?agent=x", func(l *store.SessionList) { l.Next = "n1" }, []string{`href="/sessions?after=n1&agent=x" rel="next">Older</a>`}},
		"second page":              {"/sessions?agent=x&after=n1", func(*store.SessionList) {}, []string{`href="/sessions?agent=x">Newest</a>`}},
		"newest first":             {"/sessions?agent=x", func(l *store.SessionList) { l.Next = "n1" }, []string{`href="/sessions?agent=x&order=oldest">Show the oldest first</a>`, "Newest first."}},
		"oldest first": {"/sessions?agent=x&order=oldest&after=n1", func(l *store.SessionList) { l.Next = "n2" }, []string{
			"Oldest first.", `href="/sessions?agent=x">Show the newest first</a>`,
			`href="/sessions?after=n2&agent=x&order=oldest" rel="next">Newer</a>`, `href="/sessions?agent=x&order=oldest">Oldest</a>`,
			`name="order" value="oldest"`, "1 shown of the 7 sessions from <time", "!Older</a>", `format=csv&order=oldest`,
			`<p id="zone" class="quiet">Times are in UTC.</p>`,
		}},
		"no session":          {"/sessions", none, []string{"No session yet", "!No matching session"}},
		"no matching session": {"/sessions?agent=x", none, []string{"None of the 7 sessions matches. Use fewer filters", "!No session yet"}},
		"no matching session on this page": {"/sessions?agent=x", func(l *store.SessionList) { none(l); l.Next = "n" }, []string{
			"None of the 7 sessions since <time", "There are older sessions.",
		}},
		"empty store":  {"/sessions?agent=x", func(l *store.SessionList) { *l = store.SessionList{} }, []string{"No session is in this time range", "!None of the 0", "!shown"}},
		"unknown name": {"/sessions?session=x", func(l *store.SessionList) { *l = store.SessionList{} }, []string{"No session has this name or id", "!None of the 0"}},
	} {
		checkPage(t, name, list(tc.target, tc.change), tc.wantText...)
	}
}

func TestOnlyPagesWithNewestDataRefresh(t *testing.T) {
	for target, live := range map[string]bool{
		"/": true, "/sessions": true, "/sessions?agent=x": true, "/sessions?words=x": false, "/sessions?after=x": false,
		"/samples": true, "/samples?after=x": false, "/health": true, "/lessons": false, "/queue": false, "/help": false,
	} {
		w := newWordSource("word")
		h, err := admin.New(w.options())
		if err != nil {
			t.Fatal(err)
		}
		page := readBody(serve(h, target, serve(h, "/login?token=key", nil).Cookies()[0]))
		if got := strings.Contains(page, `id="refresh"`) && strings.Contains(page, `id="stale"`); got != live {
			t.Errorf("%s: got automatic refresh %v, want %v", target, got, live)
		}
	}
}

func TestSessionPageLinksSamplesTranscriptAndTags(t *testing.T) {
	page := sessionPageWith(t, func(s *store.Transcript) {
		s.Tags = []string{"team:blue"}
		s.TurnItems[0].ID, s.TurnItems[0].RequestID, s.TurnItems[0].Response = "x-1", "req_1", "resp_1"
	})
	for _, want := range []string{"/samples?session=s-1", "/api/export/sessions?format=transcripts&session=s-1", "/sessions?tag=team%3Ablue", "req_1", "resp_1", "x-1"} {
		checkPage(t, want, page, want)
	}
}
