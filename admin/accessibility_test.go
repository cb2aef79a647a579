package admin_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"precept/admin"
)

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

func nodeText(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return strings.TrimSpace(b.String())
}

// elements returns all HTML elements of the page in the response.
func elements(t *testing.T, res *http.Response) (out []*html.Node) {
	t.Helper()
	defer res.Body.Close()
	root, err := html.Parse(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	for n := range root.Descendants() {
		if n.Type == html.ElementNode {
			out = append(out, n)
		}
	}
	return out
}

// barriers returns the faults of a page that hinder people who use a screen reader or no mouse.
func barriers(page []*html.Node) (out []string) {
	ids, labels := map[string]bool{}, map[string]bool{}
	for _, n := range page {
		if id := attr(n, "id"); id != "" {
			if ids[id] {
				out = append(out, "two elements have the id "+id)
			}
			ids[id] = true
		}
		if n.Data == "label" {
			labels[attr(n, "for")] = true
		}
	}
	level, h1s := 0, 0 // level of the previous heading, and number of h1 elements
	for _, n := range page {
		for _, key := range []string{"aria-labelledby", "aria-describedby", "for", "popovertarget", "list"} {
			if id := attr(n, key); id != "" && !ids[id] {
				out = append(out, fmt.Sprintf("%s of <%s> names the id %q, but no element has this id", key, n.Data, id))
			}
		}
		named := attr(n, "aria-label") != "" || attr(n, "aria-labelledby") != "" || nodeText(n) != ""
		switch n.Data {
		case "h1", "h2", "h3":
			newLevel := int(n.Data[1] - '0')
			if newLevel > level+1 {
				out = append(out, fmt.Sprintf("%s %q follows a level %d heading", n.Data, nodeText(n), level))
			}
			level = newLevel
			if newLevel == 1 {
				h1s++
			}
		case "input", "select":
			inLabel := n.Parent.Data == "label"
			if kind := attr(n, "type"); kind != "hidden" && !slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "hidden" }) &&
				!inLabel && !labels[attr(n, "id")] && attr(n, "aria-label") == "" {
				out = append(out, fmt.Sprintf("the field %q has no label", attr(n, "name")))
			}
		case "a", "button", "summary":
			if !named {
				out = append(out, fmt.Sprintf("a <%s> has no text and no label", n.Data))
			}
		case "img":
			if !slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "alt" }) {
				out = append(out, "an image has no alternative text")
			}
		case "th":
			if attr(n, "scope") == "" {
				out = append(out, fmt.Sprintf("the heading %q has no scope", nodeText(n)))
			}
		case "nav", "aside", "section":
			if attr(n, "aria-label") == "" && attr(n, "aria-labelledby") == "" && attr(n, "class") != "pair" && attr(n, "class") != "" {
				out = append(out, fmt.Sprintf("a <%s class=%q> has no name", n.Data, attr(n, "class")))
			}
		case "svg":
			if attr(n, "aria-hidden") == "" && (attr(n, "role") != "img" || !named) {
				out = append(out, "a drawing has no label")
			}
		}
		if role := attr(n, "role"); (role == "region" || role == "search") && !named {
			out = append(out, "a "+role+" has no name")
		}
		if attr(n, "role") == "region" && attr(n, "tabindex") != "0" {
			out = append(out, "the Tab key does not reach the region "+attr(n, "aria-label"))
		}
		if tabindex := attr(n, "tabindex"); tabindex != "" && tabindex != "0" && tabindex != "-1" {
			out = append(out, "tabindex "+tabindex+" breaks the page order")
		}
	}
	if h1s != 1 {
		out = append(out, fmt.Sprintf("%d level 1 headings", h1s))
	}
	return out
}

// pageAddresses returns the address of at least one page of each kind.
func pageAddresses() []string {
	return []string{
		"/", "/lessons", "/lessons?sort=-rewarded", "/lessons/word?backtest=1", "/breakdown", "/queue", "/queue?backtest=word-b", "/sessions", "/views", "/traffic", "/compare",
		"/sessions?words=x", "/sessions/s-1", "/samples", "/health", "/help", "/help/DASHBOARD", "/nowhere",
	}
}

func TestPagesAreAccessible(t *testing.T) {
	for name, change := range map[string]func(*wordSource){
		"with data":         func(*wordSource) {},
		"unavailable store": func(source *wordSource) { source.fail = true },
		"without data": func(source *wordSource) {
			*source = wordSource{word: source.word, generated: source.generated, book: source.book.WithLessons(nil), survey: newWordSource("word").survey}
		},
	} {
		w := newWordSource("word")
		change(w)
		h, err := admin.New(w.options())
		if err != nil {
			t.Fatal(err)
		}
		cookie := serve(h, "/login?token=key", nil).Cookies()[0]
		for _, address := range pageAddresses() {
			for _, barrier := range barriers(elements(t, serve(h, address, cookie))) {
				t.Errorf("dashboard %s, page %s: got barrier %s, want none", name, address, barrier)
			}
		}
		for _, barrier := range barriers(elements(t, serve(h, "/lessons", nil))) {
			t.Errorf("login page: got barrier %s, want none", barrier)
		}
	}
}

func TestBarriersFindsPlantedFaults(t *testing.T) {
	for text, want := range map[string]string{
		`<h1>a</h1><h3>b</h3>`:                                    "follows a level 1 heading",
		`<h2>a</h2>`:                                              "0 level 1 headings",
		`<h1>a</h1><input name="x">`:                              `the field "x" has no label`,
		`<h1>a</h1><select name="y"></select>`:                    `the field "y" has no label`,
		`<h1>a</h1><button></button>`:                             "a <button> has no text and no label",
		`<h1>a</h1><a href="/"><img alt=""></a>`:                  "a <a> has no text and no label",
		`<h1>a</h1><img src="/x">`:                                "an image has no alternative text",
		`<h1>a</h1><table><tr><th>x</th></tr></table>`:            "has no scope",
		`<h1>a</h1><label for="nobody">x</label>`:                 `names the id "nobody"`,
		`<h1 id="a">a</h1><p id="a">b</p>`:                        "two elements have the id a",
		`<h1>a</h1><svg></svg>`:                                   "a drawing has no label",
		`<h1>a</h1><div role="region" aria-label="x"></div>`:      "the Tab key does not reach",
		`<h1>a</h1><p tabindex="3">x</p>`:                         "breaks the page order",
		`<h1>a</h1><nav class="pager">x</nav>`:                    "has no name",
		`<h1>a</h1><form role="search"></form>`:                   "a search has no name",
		`<h1>a</h1><label for="z">z</label><input id="z">`:        "",
		`<h1>a</h1><label>z <input></label><input type=hidden>`:   "",
		`<h1>a</h1><h2>b</h2><h3>c</h3><h2>d</h2><p>text</p>`:     "",
		`<h1>a</h1><svg role="img" aria-label="a plot"></svg>`:    "",
		`<h1>a</h1><svg aria-hidden="true"></svg><img alt="">`:    "",
		`<h1>a</h1><select name="y" aria-label="Theme"></select>`: "",
	} {
		root, err := html.Parse(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		var page []*html.Node
		for n := range root.Descendants() {
			if n.Type == html.ElementNode {
				page = append(page, n)
			}
		}
		got := strings.Join(barriers(page), "; ")
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("barriers of the page %s: got %q, want %q", text, got, want)
		}
	}
}

func TestClearLinkAppearsOnlyWithFilter(t *testing.T) {
	h, err := admin.New(newWordSource("word").options())
	if err != nil {
		t.Fatal(err)
	}
	cookie := serve(h, "/login?token=key", nil).Cookies()[0]
	readFilters := func(path string) (fields map[string]string, clearLink string) {
		fields = map[string]string{}
		for _, n := range elements(t, serve(h, path, cookie)) {
			switch {
			case n.Data == "input" && attr(n, "type") == "checkbox":
				if slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "checked" }) {
					fields[attr(n, "name")] = attr(n, "value")
				}
			case n.Data == "input":
				fields[attr(n, "name")] = attr(n, "value")
			case n.Data == "option" && slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "selected" }):
				fields[attr(n.Parent, "name")] = attr(n, "value")
			case n.Data == "a" && nodeText(n) == "Clear":
				clearLink = attr(n, "href")
			}
		}
		return fields, clearLink
	}
	for path, filters := range map[string]map[string]string{
		"/":        {"window": "7d", "price": "3", "provisional": "true"},
		"/lessons": {"q": "two words", "verdict": "helps", "zoom": "25", "window": "24h", "old": "1", "state": "word"},
		"/sessions": {
			"words": "flaky", "tool": "bash", "error": "exit", "agent": "coder", "model": "gpt", "lesson": "l", "verdict": "good",
			"min_reward": "0.25", "max_reward": "1", "since": "2026-01-01", "until": "2026-02-01", "loops": "true", "session": "ci-42",
		},
		"/samples": {
			"family": "error_correction", "quality": "poor", "lesson": "l", "agent": "coder", "session": "s-1", "since": "2026-01-01", "until": "2026-02-01",
		},
	} {
		if _, clearLink := readFilters(path); clearLink != "" {
			t.Errorf("%s without a filter: link Clear = %q, want none", path, clearLink)
		}
		if _, clearLink := readFilters(path + "?tenant=acme"); clearLink != "" {
			t.Errorf("%s with only a tenant: link Clear = %q, want none", path, clearLink)
		}
		for key, value := range filters {
			fields, clearLink := readFilters(path + "?tenant=acme&" + key + "=" + strings.ReplaceAll(value, " ", "+"))
			if fields[key] != value {
				t.Errorf("%s: got field %s with value %q, want %q", path, key, fields[key], value)
			}
			if fields["tenant"] != "acme" {
				t.Errorf(`%s with the filter %s: fields["tenant"] = %q, want "acme"`, path, key, fields["tenant"])
			}
			if clearLink != path+"?tenant=acme" {
				t.Errorf("%s with the filter %s: clearLink = %q, want %q", path, key, clearLink, path+"?tenant=acme")
			}
		}
	}
}

func TestEmptySessionListNamesProxyAddress(t *testing.T) {
	page := mainText(t, "/sessions", func(source *wordSource, o *admin.Options) {
		o.Address.DataURL = "http://10.0.0.7:9999"
		source.list.Sessions, source.list.RowsRead = nil, 0
	})
	checkPage(t, "empty session list", page, "No session yet", "<code>OPENAI_BASE_URL=http://10.0.0.7:9999/v1</code>")
}
