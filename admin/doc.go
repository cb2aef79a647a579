// Package admin is the admin listener: the dashboard, the report as JSON, metrics, profiles and
// health.
//
// The contract is fail closed. Everything but /healthz, /readyz, /login and /static wants a token,
// either as a Bearer header or through the cookie of a browser that has logged in; without a single
// token in force New refuses to make a server. Tokens are kept as SHA-256 and compared in constant
// time; a cookie holds a random session id of its own, never the token. A write that a cookie
// vouches for needs the session's CSRF token and an Origin that is ours; a Host that is not ours is
// refused whatever it brings (DNS rebinding). No page needs inline scripts or styles, and the
// Content-Security-Policy forbids them.
//
// Hazard: everything shown was once written by an agent, a client or a file. It reaches a page as
// text or as the value of an attribute, which gomponents escapes (g.Text, h.Value), and what others
// said goes through quoted, which names what would hide. g.Raw is for the docs that are compiled in
// alone. gomponents takes any address: an href, src or action is made by the frame (Link, With,
// lesson, session) out of a path of ours with its parts escaped.
//
// # How to add a page
//
// A page is a file page_NAME.go that reads from the top down: its data, its handler, which ends in
//
//	return s.show(c, shown{Title: "Its title", Main: v.html})
//
// and the method html, which writes the page's own part out of the data; and a line in dashboard
// (routes.go), which is its route and its place in the navigation. Parts of a page take what they
// show and know nothing of the page: lesson_*.go and session_*.go have those of the two largest.
// What the page asks of the store is asked in archive.go, for the page and for /api alike; what
// fails is returned, and faults.go answers it. html is given the frame: f.Link("/path") keeps the
// tenant, f.With("key", "value") is this page with another query.
//
// nodes.go has the pieces of which pages are made (title, section, grid, timeOf), forms.go those of
// a filter, text.go writes numbers (count, points), frame.go cuts a list into pages. Every number
// has a unit and a definition: a word with a definition is a term of glossary.go. A form that
// writes is a POST that holds f.csrfInput(); its handler answers with seeOther. A script goes to
// static/ and into the page's Head; after a live page has swapped its main part, document hears
// precept:swap, after a change of theme precept:theme.
package admin
