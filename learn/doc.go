// Package learn closes sessions at a fixed age. To close a session, the package computes the reward from the
// feedback, builds the samples and moves the counters. The package also holds the beliefs of the chooser.
//
// Only Learner.Beliefs is on the path of a request. Beliefs never reads the backend, and never waits for a goroutine
// that reads the backend. Run closes and corrects sessions in one goroutine, Follow reads the counts of other replicas,
// and Report answers a caller. A correction starts from the assignment that was frozen at the closing, so that the
// counters do not depend on the order of the feedback.
//
// These terms are used in the package. A settlement stores the reward of a session and moves the counters, at the
// closing or as a correction. A touched session has new feedback and waits for a correction. A provisional reward is
// the reward of an open session, which only the chooser uses. A unit is a run, or a session with its sub-agents; the
// sessions of a unit are its members. The guard sets aside a session if one of its steps panicked.
//
// The newest state of a session is in memory or on the way to the backend. The interfaces Memory, Deliverer and Touches
// give access to this state. Package learn does not import the package that implements them, and no lock of package
// learn blocks the recording of exchanges.
//
// A failed step is repeated. A panic affects only the session of the step (internal/guard).
//
// Lock order: the lock of Deliverer.WithDeliveryPaused, beliefs.mu, beliefs.tenantsMu. The backend is called
// under the first two.
package learn
