package proxy

import (
	"bytes"
	"errors"
	"io"
	"math/bits"
	"sync"
)

// A pooled buffer has 1<<minClass (4 KiB) to 1<<maxClass (16 MiB) bytes. The garbage collector frees larger buffers.
const (
	minClass = 12
	maxClass = 24
)

// pool holds buffers by size class.
type pool struct {
	classes [maxClass - minClass + 1]sync.Pool
}

func (p *pool) get(n int) []byte {
	c := max(bits.Len(uint(max(n-1, 0))), minClass)
	if c > maxClass {
		return make([]byte, 0, n)
	}
	if b, ok := p.classes[c-minClass].Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, 1<<c)
}

func (p *pool) put(b []byte) {
	c := bits.Len(uint(cap(b))) - 1
	if c < minClass || cap(b) > 1<<maxClass {
		return
	}
	b = b[:0]
	p.classes[c-minClass].Put(&b)
}

// grow returns b or, if b is full, a copy in a buffer from the next size class.
func (p *pool) grow(b []byte) []byte {
	if len(b) < cap(b) {
		return b
	}
	larger := append(p.get(2*cap(b)), b...)
	p.put(b)
	return larger
}

// readBody appends to the pooled buffer b, until b has limit+1 bytes or tryCharge refuses more memory. more is true if
// r may have more bytes.
func (p *pool) readBody(b []byte, r io.Reader, limit int64, tryCharge func(n int) bool) (body []byte, more bool, err error) {
	for {
		if len(b) == cap(b) && !tryCharge(cap(b)) {
			return b, true, nil
		}
		b = p.grow(b)
		free := b[len(b):cap(b)]
		if remaining := limit + 1 - int64(len(b)); int64(len(free)) > remaining {
			free = free[:remaining]
		}
		n, err := r.Read(free)
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

// firstBufferSize returns the first buffer's size. size is the body's announced size, or -1.
func firstBufferSize(size, limit int64) int {
	hint := size + 1 // one more byte, for the read at the end
	if hint <= 0 || hint > limit+1 {
		hint = min(limit+1, 8<<10)
	}
	return int(hint)
}

// payload is a request body: the bytes in memory and, for a long body, a reader for the rest.
type payload struct {
	data    []byte          // inspected part, in a pooled buffer
	tail    io.Reader       // rest of the client's stream; nil means data is the whole body
	readers []*bytes.Reader // returned by reader
}

// reader returns a reader over the payload. A bytes.Reader lets net/http send headers and a short body in one write.
func (p *payload) reader() io.ReadCloser {
	r := bytes.NewReader(p.data)
	p.readers = append(p.readers, r)
	if p.tail == nil {
		return io.NopCloser(r)
	}
	return io.NopCloser(io.MultiReader(r, p.tail))
}

// release returns the buffer to the pool. Call it when no goroutine reads the payload. net/http keeps the readers until
// the response ends, so release first detaches the buffer from the readers.
func (p *payload) release(buffers *pool) {
	for _, r := range p.readers {
		r.Reset(nil)
	}
	buffers.put(p.data)
	p.data, p.readers = nil, nil
}
