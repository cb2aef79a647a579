package server

import (
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// A server that has nothing to do keeps what its last busy minute left behind, because the
// collector comes only when as much again was allocated, and that may take hours. So a server that
// allocated less than idleBytes in idleEvery is collected, and its memory given back. That takes
// some ten milliseconds a minute where nobody is served.
const (
	idleEvery = time.Minute
	idleBytes = 64 << 20
)

// idle knows what was allocated when it last looked.
type idle struct{ allocated uint64 }

// look gives memory back where little was allocated since the last look.
func (i *idle) look() {
	now := allocated()
	if now-i.allocated < idleBytes {
		debug.FreeOSMemory()
	}
	i.allocated = now
}

// allocated is how much was ever put on the heap, in bytes.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
