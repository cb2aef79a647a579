//go:build !race

package server

import "testing"

// 1,000 reloads under load; what TestChaosReloads does with the race detector.
func TestAThousandReloads(t *testing.T) {
	t.Parallel()
	reloads(t, 1000)
}
