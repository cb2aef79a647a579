// Package proxy is the data face: it takes an agent's request, lets the rooms below say what to
// insert, and hands the rest to httputil.ReverseProxy.
//
// Contract: what is not understood goes through byte for byte; what is changed is one splice of
// text into the request; response bytes are never changed. No fault of ours changes the status, the
// body or the time of a request: every step of learning runs under a guard that turns a panic or an
// error into a counted "forward as it came".
//
// Hazard: net/http's Transport may read a request body after RoundTrip has returned. The pooled
// buffer of a body is given back only through payload.release, which first makes every later Read
// fail.
package proxy
