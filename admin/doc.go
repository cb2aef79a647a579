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
// Hazard: everything shown was once written by an agent, a client or a file: it reaches a page
// through html/template only.
//
// # How to add a page
//
// A page is a template pages/NAME.html that defines "main", a file page_NAME.go with a handler that
// ends in
//
//	return s.show(c, shown{Page: "NAME", Title: "Its title", Data: v})
//
// and a line in dashboard (dashboard.go), which is its route and its place in the navigation; a
// page whose data nobody gives (its field of Options is nil) is left out there. In the template "."
// is the frame: .Data is v, .Link "/path" keeps the tenant, .With "key" "value" is this page with
// another query. parts.html has the parts that pages share (term, figures, time, pager, sorter).
// Every number has a unit and a definition: a word with a definition is a term of glossary.go. A
// form that writes is a POST that holds csrf_token (.CSRF); its handler answers with seeOther. A
// script goes to static/ and into the page's "head"; after a live page has swapped its main part,
// document hears precept:swap, after a change of theme precept:theme.
package admin
