//go:build !race

package server

import "testing"

// With the race detector, only the shorter TestChaosReloadsFailNoRequest runs.
func TestThousandReloadsFailNoRequest(t *testing.T) {
	t.Parallel()
	reloadUnderLoad(t, 1000)
}
