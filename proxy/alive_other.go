//go:build !unix

package proxy

import "net"

// alive cannot look here; a request on a dead connection is sent again on a fresh one.
func alive(net.Conn) bool { return true }

// isReset takes every failed write for a closed connection.
func isReset(err error) bool { return err != nil }
