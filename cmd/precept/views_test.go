package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"precept/admin"
	"precept/internal/sample"
	"precept/store"
	"precept/store/storetest"
)

// asked gets a path of the admin listener.
func (r *running) ask(t *testing.T, path string, into any) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.Admin+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer e2e-token")
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // only read
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	switch into := into.(type) {
	case nil:
	case *string:
		*into = string(b)
	default:
		if err := json.Unmarshal(b, into); err != nil {
			t.Fatalf("%s: %v: %s", path, err, b)
		}
	}
	return res.StatusCode
}

const ownedWords = "Run the build script. <script>alert(1)</script> \x1b[31m"

// A session is listed, read, watched, rated, exported and forgotten through the admin listener,
// over SQLite and over Redis.
func TestSessionsOfARunningServer(t *testing.T) {
	t.Setenv("PRECEPT_ADMIN_TOKEN", "e2e-token")
	server := storetest.StartRedis(t)
	for name, flags := range map[string][]string{"sqlite": nil, "redis": {"--store-url", server.URL()}} {
		t.Run(name, func(t *testing.T) { lived(t, flags) })
	}
}

func lived(t *testing.T, flags []string) {
	t.Helper()
	m := newModel(t, []step{{Text: "Done."}})
	dir := t.TempDir()
	p := start(t, dir, append(append(always(m, lessonDir(t)), "--reward-close-after", "4s"), flags...)...)
	a := &writer{t: t, base: p.Data, dialect: "chat", header: map[string]string{"Precept-Session": "one"}}
	a.user(ownedWords)
	a.send(false)
	hidden := &writer{t: t, base: p.Data, dialect: "chat", header: map[string]string{"Precept-Session": "opted", "Precept-Learn": "off"}}
	hidden.user("Run the build script, the canary-word is secret.")
	hidden.send(false)
	var l store.SessionList
	eventually(t, "the session is stored", func() bool {
		p.ask(t, "/api/sessions?words="+url.QueryEscape("<script>"), &l)
		return len(l.Sessions) == 1
	})
	one := l.Sessions[0]
	if one.Name != "one" || one.Turns != 1 || len(one.Injected) != 1 || one.Found == nil {
		t.Errorf("%+v", one)
	}
	var tr store.Transcript
	p.ask(t, "/api/sessions/one", &tr)
	var kinds []string
	for _, e := range tr.Said[0].Entries {
		kinds = append(kinds, e.Kind)
	}
	if got := strings.Join(kinds, " "); !strings.HasSuffix(got, "block user assistant") {
		t.Errorf("entries: %s", got)
	}
	watched(t, dir, one.ID)
	if code, _ := post(t, p.Admin+"/api/feedback", http.Header{"Authorization": {"Bearer e2e-token"}}, `{"session_id":"one","source":"user","type":"score","score":0.8}`); code != http.StatusAccepted {
		t.Errorf("feedback: %d", code)
	}
	eventually(t, "the session is closed, and has its sample", func() bool {
		var s store.SampleList
		p.ask(t, "/api/sessions/one", &tr)
		p.ask(t, "/api/samples?quality=good", &s)
		return tr.Closed && tr.Rewarded.Counted != nil && *tr.Rewarded.Counted == 0.8 && len(s.Samples) == 1
	})
	out, err := runVerb(t, "watch", one.ID, "--data-dir", dir)
	if err != nil || !strings.Contains(out, "closed after turn 1: reward 0.80 (good), from tier 1") {
		t.Errorf("%v: %s", err, out)
	}
	sameExports(t, p, dir, flags)
	for query, some := range map[string]bool{"session=" + one.ID: true, "agent=" + one.Agent: true, "agent=nobody": false, "session=other": false} {
		for _, format := range []string{"mplp", "openai"} {
			var text string
			if code := p.ask(t, "/api/export?format="+format+"&"+query, &text); code != http.StatusOK || (text != "") != some {
				t.Errorf("%s of %s: %d, %q", format, query, code, text)
			}
		}
	}
	health(t, p)
	var page string
	for _, path := range []string{"/sessions", "/sessions/" + one.ID, "/samples", "/health", "/api/sessions", "/api/samples", "/api/export?format=openai", "/api/health"} {
		if code := p.ask(t, path, &page); code != http.StatusOK || strings.Contains(page, "canary-word") || strings.Contains(page, "e2e-token") || strings.Contains(page, "\x1b") {
			t.Errorf("%s: %d: %s", path, code, page)
		}
	}
	if code, text := post(t, p.Admin+"/api/forget", http.Header{"Authorization": {"Bearer e2e-token"}}, `{"session":"one"}`); code != http.StatusOK || !strings.Contains(text, `"forgotten":1`) {
		t.Errorf("forget: %d %s", code, text)
	}
	if code := p.ask(t, "/api/sessions/one", nil); code != http.StatusNotFound {
		t.Errorf("after it is forgotten: %d", code)
	}
}

// watched follows the session as a person would, and as a program would.
func watched(t *testing.T, dir, id string) {
	t.Helper()
	for _, args := range [][]string{{"watch", "one"}, {"watch", id}, {"watch", "--latest"}} {
		out, err := runVerb(t, append(args, "--once", "--data-dir", dir)...)
		if err != nil || !strings.Contains(out, "PRECEPT +") || !strings.Contains(out, "[check-the-target]") || !strings.Contains(out, "<script>") || strings.Contains(out, "\x1b") {
			t.Errorf("%v: %v: %s", args, err, out)
		}
		for line := range strings.Lines(out) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 {
				t.Errorf("%d columns: %s", n, line)
			}
		}
	}
	out, err := runVerb(t, "watch", "one", "--once", "--json", "--data-dir", dir)
	var turn store.TurnItem
	if err != nil || json.Unmarshal([]byte(out), &turn) != nil || turn.Turn != 1 {
		t.Errorf("%v: %s", err, out)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"watch", "--once", "--data-dir", dir, "nobody"}, "nothing is kept of this session"},
		{[]string{"watch", "--latest", "--data-dir", t.TempDir()}, "no server runs on this data directory"},
		{[]string{"watch"}, "name one session"},
		{[]string{"watch", "one", "--latest"}, "name one session"},
	} {
		if out, err := runVerb(t, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v: %s", c.args, err, out)
		}
	}
}

// sameExports holds the listener's export to the verb's.
func sameExports(t *testing.T, p *running, dir string, flags []string) {
	t.Helper()
	for _, format := range admin.ExportFormats() {
		var web string
		if code := p.ask(t, "/api/export?format="+format, &web); code != http.StatusOK || web == "" && format != "preference" {
			t.Errorf("%s: %d, %d bytes", format, code, len(web))
		}
		if verb := exported(t, dir, append([]string{"--format", format, "--tenant", "default"}, flags...)...); verb != web && format != "parquet" {
			t.Errorf("%s: the listener writes\n%s\nthe verb\n%s", format, web, verb)
		}
	}
}

// health looks whether the account balances, and is the doctor's.
func health(t *testing.T, p *running) {
	t.Helper()
	var h admin.Health
	eventually(t, "the account knows the exchange", func() bool {
		p.ask(t, "/api/health", &h)
		return h.Account.Stored > 0
	})
	if !h.Account.Balanced || h.Account.Admitted < 1 || h.PID != p.cmd.Process.Pid || h.Account.Trouble+h.Store.Trouble != "" || !h.Store.Healthy || len(h.Config) < 50 {
		t.Errorf("%+v %+v", h.Account, h.Store)
	}
	changed := map[string]string{}
	for _, s := range h.Config {
		if s.Changed {
			changed[s.Path] = s.Value
		}
	}
	if changed["reward.close_after"] != "4s" || changed["admin.tokens"] == "" || strings.Contains(changed["admin.tokens"], "e2e") {
		t.Errorf("changed: %v", changed)
	}
	var audit bool
	for _, n := range h.Audit {
		audit = audit || n.Action == "POST /api/feedback"
	}
	if !audit {
		t.Errorf("the audit: %+v", h.Audit)
	}
}

// What watch writes keeps to its columns, whatever was said, and is coloured only where that is
// wanted.
func TestWatchPage(t *testing.T) {
	turn := store.TurnItem{Turn: 7, Outcome: sample.Failed, Loops: 1, Input: 12, Entries: []store.Entry{
		{Kind: sample.EventUser, Text: strings.Repeat("日本語のとても長い文章 ", 20) + "\x1b]0;owned\x07\u202eevil"},
		{Kind: store.KindBlock, Text: strings.Repeat("x", 500) + "\nEnd of lessons.\n\n", Slugs: []string{"a"}},
		{Kind: store.KindWithheld, Slugs: []string{"kept-back"}, Chance: 0.7, Why: "withheld"},
		{Kind: sample.EventCall, Tool: "bash", Text: "{\t}"},
		{Kind: sample.SaidResult, Tool: "bash", Outcome: "error", Text: "Error 2"},
		{Kind: sample.SaidSystem, Text: strings.Repeat("rule\n", 50)},
	}}
	for _, wide := range []int{40, 80, 132} {
		for _, line := range (page{width: wide}).turn(&turn) {
			n := 0
			for _, r := range line {
				n += cells(r)
			}
			if n > wide || strings.ContainsAny(line, "\x1b\x07\u202e\t") {
				t.Errorf("%d of %d columns: %q", n, wide, line)
			}
		}
	}
	plain := strings.Join(page{width: 80}.turn(&turn), "\n")
	for _, want := range []string{"turn 7", "LOOP", "PRECEPT +", "kept-back was withheld by a coin (it had a chance of 0.70 to be", "FAILED", "more lines; the dashboard shows them", "‹ESC›]0;owned"} {
		if !strings.Contains(plain, want) {
			t.Errorf("it does not say %q:\n%s", want, plain)
		}
	}
	if coloured := strings.Join(page{width: 80, colour: true}.turn(&turn), "\n"); !strings.Contains(coloured, "\x1b[30;42mxxx") || strings.Count(coloured, "\x1b[0m") < 5 {
		t.Errorf("%q", coloured)
	}
	w := &world{out: &bytes.Buffer{}, env: func(string) (string, bool) { return "", false }}
	if w.page().colour {
		t.Error("colours where no terminal is")
	}
	if s := fmt.Sprint(page{width: 20}.wrap("one two three four five", 10)); s != "[one two three four five]" {
		t.Error(s)
	}
}
