package proxy

import (
	"errors"
	"io"
	"sync"
)

// errReleased is what a read of a request body gets after its turn is over.
var errReleased = errors.New("proxy: request body read after its turn was over")

// errTooLarge says that a request body exceeds limits.body_bytes.
var errTooLarge = errors.New("proxy: request body exceeds limits.body_bytes")

// smallest and largest pooled buffers, as powers of two: 4 KiB to 16 MiB. What is larger is left to the collector.
const (
	minClass = 12
	maxClass = 24
)

// pool keeps byte buffers by size class, so that a 1 KB request does not pin a 1 MB buffer.
type pool struct {
	classes [maxClass - minClass + 1]sync.Pool
}

// get returns an empty buffer with at least n bytes of room.
func (p *pool) get(n int) []byte {
	c := minClass
	for c < maxClass && 1<<c < n {
		c++
	}
	if 1<<c < n {
		return make([]byte, 0, n)
	}
	if b, ok := p.classes[c-minClass].Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, 1<<c)
}

// put gives a buffer back.
func (p *pool) put(b []byte) {
	c := minClass
	for c < maxClass && 1<<(c+1) <= cap(b) {
		c++
	}
	if cap(b) < 1<<minClass || cap(b) > 1<<maxClass {
		return
	}
	b = b[:0]
	p.classes[c-minClass].Put(&b)
}

// grow returns b with room for at least one more byte, moved into a buffer of the next class when it is full.
func (p *pool) grow(b []byte) []byte {
	if len(b) < cap(b) {
		return b
	}
	n := append(p.get(2*cap(b)), b...)
	p.put(b)
	return n
}

// readBody reads at most limit+1 bytes of r into a pooled buffer. more says that r holds more than that.
func (p *pool) readBody(r io.Reader, size int64, limit int64) (body []byte, more bool, err error) {
	hint := size + 1 // one more, so that the read that finds the end needs no growth
	if hint <= 0 || hint > limit+1 {
		hint = min(limit+1, 8<<10)
	}
	b := p.get(int(hint))
	for {
		b = p.grow(b)
		room := b[len(b):cap(b)]
		if left := limit + 1 - int64(len(b)); int64(len(room)) > left {
			room = room[:left]
		}
		n, err := r.Read(room)
		b = b[:len(b)+n]
		switch {
		case int64(len(b)) > limit:
			return b, true, nil
		case errors.Is(err, io.EOF):
			return b, false, nil
		case err != nil:
			return b, false, err
		}
	}
}

// payload is a request body that may be sent several times (a retry on a stale connection, the original after a
// rejection) and that can be called back from every reader at once.
type payload struct {
	mu   sync.Mutex
	data []byte // nil once released
	tail io.Reader
}

// reader gives a fresh reader of the whole payload.
func (p *payload) reader() io.ReadCloser { return &payloadReader{p: p} }

// release ends the payload's life: later reads fail, and the buffer is the caller's again.
func (p *payload) release() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.data
	p.data, p.tail = nil, nil
	return b
}

// payloadReader reads one payload once.
type payloadReader struct {
	p   *payload
	off int
	end bool
}

// Read copies under the payload's lock, so that release cannot pull the buffer away in the middle.
func (r *payloadReader) Read(b []byte) (int, error) {
	n, tail, err := r.read(b)
	if tail != nil { // not under the lock: a slow client must not hold up the turn's end
		return tail.Read(b)
	}
	return n, err
}

// read serves what is in memory; past it, it hands out the rest of the client's body where there is one.
func (r *payloadReader) read(b []byte) (int, io.Reader, error) {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	switch {
	case r.end || r.p.data == nil:
		return 0, nil, errReleased
	case r.off < len(r.p.data):
		n := copy(b, r.p.data[r.off:])
		r.off += n
		return n, nil, nil
	case r.p.tail != nil:
		return 0, r.p.tail, nil
	}
	return 0, nil, io.EOF
}

// Close ends this reader alone.
func (r *payloadReader) Close() error {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	r.end = true
	return nil
}
