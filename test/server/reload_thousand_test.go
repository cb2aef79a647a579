//go:build !race

package server

import "testing"

// The test has 1,000 reloads under load. TestChaosReloadsFailNoRequest has fewer, and also runs with the race detector.
func TestThousandReloadsFailNoRequest(t *testing.T) {
	t.Parallel()
	reloadUnderLoad(t, 1000)
}
