// Package storetest holds every backend to one behaviour. An implementation's own test is three
// lines:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) storetest.Store { return openEmpty(t) })
//	}
//
// Contract: open returns an empty store each time and closes it by t.Cleanup. The suite has no
// clock of its own: times are values that it passes in, far from now. It must also pass under
// -race.
//
// Hazard: what the suite does not ask, two backends may do differently. A caller that relies on
// something new adds the case here first.
package storetest
