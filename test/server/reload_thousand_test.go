//go:build !race

package server

import "testing"

// TestChaosReloadsFailNoRequest has fewer reloads, and also runs with the race detector.
func TestThousandReloadsFailNoRequest(t *testing.T) {
	t.Parallel()
	reloadUnderLoad(t, 1000)
}
