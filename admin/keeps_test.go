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

	"precept/store"
)

// addressesOf returns the addresses of the links and of the GET forms of a page's main part, by their text: the text of
// the link, or of the button of the form.
func addressesOf(t *testing.T, page string) map[string]*url.URL {
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
	attribute := func(n *html.Node, key string) string {
		for _, a := range n.Attr {
			if a.Key == key {
				return a.Val
			}
		}
		return ""
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

// textIn returns the text of a node.
func textIn(n *html.Node) string {
	var b strings.Builder
	for x := range n.Descendants() {
		if x.Type == html.TextNode {
			b.WriteString(x.Data)
		}
	}
	return b.String()
}

// A link or a form of a page that changes one parameter keeps the others: order, tenant, window, saved view, rows.
func TestLinksAndFormsKeepOtherParameters(t *testing.T) {
	f, _, _ := withLessons(t, func(o *Options) {
		o.Write.Notes = memoryNotes{"acme/view|v1": []byte(`{"name":"poor","query":"verdict=poor"}`)}
		o.Read.Archive = someSessions{}
		o.Program.Tenants = func(context.Context) ([]string, error) { return []string{"acme", "other"}, nil }
	})
	cookie, _ := f.browser(t)
	for _, c := range []struct{ page, link, want string }{
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
		{"/lessons?sort=name&tenant=acme&window=7d&provisional=true", "helpful", "/lessons/helpful?provisional=true&tenant=acme&window=7d"},
		{"/?tenant=acme&window=7d&provisional=true&price=3", "helpful", "/lessons/helpful?provisional=true&tenant=acme&window=7d"},
		{"/?tenant=acme&window=7d", "All lessons, to sort and filter", "/lessons?tenant=acme&window=7d"},
		{"/lessons/helpful?tenant=acme&window=7d", "Lessons", "/lessons?tenant=acme&window=7d"},
		{"/lessons/helpful?tenant=acme&window=7d", "Count all closed sessions", "/lessons/helpful?tenant=acme"},
		{"/lessons/helpful?tenant=acme&window=7d", "post /lessons/helpful/pause?tenant=acme&window=7d", "/lessons/helpful/pause?tenant=acme&window=7d"},
		{"/queue?page=1&tenant=acme", "Try the lesson on captured sessions", "/queue?backtest=newer&page=1&tenant=acme#candidate-newer"},
		{"/help?tenant=acme&q=lesson", "form Show", "/help?q=lesson&tenant=acme"},
		{"/help?tenant=acme", "The dashboard", "/help/DASHBOARD?tenant=acme"},
		{"/help/DASHBOARD?tenant=acme", "RULES.md", "/help/RULES?tenant=acme"},
		{"/compare?tenant=acme&by=agent&tag=x&since=2026-01-01", "form Compare", "/compare?by=agent&since=2026-01-01&tag=x&tenant=acme"},
	} {
		page := body(t, f.do(t, "GET", c.page, func(r *http.Request) { r.AddCookie(cookie) }))
		links := addressesOf(t, page)
		got := links[c.link]
		if got == nil {
			t.Errorf("%s has no link or form %q, want one to %s; the page has %v", c.page, c.link, c.want, links)
			continue
		}
		if got.String() != c.want {
			t.Errorf("%s: %q leads to %s, want %s", c.page, c.link, got, c.want)
		}
	}
}

// someSessions is an archive with one session, and with recent sessions of two agents.
type someSessions struct{ emptyArchive }

func (someSessions) Browse(context.Context, store.SessionQuery) (store.SessionList, error) {
	return store.SessionList{Sessions: []store.SessionItem{{ID: "s-1"}}, Read: 1}, nil
}

func (someSessions) Recent(context.Context, string, time.Time, time.Time) (store.Recent, error) {
	return store.Recent{Sessions: []store.SessionItem{{ID: "s-1", Agent: "a", Tags: []string{"x"}}, {ID: "s-2", Agent: "b", Tags: []string{"x"}}}}, nil
}
