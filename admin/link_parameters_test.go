package admin

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"precept/internal/sample"
	sessionpkg "precept/internal/session"
	"precept/store"
)

// linkAddresses returns the addresses in the main part of a page by key. The key of a link is its text, the key of a
// GET form is "form TEXT" with the text of its button, and the key of any other form is "post ACTION".
func linkAddresses(t *testing.T, page string) map[string]*url.URL {
	t.Helper()
	_, main, _ := strings.Cut(page, "<main")
	main, _, _ = strings.Cut(main, "</main>")
	root, err := html.Parse(strings.NewReader("<main" + main))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*url.URL{}
	add := func(name, address string, fields url.Values) {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if fields != nil {
			u.RawQuery = fields.Encode()
		}
		if _, known := out[name]; !known {
			out[name] = u
		}
	}
	for n := range root.Descendants() {
		switch {
		case n.Data == "a" && n.Type == html.ElementNode:
			add(strings.TrimSpace(textIn(n)), attribute(n, "href"), nil)
		case n.Data == "form" && attribute(n, "method") == "get":
			fields, name := url.Values{}, ""
			for x := range n.Descendants() {
				switch {
				case x.Data == "button" && x.Type == html.ElementNode:
					name = textIn(x)
				case x.Data == "input" && attribute(x, "name") != "" && (attribute(x, "type") != "checkbox" || slices.ContainsFunc(x.Attr, func(a html.Attribute) bool { return a.Key == "checked" })):
					fields.Set(attribute(x, "name"), attribute(x, "value"))
				}
			}
			add("form "+name, attribute(n, "action"), fields)
		case n.Data == "form":
			add("post "+attribute(n, "action"), attribute(n, "action"), nil)
		}
	}
	return out
}

func attribute(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

func textIn(n *html.Node) string {
	var b strings.Builder
	for x := range n.Descendants() {
		if x.Type == html.TextNode {
			b.WriteString(x.Data)
		}
	}
	return b.String()
}

func TestLinksAndFormsKeepUnrelatedParameters(t *testing.T) {
	f, _, _ := newLessonFixture(t, func(o *Options) {
		o.Write.Notes = memoryNotes{"acme/view|v1": []byte(`{"name":"poor","query":"verdict=poor"}`)}
		o.Read.Archive = twoAgentSessions{}
		o.Program.Tenants = func(context.Context) ([]string, error) { return []string{"acme", "other"}, nil }
	})
	cookie, _ := f.logIn(t)
	for _, tc := range []struct{ page, link, want string }{ // link is a key of the map from linkAddresses
		{"/sessions?order=oldest&agent=a&tenant=acme&view=v1", "Clear", "/sessions?order=oldest&tenant=acme"},
		{"/sessions?order=oldest&agent=a&tenant=acme&view=v1", "poor", "/sessions?order=oldest&tenant=acme&verdict=poor&view=v1"},
		{"/sessions?order=oldest&agent=a&tenant=acme&view=v1", "form Find", "/sessions?order=oldest&session=&tenant=acme"},
		{"/sessions?order=oldest&agent=a&tenant=acme&view=v1", "form Show", "/sessions?agent=a&error=&max_reward=&min_reward=&order=oldest&since=&tenant=acme&tool=&until=&view=v1&words="},
		{"/sessions?order=oldest&agent=a&tenant=acme&view=v1", "post /views/v1/update?order=oldest&tenant=acme", "/views/v1/update?order=oldest&tenant=acme"},
		{"/sessions?order=oldest&agent=a&tenant=acme", "post /views?order=oldest&tenant=acme", "/views?order=oldest&tenant=acme"},
		{"/sessions?session=s-1", "csv", "/api/export/sessions?format=csv&session=s-1&tenant=default"},
		{"/samples?agent=a&tenant=acme", "Clear", "/samples?tenant=acme"},
		{"/lessons?sort=name&tenant=acme&q=zzz&window=7d&provisional=true", "Show all lessons.", "/lessons?provisional=true&sort=name&tenant=acme&window=7d"},
		{"/lessons?sort=name&tenant=acme&q=zzz&window=7d", "Clear", "/lessons?sort=name&tenant=acme"},
		{"/lessons?sort=name&tenant=acme&window=7d&provisional=true", "form Show", "/lessons?provisional=true&q=&sort=name&tenant=acme&window=7d"},
		{"/lessons?sort=name&tenant=acme&window=7d&provisional=true", "helpful", "/lessons/helpful?list=%2Flessons%3Fsort%3Dname&provisional=true&tenant=acme&window=7d"},
		{"/?tenant=acme&window=7d&provisional=true&price=3", "helpful", "/lessons/helpful?provisional=true&tenant=acme&window=7d"},
		{"/?tenant=acme&window=7d", "Sort and filter all lessons", "/lessons?tenant=acme&window=7d"},
		{"/lessons/helpful?tenant=acme&window=7d", "Lessons", "/lessons?tenant=acme&window=7d"},
		{"/lessons/helpful?tenant=acme&list=%2Flessons%3Fpage%3D2%26sort%3Dname", "Lessons", "/lessons?page=2&sort=name&tenant=acme"},
		{"/lessons/helpful?list=%2Flessons%3Fsort%3Dname", "post /lessons/helpful/pause?list=%2Flessons%3Fsort%3Dname", "/lessons/helpful/pause?list=%2Flessons%3Fsort%3Dname"},
		{"/sessions?agent=a&after=p&order=oldest&tenant=acme", "s-1", "/sessions/s-1?list=%2Fsessions%3Fafter%3Dp%26agent%3Da%26order%3Doldest&tenant=acme"},
		{"/sessions?tenant=acme", "s-1", "/sessions/s-1?tenant=acme"},
		{"/sessions?agent=a&tenant=acme", "nightly", "/runs/nightly?list=%2Fsessions%3Fagent%3Da&tenant=acme"},
		{"/sessions?agent=a&tenant=acme", "Rename, delete, authors", "/views?list=%2Fsessions%3Fagent%3Da&tenant=acme"},
		{"/views?list=%2Fsessions%3Fagent%3Da&tenant=acme", "Sessions", "/sessions?agent=a&tenant=acme"},
		{"/runs/nightly?list=%2Fsessions%3Fagent%3Da", "Sessions", "/sessions?agent=a"},
		{"/runs/nightly?list=%2Fsessions%3Fagent%3Da", "s-1", "/sessions/s-1?list=%2Fsessions%3Fagent%3Da"},
		{"/sessions/s-1?list=%2Fsamples%3Fquality%3Dpoor&tenant=acme", "Samples", "/samples?quality=poor&tenant=acme"},
		{"/sessions/s-1?list=%2Fsessions%3Ftenant%3Dother%26agent%3Da&tenant=acme", "Sessions", "/sessions?agent=a&tenant=acme"},
		{"/sessions/s-1?list=%2F%2Fevil.example%2Fsessions%3Fa%3Db", "Sessions", "/sessions"},
		{"/lessons/helpful?tenant=acme&window=7d", "Show all closed sessions", "/lessons/helpful?tenant=acme"},
		{"/lessons/helpful?tenant=acme&window=7d", "post /lessons/helpful/pause?tenant=acme&window=7d", "/lessons/helpful/pause?tenant=acme&window=7d"},
		{"/queue?page=1&tenant=acme", "Try the lesson on captured sessions", "/queue?backtest=newer&page=1&tenant=acme#candidate-newer"},
		{"/help?tenant=acme&q=lesson", "form Show", "/help?q=lesson&tenant=acme"},
		{"/help?tenant=acme", "The dashboard", "/help/DASHBOARD?tenant=acme"},
		{"/help/DASHBOARD?tenant=acme", "RULES.md", "/help/RULES?tenant=acme"},
		{"/compare?tenant=acme&by=agent&tag=x&since=2026-01-01", "form Compare", "/compare?by=agent&since=2026-01-01&tag=x&tenant=acme"},
	} {
		page := body(t, f.do(t, "GET", tc.page, func(r *http.Request) { r.AddCookie(cookie) }))
		links := linkAddresses(t, page)
		got := links[tc.link]
		if got == nil {
			t.Errorf("%s: got no link or form %q, want one to %s; got only %v", tc.page, tc.link, tc.want, links)
			continue
		}
		if got.String() != tc.want {
			t.Errorf("%s, link or form %q: got address %s, want %s", tc.page, tc.link, got, tc.want)
		}
	}
}

// twoAgentSessions is an archive with one session of the agent a and one session of the agent b.
type twoAgentSessions struct{ emptyArchive }

func (twoAgentSessions) Browse(context.Context, store.SessionQuery) (store.SessionList, error) {
	return store.SessionList{Sessions: []store.SessionItem{{ID: "s-1", Run: "nightly"}}, RowsRead: 1}, nil
}

func (twoAgentSessions) Run(context.Context, string, string) (store.RunSessions, error) {
	return store.RunSessions{Name: "nightly", Sessions: []store.SessionItem{{ID: "s-1"}}}, nil
}

func (twoAgentSessions) Transcript(context.Context, string, string, int) (store.Transcript, error) {
	return store.Transcript{SessionItem: store.SessionItem{ID: "s-1"}}, nil
}

func (twoAgentSessions) Recent(context.Context, string, time.Time, time.Time) (store.Recent, error) {
	return store.Recent{Sessions: []store.SessionItem{{ID: "s-1", Agent: "a", Tags: []string{"x"}}, {ID: "s-2", Agent: "b", Tags: []string{"x"}}}}, nil
}

func TestAgentFilterAcceptsEscapedCharacter(t *testing.T) {
	s := newSessionStore(t, time.Now())
	s.addSession(t, "plain", 1, nil)
	s.addSession(t, "other", 1, func(r *sessionpkg.Record, _ []sample.Exchange) { r.Identity.Agent = "co\u200bder" })
	f := newStoreFixture(t, s, nil)
	page := get(t, f, "/sessions", http.StatusOK)
	if !strings.Contains(page, "/sessions?agent=co%E2%80%8Bder") {
		t.Errorf(`session list = %q, want substring "/sessions?agent=co%%E2%%80%%8Bder"`, page)
	}
	if !strings.Contains(page, "co‹U+200B›der") {
		t.Errorf(`session list = %q, want substring "co‹U+200B›der"`, page)
	}
	for _, value := range []string{"co\u200bder", "co‹U+200B›der"} {
		page := get(t, f, "/sessions?"+url.Values{"agent": {value}}.Encode(), http.StatusOK)
		links := linkAddresses(t, page)
		if strings.Count(page, `data-label="Started"`) != 1 {
			t.Errorf("with the agent filter %q: count of `data-label=\"Started\"` = %d, want 1", value, strings.Count(page, `data-label="Started"`))
		}
		if links["csv"].Query().Get("agent") != "co\u200bder" {
			t.Errorf(`with the agent filter %q = %q, want "co\u200bder"`, value, links["csv"].Query().Get("agent"))
		}
	}
}

func TestUnknownRunOrSessionLinksToSessions(t *testing.T) {
	f := newFixture(t, nil)
	for path, kind := range map[string]string{"/runs/none": "run", "/sessions/none": "session"} {
		page := body(t, f.do(t, "GET", path+"?tenant=acme&list=%2Fsessions%3Fagent%3Dcoder", func(r *http.Request) { bearer(token)(r); r.Header.Set("Accept", "text/html") }))
		for _, want := range []string{"Unknown " + kind, "The " + kind + " has no stored data", "the tenant <code>acme</code>", `<a href="/sessions?tenant=acme">all stored sessions</a>`, `<a href="/sessions?agent=coder&amp;tenant=acme">Sessions</a>`} {
			if !strings.Contains(page, want) {
				t.Errorf("%s: got no text %q, want this text; page: %s", path, want, page)
			}
		}
	}
	if text := get(t, f, "/api/runs/none", http.StatusNotFound); !strings.Contains(text, "the run has no stored data") {
		t.Errorf("/api/runs/none: got body %s, want an error about the run", text)
	}
}
