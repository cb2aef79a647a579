//go:build !unix

package proxy

// peek is nothing here.
type peek struct{}

// alive cannot look here; a request on a dead connection is sent again on a fresh one.
func alive(*wireConn) bool { return true }

// isReset takes every failed write for a closed connection.
func isReset(err error) bool { return err != nil }
