package main

import (
	"os"
	"syscall"
)

func forwardedSignals() []os.Signal { return []os.Signal{syscall.SIGINT, syscall.SIGTERM} }

// isUserSignal returns false: Windows has no such signal.
func isUserSignal(syscall.Signal) bool { return false }
