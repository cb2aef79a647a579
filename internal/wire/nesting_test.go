package wire

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

func TestIsWholeValueAfterEachPiece(t *testing.T) {
	for _, text := range []string{
		`{"a":"}\"{","b":[1,{"c":2}]}`, `[1,[2],"]"]`, `"a \" b"`, `12`, `true`, `  {} `, `{"a":"\\"}`,
		"{\"long\":\"" + strings.Repeat("x", 3*textPiece) + "\"}",
	} {
		s, step := &replyItem{}, max(len(text)/100, 1)
		for at := 0; at < len(text); at += step {
			piece := text[at:min(at+step, len(text))]
			s.grow(len(piece))
			s.text = append(s.text, piece...)
			if got, want := s.isWholeValue(), valid([]byte(text[:at+len(piece)])); got != want || s.isWholeValue() != want {
				t.Fatalf("%.30q, first %d bytes: isWholeValue = %v, want %v", text, at+len(piece), got, want)
			}
		}
	}
	for _, text := range []string{"", "{", "]", `{"a":1`, "{}{}", "{" + strings.Repeat("x", shortValue) + "}"} {
		if s := (&replyItem{text: []byte(text)}); s.isWholeValue() {
			t.Errorf("%.30q: isWholeValue = true, want false", text)
		}
	}
}

// Each piece with a name and without an id can start a new call.
func TestReaderAllocationIsLinearInNamedPieces(t *testing.T) {
	piece := func(args string) string {
		return fmt.Sprintf("data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"name\":\"f\",\"arguments\":%q}}]}}]}\n\n", args)
	}
	stream := piece("[") + strings.Repeat(piece(strings.Repeat("1,", 30)), 10_000)
	r := NewReplyReader(Chat, -1, 1<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _ = r.Write([]byte(stream))
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 20*uint64(len(stream)) {
		t.Errorf("allocated %d bytes for a %d-byte stream, want at most 20 times the length", allocated, len(stream))
	}
}
