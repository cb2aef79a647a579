// Package admin is the admin listener: the dashboard, the report as JSON, metrics, profiles and health.
//
// Every route requires a token, except /healthz, /readyz, /login, /static and, if Access.PublicMetrics is set,
// /metrics. A program sends the token as a Bearer header. A browser logs in with the token, and then sends a cookie.
// New returns an error without a token. Tokens are compared by their SHA-256 digests, in constant time. A cookie
// contains a random session id, never the token. A write with a cookie requires the session's CSRF token, and is
// refused if its headers name another site. A request with a foreign Host header is refused, except for /healthz and
// /readyz, because the page of an attacker may reach this server by DNS rebinding. No page needs inline scripts or
// styles, and the Content-Security-Policy forbids both.
//
// All shown content is untrusted, because an agent, a client or a file wrote the content. Content enters a page as text
// or as the value of an attribute, and gomponents escapes both (g.Text, h.Value). Untrusted text also goes through
// quoted, which makes hidden characters visible. g.Raw is used only for the compiled-in docs. gomponents does not check
// addresses. The methods of frame (Link, With, lesson, session) therefore build every href, src and action from a path
// of this server with escaped parts.
//
// # Words
//
// docs/ARCHITECTURE.md defines the words of the experiment: lesson, pick, holdout, control, run, verdict. A report.Row
// has the measurements of one arm, which is one text of a lesson. On pages and in the query key arm, an arm is one of
// the two compared groups of sessions: injected and withheld for one lesson, treated and control for all lessons
// together. A survey holds figures that are computed from the stored sessions. A scan holds the rules files that were
// found in captured sessions. A facet is a list of values with counts that filters the list of sessions. A saved view
// is a named filter of this list. A tone is the CSS class of a good, bad or doubtful value.
//
// # How to add a page
//
// A page is a file page_NAME.go that reads from top to bottom. The type of the page's data comes first. The handler
// follows, and ends in
//
//	return s.show(c, pageContent{Title: "Its title", Main: v.html})
//
// The method html comes last, and renders the main part of the page. A line in dashboard (routes.go) has the route and
// the place in the navigation. Parts of a page (lesson_*.go, session_*.go) take their data as arguments. archive.go and
// session_query.go query the store, for pages and for /api. Handlers return errors, and Server.handleError answers
// them. html gets the frame, whose methods return addresses: f.Link("/path") keeps the tenant, and f.With("key",
// "value") is the current page with a different query.
//
// nodes.go has the building blocks of pages (title, section, grid, timeNode), and forms.go has those of a filter.
// text.go formats numbers (count, points), and frame.go divides a list into pages. Every number has a unit and a
// definition, which glossary.go contains. A form that writes is a POST with f.csrfInput(), and its handler answers with
// seeOther. A script belongs into static/ and into Head of the page. After page.js has replaced the main part of a live
// page, document receives the event precept:swap. After a change of the theme, document receives precept:theme.
package admin
