// Package admin is the admin listener: the dashboard, the report as JSON, metrics, profiles and
// health.
//
// The contract is fail closed. All routes except /healthz, /readyz, /login and /static require a
// token, as a Bearer header or through the cookie of a logged-in browser. New refuses to make a
// server without a token. Tokens are stored as SHA-256 and compared in constant time. A cookie
// contains a random session id, never the token. A write with a cookie requires the session's CSRF
// token and an Origin of this server. A request with a foreign Host header is always refused (DNS
// rebinding). No page needs inline scripts or styles, and the Content-Security-Policy forbids both.
//
// The hazard: all shown content was written by an agent, a client or a file. Content enters a page
// as text or as an attribute's value, which gomponents escapes (g.Text, h.Value), and foreign text
// goes through quoted, which makes hidden characters visible. g.Raw is for the compiled-in docs
// alone. gomponents accepts any address: the frame (Link, With, lesson, session) makes every href,
// src and action from a path of this server with escaped parts.
//
// # Words
//
// docs/ARCHITECTURE.md defines the words of the experiment: lesson, pick, coin, holdout, control, run, verdict. A
// report.Row has the measurements of one arm, that is one text of a lesson. On pages and in the query key arm, the
// arms are the two compared groups of sessions: injected and withheld for one lesson, treated and control for all
// lessons together. A survey has figures that are read from the stored sessions, a scan the rules files in captured
// sessions. A facet is a list of values with counts that filters the list of sessions. A saved view is a named filter
// of this list. A tone is the CSS class of a good, bad or doubtful value.
//
// # How to add a page
//
// A page is a file page_NAME.go that reads from top to bottom: the data, the handler, which ends in
//
//	return s.show(c, pageContent{Title: "Its title", Main: v.html})
//
// and the method html, which renders the page's main part; and a line in dashboard (routes.go) with
// the route and the place in the navigation. Parts of a page (lesson_*.go, session_*.go) take their
// data as arguments. archive.go and session_query.go query the store, for pages and /api alike. A handler
// returns errors, and faults.go answers them. html gets the frame: f.Link("/path") keeps the
// tenant, f.With("key", "value") is the present page with another query.
//
// nodes.go has the building blocks of pages (title, section, grid, timeOf), forms.go those of a
// filter, text.go formats numbers (count, points), frame.go divides a list into pages. Every number
// has a unit and a definition: a defined word is a term of glossary.go. A form that writes is a
// POST with f.csrfInput(); its handler answers with seeOther. A script belongs into static/ and the
// page's Head. After a live page has replaced its main part, document receives precept:swap; after
// a change of theme, precept:theme.
package admin
