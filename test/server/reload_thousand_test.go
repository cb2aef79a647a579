//go:build !race

package server

import "testing"

// The shorter TestChaosReloadsFailNoRequest also runs with the race detector.
func TestThousandReloadsFailNoRequest(t *testing.T) {
	t.Parallel()
	reloadUnderLoad(t, 1000)
}
