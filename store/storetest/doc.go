// Package storetest is the conformance suite of backends. The test of a backend is:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) storetest.Store { return openEmpty(t) })
//	}
//
// open returns an empty store each time, and closes the store with t.Cleanup. The suite has no clock:
// times are arguments, far from now. The suite must pass under -race.
//
// Two backends may differ where the suite has no case. A caller that depends on new behaviour adds a
// case first.
//
// The package also starts real servers of Redis for tests, and mounts small disks.
package storetest
