//go:build !race

package server

import "testing"

// 1,000 reloads under load, without the race detector; TestChaosReloadsFailNoRequest is shorter and runs with it, too.
func TestThousandReloadsFailNoRequest(t *testing.T) {
	t.Parallel()
	reloadUnderLoad(t, 1000)
}
