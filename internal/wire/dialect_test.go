package wire

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"testing"
	"unicode/utf8"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

func TestDialectForPath(t *testing.T) {
	for path, want := range map[string]string{
		"/v1/chat/completions": "chat", "/chat/completions": "chat", "/p/agent=a/v1/chat/completions": "chat",
		"/v1/responses": "responses", "/openai/v1/responses": "responses", "/v1/responses/resp_1": "none", "/v1/responses/": "none",
		"/v1/messages": "messages", "/messages": "messages", "/v1/messages/count_tokens": "none", "/v1/messages/batches": "none",
		"/": "none", "": "none", "/v1/completions": "none", "/v1/embeddings": "none", "/v1/xmessages": "none",
	} {
		if got := DialectForPath(path).String(); got != want {
			t.Errorf("DialectForPath(%q) = %s, want %s", path, got, want)
		}
	}
}

func TestErrorBody(t *testing.T) {
	const message = "try \"again\"\n<later>"
	for _, d := range []Dialect{NoDialect, Chat, Responses, Messages} {
		body := ErrorBody(d, 503, message+"\xff")
		var got struct {
			Type  string
			Error struct {
				Message, Type, Code string
				Param               *string
			}
		}
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatalf("%s: error body %s is not JSON: %v", d, body, err)
		}
		if !utf8.Valid(body) || got.Error.Message != message+"\uFFFD" || got.Error.Type != "precept_error" {
			t.Errorf("%s: got %q, want valid UTF-8 with the message %q and the type precept_error", d, body, message+"\uFFFD")
		}
		if (got.Type == "error") != (d == Messages) || (got.Error.Code == "service_unavailable") != (d != Messages) {
			t.Errorf("%s: got %s, want type = error only in the Messages API and code = service_unavailable only in the other APIs", d, body)
		}
	}
	if body := ErrorBody(Chat, 418, "x"); !bytes.Contains(body, []byte(`"im_a_teapot"`)) {
		t.Errorf("status 418: got %s, want the code im_a_teapot", body)
	}
	const want = `{"error":{"message":"too big","type":"precept_error","param":null,"code":"request_entity_too_large"}}`
	if got := string(ErrorBody(Chat, 413, "too big")); got != want {
		t.Errorf("ErrorBody = %s, want %s", got, want)
	}
}

func encodeBody(tb testing.TB, encoding string, body []byte) []byte {
	tb.Helper()
	var out bytes.Buffer
	var w io.WriteCloser
	switch encoding {
	case "gzip":
		w = gzip.NewWriter(&out)
	case "br":
		w = brotli.NewWriter(&out)
	case "zstd":
		z, err := zstd.NewWriter(&out)
		if err != nil {
			tb.Fatal(err)
		}
		w = z
	default:
		return body
	}
	if _, err := w.Write(body); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

func decode(encoding string, body []byte, limit int64) ([]byte, error) {
	plain, err := Decode(encoding, body)
	if err != nil {
		return nil, err
	}
	defer func() { _ = plain.Close() }()
	return io.ReadAll(io.LimitReader(plain, limit))
}

func TestDecodeEncodings(t *testing.T) {
	plain := bytes.Repeat([]byte(`{"messages":[]} `), 1000)
	for _, encoding := range []string{"", "identity", "gzip", "br", "zstd"} {
		body := encodeBody(t, encoding, plain)
		if got, err := decode(encoding, body, 1<<20); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("encoding %q: got %d bytes, error %v, want the %d bytes of the plain body", encoding, len(got), err, len(plain))
		}
		if encoding != "" && encoding != "identity" {
			if _, err := decode(encoding, body[:len(body)/2], 1<<20); err == nil {
				t.Errorf("%s: truncated body: got no error, want an error", encoding)
			}
			if _, err := decode(encoding, []byte("{}nonsense that is not compressed"), 1<<20); err == nil {
				t.Errorf("%s: uncompressed body: got no error, want an error", encoding)
			}
		}
	}
	if got, err := decode(" GZIP ", encodeBody(t, "gzip", plain), 1<<20); err != nil || !bytes.Equal(got, plain) {
		t.Errorf(`encoding " GZIP ": got %d bytes, error %v, want the %d bytes of the plain body`, len(got), err, len(plain))
	}
	for _, encoding := range []string{"deflate", "gzip, br", "aws-chunked"} {
		if _, err := decode(encoding, plain, 1<<20); err == nil {
			t.Errorf("uncompressed body as %q: got no error, want an error", encoding)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, encoding := range []string{"gzip", "br", "zstd", ""} {
		f.Add(encoding, encodeBody(f, encoding, []byte(`{"input":"a"}`)))
	}
	f.Fuzz(func(t *testing.T, encoding string, body []byte) {
		if out, err := decode(encoding, body, 1000); len(out) > 1000 {
			t.Fatalf("Decode(%q, %q) returned %d bytes, error %v, want at most 1000 bytes", encoding, body, len(out), err)
		}
	})
}
