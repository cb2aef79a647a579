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
// lesson, session) or by actionPath, out of a path of ours with its parts escaped.
//
// # How to add a page
//
// A page is a file page_NAME.go that reads from the top down: its data, its handler, which ends in
//
//	return s.show(c, shown{Title: "Its title", Main: v.html})
//
// and the method html, which writes the page's own part out of the data; and a line in dashboard
// (dashboard.go), which is its route and its place in the navigation. A page whose data nobody
// gives (its field of Options is nil) is left out there. html is given the frame: f.Link("/path")
// keeps the tenant, f.With("key", "value") is this page with another query. html.go, parts.go,
// fields.go and numbers.go have what pages share (word, figures, timeOf, pager, wordField, points).
// Every number has a unit and a definition: a word with a definition is a term of glossary.go. A
// form that writes is a POST that holds f.csrf(); its handler answers with seeOther. A script goes
// to static/ and into the page's Head; after a live page has swapped its main part, document hears
// precept:swap, after a change of theme precept:theme.
package admin
