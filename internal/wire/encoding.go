package wire

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// Decode removes a Content-Encoding (gzip, zstd, br, identity) for inspection. The decoded body may
// be a thousand times longer than body: the reader must stop in time.
func Decode(encoding string, body []byte) (io.ReadCloser, error) {
	plain, err := decoder(strings.ToLower(strings.TrimSpace(encoding)), body)
	if err != nil {
		return nil, fmt.Errorf("decode %q: %w", encoding, err)
	}
	return plain, nil
}

// maxWindow bounds the memory for a zstd frame; RFC 8878 asks decoders for 8 MiB.
const maxWindow = 8 << 20

func decoder(encoding string, body []byte) (io.ReadCloser, error) {
	r := bytes.NewReader(body)
	switch encoding {
	case "", "identity":
		return io.NopCloser(r), nil
	case "gzip", "x-gzip":
		return gzip.NewReader(r)
	case "br":
		return io.NopCloser(brotli.NewReader(r)), nil
	case "zstd":
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}
	return nil, fmt.Errorf("unknown encoding")
}
