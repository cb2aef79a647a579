// Package learn closes sessions at a fixed age. It computes rewards from feedback, builds samples and changes the
// counters. It also holds the beliefs of the chooser, which selects lessons.
//
// Only Learner.Beliefs is called during a request; it never waits for the backend. A closed session keeps its
// assignment (the lessons injected and withheld), and each correction starts from this assignment, so the order of the
// feedback does not change the counters. A failed step is retried; a panic affects only one session (internal/guard).
//
// A settlement stores a session's reward and adds it to the counters, or replaces an earlier reward. A touched session
// has a pending correction. A provisional reward belongs to an open session; only the chooser uses it. A unit is a run,
// or a session with sub-agents, and has members.
//
// Lock order: Deliverer.WithDeliveryPaused, beliefs.mu, beliefs.tenantsMu. The backend is called while the first two
// are held. Recording an exchange never waits for a lock in this package.
package learn
