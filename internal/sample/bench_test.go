package sample_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"precept/internal/sample"
)

// sourceText returns n bytes of source code, the most common content in requests.
func sourceText(n int) []byte {
	line := "func (s *Server) handle(w http.ResponseWriter, r *http.Request) error {\n\treturn fmt.Errorf(\"get %s: %w\", id, err) // 7235\n}\n"
	text, _ := json.Marshal(strings.Repeat(line, n/len(line)+1)[:n])
	return []byte(`{"role":"user","content":` + string(text) + `}`)
}

func BenchmarkEncode(b *testing.B) {
	e := sample.Exchange{ID: "a", At: time.Unix(1, 0), New: []json.RawMessage{sourceText(32 << 10)}, Reply: sample.Reply{Text: strings.Repeat("an answer\n", 100)}}
	b.SetBytes(32 << 10)
	b.ReportAllocs()
	for b.Loop() {
		e.Encode()
	}
}

func BenchmarkOptOut(b *testing.B) {
	o, err := sample.NewOptOut([]string{"*.env", "secrets/**", "*.pem"}, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	args, _ := json.Marshal(map[string]string{"file_path": "/home/u/p/internal/server.go", "content": string(sourceText(16 << 10))})
	b.SetBytes(int64(len(args)))
	for b.Loop() {
		if o.NamesPath(string(args)) {
			b.Fatal("an opt-out pattern matched the arguments")
		}
	}
}
