// Package admin is the admin listener: the effect table, the report as JSON, metrics, profiles and health.
//
// The contract is fail closed. Everything but /healthz, /readyz, /login and the style sheet wants a token, either as a Bearer
// header or through the cookie of a browser that has logged in; without a single token in force New refuses to make a server.
// Tokens are kept as SHA-256 and compared in constant time; a cookie holds a random session id of its own, never the token.
// A write that a cookie vouches for needs the session's CSRF token and an Origin that is ours; a Host that is not ours is refused
// whatever it brings (DNS rebinding). No page needs inline scripts or styles, and the Content-Security-Policy forbids them.
//
// Hazard: everything shown was once written by an agent, a client or a file: it reaches a page through html/template only.
package admin
