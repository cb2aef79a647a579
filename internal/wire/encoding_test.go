package wire_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"precept/internal/wire"
)

// compressedVariants returns the compressed text by encoding. The two formats of deflate have a suffix after a colon.
func compressedVariants(t *testing.T, text string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name, open := range map[string]func(io.Writer) (io.WriteCloser, error){
		"gzip":         func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil },
		"deflate:zlib": func(w io.Writer) (io.WriteCloser, error) { return zlib.NewWriter(w), nil },
		"deflate:raw":  func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) },
		"br":           func(w io.Writer) (io.WriteCloser, error) { return brotli.NewWriter(w), nil },
		"zstd":         func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1)) },
	} {
		var b bytes.Buffer
		z, err := open(&b)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(z, text); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		out[name] = b.String()
	}
	return out
}

func TestCompressedReplyReadsLikePlainReply(t *testing.T) {
	stream := strings.Repeat("data: {\"id\":\"c1\",\"choices\":[{\"delta\":{\"content\":\"日本é\"}}]}\n\n", 500) + "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
	for _, text := range []string{stream, `{"id":"c1","choices":[{"finish_reason":"stop","message":{"content":"a"}}]}`, ""} {
		want := readInPieces(wire.Chat, text, 1<<20)
		for name, raw := range compressedVariants(t, text) {
			encoding, _, _ := strings.Cut(name, ":")
			for _, piece := range []int{1, 7, 1 << 20} {
				r := wire.NewReplyReader(wire.Chat, int64(len(raw)), 1<<20)
				r.SetEncoding(encoding)
				for rest := raw; rest != ""; rest = rest[min(piece, len(rest)):] {
					_, _ = r.Write([]byte(rest[:min(piece, len(rest))]))
				}
				if got := r.Reply(); !reflect.DeepEqual(got, want) || r.UnreadReason() != "" {
					t.Errorf("%s in %d-byte pieces: got reply %+v, UnreadReason = %q, want %+v and an empty UnreadReason", name, piece, got, r.UnreadReason(), want)
				}
			}
		}
	}
}

func TestTruncatedCompressedReplyIsIncomplete(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, "data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n")
	_ = z.Flush()
	r := wire.NewReplyReader(wire.Chat, -1, 1<<20)
	r.SetEncoding("gzip")
	_, _ = r.Write(b.Bytes())
	if rep := r.Reply(); rep.Text != "half" || rep.Complete {
		t.Errorf(`Reply = %+v, want Text = "half" and Complete = false`, rep)
	}
}
