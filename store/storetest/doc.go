// Package storetest is the conformance suite of backends. The test of a backend is:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) storetest.Store { return openEmpty(t) })
//	}
//
// openEmpty returns a new empty store, and closes the store with t.Cleanup. The suite has no clock: times
// are arguments, far from now. The suite must pass under -race.
//
// Backends may differ in behaviour without a case in the suite. A change that depends on such behaviour
// adds the case first.
//
// The package also starts real servers of Redis for tests, and mounts small disks.
package storetest
