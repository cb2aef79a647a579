//go:build !race

package server

import "testing"

// 1,000 reloads under load; TestChaosReloadsFailNoRequest is the shorter form with the race detector.
func TestThousandReloadsFailNoRequest(t *testing.T) {
	t.Parallel()
	reloads(t, 1000)
}
