package storetest

import "testing"

// Run holds one backend to the contract. open makes an empty store.
func Run(t *testing.T, open func(t *testing.T) Store) {
	t.Helper()
}
