package wire

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// Decode returns a reader that decodes a body's Content-Encoding (gzip, deflate, zstd, br, identity). The decoded body
// may be a thousand times longer, so the caller must limit the length.
func Decode(encoding string, body []byte) (io.ReadCloser, error) {
	plain, err := decoder(encoding, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("decode %q: %w", encoding, err)
	}
	return plain, nil
}

const maxWindow = 8 << 20 // bytes per zstd frame; RFC 8878 asks decoders to support 8 MiB

var errEncoding = errors.New("unknown encoding")

// decoder returns a reader that decodes r and starts no goroutine.
func decoder(encoding string, r io.Reader) (io.ReadCloser, error) {
	switch canonicalEncoding(encoding) {
	case "":
		return io.NopCloser(r), nil
	case "gzip":
		return gzip.NewReader(r)
	case "deflate":
		return inflate(bufio.NewReader(r))
	case "br":
		return io.NopCloser(brotli.NewReader(r)), nil
	case "zstd":
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}
	return nil, errEncoding
}

func canonicalEncoding(encoding string) string {
	switch name := strings.ToLower(strings.TrimSpace(encoding)); name {
	case "identity":
		return ""
	case "x-gzip":
		return "gzip"
	default:
		return name
	}
}

// inflate reads deflate data. RFC 9110 requires the zlib format, but some servers send the bare format.
func inflate(r *bufio.Reader) (io.ReadCloser, error) {
	head, err := r.Peek(2)
	if err != nil {
		return nil, err
	}
	const method, deflated = 0x0f, 8
	if head[0]&method == deflated && (int(head[0])<<8|int(head[1]))%31 == 0 {
		return zlib.NewReader(r)
	}
	return flate.NewReader(r), nil
}

// unpacker decodes a compressed reply that arrives in pieces. The decoder is a coroutine on the caller's goroutine.
// Before Write returns, the decoder has passed on all bytes that can be decoded so far.
type unpacker struct {
	input           []byte              // bytes from the current Write that are not yet read
	yield           func(struct{}) bool // suspends the decoder until the next Write; false means no more bytes
	resume          func() (struct{}, bool)
	stop            func()
	cost            int // approximate memory in bytes
	compressedBytes int64
	decodedBytes    int64
	ended           bool
	err             error // error at the end; io.EOF for a regular end
}

var errTooLong = errors.New("the decoded reply is too long")

// The decoder stops after unpackedFree bytes plus unpackedRatio times the compressed bytes. A reply that compresses
// better is not text, and decoding it would delay the client.
const (
	unpackedFree  = 1 << 20
	unpackedRatio = 64
)

func newUnpacker(encoding string, write func([]byte)) *unpacker {
	u := &unpacker{cost: 64 << 10}
	if name := canonicalEncoding(encoding); name == "br" || name == "zstd" {
		u.cost = 1 << 20 // window
	}
	u.resume, u.stop = iter.Pull(func(wait func(struct{}) bool) {
		u.yield = wait
		u.err = u.run(encoding, write)
	})
	return u
}

func (u *unpacker) run(encoding string, write func([]byte)) error {
	plain, err := decoder(encoding, u)
	if err != nil {
		return err
	}
	defer func() { _ = plain.Close() }()
	for buffer := make([]byte, 8<<10); err == nil; {
		var n int
		n, err = plain.Read(buffer)
		if u.decodedBytes += int64(n); u.decodedBytes > unpackedFree+unpackedRatio*u.compressedBytes {
			return errTooLong
		}
		write(buffer[:n])
	}
	return err
}

// Read implements io.Reader for the decoder. Without input, it suspends the decoder until the next Write.
func (u *unpacker) Read(p []byte) (int, error) {
	for len(u.input) == 0 {
		if !u.yield(struct{}{}) {
			return 0, io.EOF
		}
	}
	n := copy(p, u.input)
	u.input, u.compressedBytes = u.input[n:], u.compressedBytes+int64(n)
	return n, nil
}

func (u *unpacker) Write(p []byte) {
	u.input = p
	if !u.ended {
		_, more := u.resume()
		u.ended = !more
	}
	u.input = nil
}

// Close ends the decoder: the pending Read returns io.EOF.
func (u *unpacker) Close() {
	u.ended = true
	u.stop()
	if u.compressedBytes == 0 { // an empty reply
		u.err = io.EOF
	}
}

func (u *unpacker) memoryBytes() int {
	if u == nil || u.ended {
		return 0
	}
	return u.cost
}
