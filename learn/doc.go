// Package learn does what follows from what was said: it closes sessions at a fixed age, folds
// their feedback into a reward, builds their samples, moves the counters, and keeps what the
// chooser believes.
//
// Contract: only Beliefs is on the request path; it never asks the backend and never waits for who
// does. Everything else happens in Run, which one goroutine is, in Follow, which asks what other
// replicas have counted, and in Report, for who asks. A correction is computed from what was frozen
// at the closing: whatever order feedback comes in, the counters are the same.
//
// What is learned from stands in memory and on its way to the backend as well. The package that
// keeps that gives it through three small interfaces, Memory, Recorder and Touches; it is not
// imported, and nothing that waits here can hold up what it records.
//
// A step that fails is taken again; one that panics costs the session that it was taken at
// (store/guard).
//
// Lock order: what Recorder.Still holds, beliefs.mu, beliefs.tenantsMu. The backend is waited for
// under the first two.
package learn
