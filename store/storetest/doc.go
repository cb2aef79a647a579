// Package storetest is the conformance suite for backends. A backend's test calls Run with a function that returns a
// new empty store. The suite does not use the clock: all times are arguments, and far from the present. It must pass
// with -race.
//
// Backends may differ in behaviour for which the suite has no case. A change that depends on such behaviour first adds
// a case.
//
// The package also starts real Redis servers for tests, and mounts small disks.
package storetest
