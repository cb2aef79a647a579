// Package proxy is the data face: it takes an agent's request, lets the rooms below say what to
// insert, and hands the rest to httputil.ReverseProxy.
//
// Contract: what is not understood goes through byte for byte; what is changed is one splice of
// text into the request; response bytes are never changed. No fault of ours changes the status, the
// body or the time of a request: every step of learning runs under a guard that turns a panic or an
// error into a counted "forward as it came".
//
// One turn, in the order of the files: router (which handler), pass (the way of a request), request
// (its body read and parsed), finder, unit and sender (whose it is), decision (what is inserted),
// forward and attempt (the way to the upstream and back), watch (what is seen of the reply), record
// (what is kept), observe (what is measured); turn ties what comes back to them. Each part stands
// on the one before and is given what it needs; settings is the configuration that a turn began
// with.
// Beside it: lessons, command, commands and mailbox are what agents write down for themselves,
// feedback is POST /v1/feedback.
//
// Hazard: net/http's Transport may read a request body after RoundTrip has returned. The pooled
// buffer of a body is given back only through payload.release, which first makes every later Read
// fail.
package proxy
