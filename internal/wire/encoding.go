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

// Decode returns a reader of a body without its Content-Encoding (gzip, deflate, zstd, br, identity). The decoded body
// may be a thousand times longer than body, so the caller must limit the bytes that it reads.
func Decode(encoding string, body []byte) (io.ReadCloser, error) {
	plain, err := decoder(encoding, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("decode %q: %w", encoding, err)
	}
	return plain, nil
}

// maxWindow is the maximum memory for a zstd frame. RFC 8878 asks decoders to support 8 MiB.
const maxWindow = 8 << 20

var errEncoding = errors.New("unknown encoding")

// decoder returns a reader of the decoded bytes of r. No decoder starts a goroutine.
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

// canonicalEncoding returns the canonical name of a Content-Encoding, "" for none.
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

// inflate returns a reader of deflate data. RFC 9110 requires the zlib format, but some servers send the bare format.
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

// unpacker decodes a compressed reply that arrives in pieces. The decoder runs as a coroutine on the goroutine of the
// caller. When Write returns, all bytes that could be decoded so far have been passed to write.
type unpacker struct {
	input           []byte              // bytes of the current Write that the decoder has not read
	yield           func(struct{}) bool // returns to the caller of Write; false means no more bytes come
	resume          func() (struct{}, bool)
	stop            func()
	cost            int   // approximate memory of the decoder in bytes
	compressedBytes int64 // bytes of the reply
	decodedBytes    int64 // decoded bytes
	ended           bool  // the decoder is at its end
	err             error // error with which the decoder ended; io.EOF for a regular end
}

// errTooLong is the error of a reply that decodes to more bytes than its compressed length permits.
var errTooLong = errors.New("the decoded reply is too long")

// The maximum number of decoded bytes is unpackedFree plus unpackedRatio times the number of compressed bytes. A reply
// that compresses better is not text, and decoding it would delay the client.
const (
	unpackedFree  = 1 << 20
	unpackedRatio = 64
)

// newUnpacker returns an unpacker that passes the decoded bytes to write.
func newUnpacker(encoding string, write func([]byte)) *unpacker {
	u := &unpacker{cost: 64 << 10}
	if name := canonicalEncoding(encoding); name == "br" || name == "zstd" {
		u.cost = 1 << 20 // memory of the window
	}
	u.resume, u.stop = iter.Pull(func(wait func(struct{}) bool) {
		u.yield = wait
		u.err = u.run(encoding, write)
	})
	return u
}

// run decodes to the end, and returns the error with which the decoder ended.
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

// Read implements io.Reader for the decoder. If the decoder needs bytes that have not arrived yet, Read continues the
// caller of Write until the next Write.
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

// Write decodes the next bytes.
func (u *unpacker) Write(p []byte) {
	u.input = p
	if !u.ended {
		_, more := u.resume()
		u.ended = !more
	}
	u.input = nil
}

// Close ends the decoder, which then reads io.EOF.
func (u *unpacker) Close() {
	u.ended = true
	u.stop()
	if u.compressedBytes == 0 { // an empty reply
		u.err = io.EOF
	}
}

// memoryBytes returns the approximate memory of the decoder.
func (u *unpacker) memoryBytes() int {
	if u == nil || u.ended {
		return 0
	}
	return u.cost
}
