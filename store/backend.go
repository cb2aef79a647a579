package store

import (
	"time"

	"precept/internal/guard"
)

// writeLimit bounds one attempt to write a batch.
const writeLimit = 10 * time.Second

// Backend is what stands behind the store: each part says which of it it needs.
type Backend interface {
	recorded
	archived
	deleter
	guard.Marks
	Close() error
}

// recorded is what happened in sessions, and what was said of them.
type recorded interface {
	sessionFinder
	batchWriter
	syncer
	feedbackSets
	parking
}

// Fleet is a backend that other processes write to as well: through it replicas tell each other
// what they have forgotten, and who opted out.
type Fleet interface {
	epochs
	announcer
	optOutKeeper
	optOutFinder
}
