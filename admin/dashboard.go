package admin

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
	g "maragu.dev/gomponents"
)

// page is one page of the dashboard.
type page struct {
	Name  string // in the navigation; "" stands not in it
	Path  string // as echo routes it
	Serve echo.HandlerFunc
	Badge func() int // how many things wait there; nil: nothing ever does
}

// dashboard lists the pages in the order of the navigation. What is not there yet has no line.
func (s *Server) dashboard() []page {
	pages := []page{
		{Name: "Overview", Path: "/", Serve: s.overview},
		{Name: "Lessons", Path: "/lessons", Serve: s.lessonsPage},
		{Path: "/lessons/:slug", Serve: s.lessonPage},
	}
	if s.options.Survey != nil {
		pages = append(pages, page{Name: "Breakdown", Path: "/breakdown", Serve: s.breakdown})
	}
	if s.options.Library != nil {
		pages = append(pages, page{Name: "Queue", Path: "/queue", Serve: s.queuePage, Badge: func() int { return len(s.waiting()) }})
	}
	if s.options.Archive != nil {
		pages = append(pages,
			page{Name: "Sessions", Path: "/sessions", Serve: s.sessionsPage},
			page{Path: "/sessions/:session", Serve: s.sessionPage},
			page{Name: "Samples", Path: "/samples", Serve: s.samplesPage})
	}
	if s.options.Health != nil {
		pages = append(pages, page{Name: "Health", Path: "/health", Serve: s.healthPage})
	}
	return append(pages,
		page{Name: "Help", Path: "/help", Serve: s.help}, page{Path: "/help/*", Serve: s.helpPage})
}

// link is an entry of the navigation.
type link struct {
	Name, Href, Badge string
	Here              bool
}

// shown is what a handler gives to be shown.
type shown struct {
	Title   string
	Main    func(frame) g.Node // the page's own part
	Head    g.Node             // scripts and style sheets that this page alone has; nil: none
	Live    bool               // the page keeps itself new
	Counted counted
	Problem string // why there is not all
	Err     error  // why there is nothing: it is the page's problem and its status
}

// frame is what stands around a page, and what it makes its links with.
type frame struct {
	shown
	Nav    []link
	Tenant string
	CSRF   string // "" for a program with a token: no forms that write
	Acts   bool   // a browser whose token may change something: the forms that do are shown
	Viewer bool   // a viewer looks: what only operators read has no link
	Notice string // what the last action did

	path  string
	query url.Values
}

// frame is what stands around a page. A handler asks for it to make links.
func (s *Server) frame(c echo.Context, v shown) frame {
	return frame{shown: v, Tenant: tenantOf(c), path: c.Request().URL.EscapedPath(), query: c.QueryParams()}
}

// show answers with a page inside the frame.
func (s *Server) show(c echo.Context, v shown) error {
	status := http.StatusOK
	if v.Err != nil {
		status, v.Problem = explained(v.Err)
	}
	f := s.frame(c, v)
	if one, ok := c.Get(sessionKey).(*session); ok {
		f.CSRF, f.Notice = one.csrf, s.sessions.notice(one)
		f.Acts = holderOf(c).role == operator
	}
	f.Viewer = holderOf(c).role == viewer
	for _, p := range s.dashboard() {
		if p.Name == "" || f.Viewer && !viewable(p.Path) {
			continue
		}
		here := f.path == p.Path || (p.Path != "/" && strings.HasPrefix(f.path, p.Path+"/"))
		l := link{Name: p.Name, Href: f.Link(p.Path), Here: here}
		if p.Badge != nil {
			if n := p.Badge(); n > 0 {
				l.Badge = count(n)
			}
		}
		f.Nav = append(f.Nav, l)
	}
	return s.render(c, status, layout(f))
}

// lesson is the page of a lesson.
func (f frame) lesson(slug string) string { return f.Link("/lessons/" + url.PathEscape(slug)) }

// session is the page of a session.
func (f frame) session(id string) string { return f.Link(sessionPath(id)) }

func sessionPath(id string) string { return "/sessions/" + url.PathEscape(id) }

// Link is another page for the same tenant; further arguments are keys and values of its query.
func (f frame) Link(path string, query ...string) string {
	q := url.Values{}
	if t := f.query.Get("tenant"); t != "" {
		q.Set("tenant", t)
	}
	for i := 0; i+1 < len(query); i += 2 {
		q.Set(query[i], query[i+1])
	}
	return address(path, q)
}

// With is this page with another query; an empty value takes a key away. Another order or filter
// begins with the first rows.
func (f frame) With(query ...string) string {
	q := maps.Clone(f.query)
	q.Del("page")
	for i := 0; i+1 < len(query); i += 2 {
		q.Set(query[i], query[i+1])
		if query[i+1] == "" {
			q.Del(query[i])
		}
	}
	return address(f.path, q)
}

// asked says that the query names one of some keys.
func (f frame) asked(keys ...string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return f.query.Get(key) != "" })
}

// param is a part of the address. The router matches addresses as they were sent, so a part of one
// that needs escaping, such as a name with a slash, is still escaped.
func param(c echo.Context, name string) string {
	sent := c.Param(name)
	if c.Request().URL.RawPath == "" {
		return sent
	}
	plain, err := url.PathUnescape(sent)
	if err != nil {
		return sent
	}
	return plain
}

// address is a path, escaped already, with its query.
func address(path string, q url.Values) string {
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// seeOther leads a browser away from a form that it has sent, to a page of ours; notice is shown
// there, once.
func (s *Server) seeOther(c echo.Context, path, notice string) error {
	if one, ok := c.Get(sessionKey).(*session); ok {
		s.sessions.keepNotice(one, notice)
	}
	if !inside(path) {
		path = "/"
	}
	return s.redirect(c, path)
}
