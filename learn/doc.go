// Package learn closes sessions at a fixed age. It computes their rewards from the feedback, builds their samples and
// moves the counters. It also holds the beliefs of the chooser, which selects lessons.
//
// Only Learner.Beliefs is on the path of a request; it never waits for the backend. A correction starts from the
// assignment frozen when the session closed, so that the counters do not depend on the order of the feedback. A failed
// step is repeated; a panic affects only its session (internal/guard).
//
// A settlement stores the reward of a session and moves the counters. A touched session waits for a correction. A
// provisional reward belongs to an open session; only the chooser uses it. A unit is a run, or a session with its
// sub-agents, and has members.
//
// Lock order: Deliverer.WithDeliveryPaused, beliefs.mu, beliefs.tenantsMu. The backend is called under the first two.
// No lock of this package blocks the recording of exchanges.
package learn
