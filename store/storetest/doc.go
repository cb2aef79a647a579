// Package storetest is the conformance suite of backends. The test of a backend is:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) storetest.Store { return openEmpty(t) })
//	}
//
// openEmpty returns a new empty store, and closes it with t.Cleanup. The suite does not use the clock: all times are
// arguments, and are far from the present. The suite must pass with -race.
//
// Backends may differ in any behaviour for which the suite has no case. A change that depends on such behaviour first
// adds a case.
//
// The package also starts real Redis servers for tests, and mounts small disks.
package storetest
