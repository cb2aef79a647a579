// Package admin is the admin listener: the dashboard, the report as JSON, metrics, profiles and health. Every route
// needs a token, except the routes in addPublicRoutes and, if configured, /metrics. Programs send the token as a Bearer
// header. Browsers log in and then send a cookie. guard.go refuses forged writes and foreign Host headers.
//
// All content that pages show is untrusted. The content enters pages through g.Text, h.Value or untrustedText; g.Raw is
// only for the docs. gomponents does not check addresses, so frame's methods build every href, src and action. In this
// package, an arm is a group of compared sessions, a survey holds figures from stored sessions, and a tone is a CSS
// class.
//
// A page is a file page_NAME.go: first the data type, then the handler, and last the html method. The handler ends in
// s.show. dashboardPages (routes.go) lists the page, and glossary.go defines the page's numbers. A form that writes is
// a POST with f.csrfInput(), and the handler responds with seeOther. Scripts live in static/. After page.js has
// replaced the main part or the theme, it sends the precept:swap or precept:theme event to document.
package admin
