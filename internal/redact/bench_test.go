package redact

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func codeText(n int) []byte {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "func (s *Server) handle%d(w http.ResponseWriter, r *http.Request) error {\n", i)
		fmt.Fprintf(&b, "\tif err := s.store.Get(r.Context(), %q); err != nil {\n\t\treturn fmt.Errorf(\"get %%s: %%w\", id, err)\n\t}\n", "key-"+fmt.Sprint(i))
		fmt.Fprintf(&b, "\ttoken := r.Header.Get(\"X-Token\") // see RFC 7235, line %d\n\treturn nil\n}\n\n", i*37)
		fmt.Fprintf(&b, "-rw-r--r-- 1 root root %d Nov 21 09:56 internal/server/handler_%d.go\n", i*1031, i)
		fmt.Fprintf(&b, "ok  \texample/internal/server\t%d.%03ds  coverage: 81.%d%% of statements\n", i%9, i%1000, i%10)
	}
	text, _ := json.Marshal(b.String()[:n])
	return []byte(`{"role":"user","content":` + string(text) + `}`)
}

func BenchmarkRedact(b *testing.B) {
	for _, size := range []int{1 << 10, 32 << 10} {
		b.Run(fmt.Sprintf("%dK", size>>10), func(b *testing.B) {
			raw := codeText(size)
			r := New(true)
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				r.JSON(nil, raw)
			}
		})
	}
	b.Run("prose1K", func(b *testing.B) {
		raw := []byte(`{"content":"` + strings.Repeat("The quick brown fox jumps over the lazy dog and back again, twice. ", 15) + `"}`)
		r := New(true)
		b.SetBytes(int64(len(raw)))
		for b.Loop() {
			r.JSON(nil, raw)
		}
	})
	b.Run("names1K", func(b *testing.B) {
		raw := []byte(`{"content":"` + strings.Repeat("token ", 170) + `"}`)
		r := New(true)
		b.SetBytes(int64(len(raw)))
		for b.Loop() {
			r.JSON(nil, raw)
		}
	})
}
