package wire

import (
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

type sseEvent struct {
	name, data string
	lost       bool // the data exceeded the limit
}

// events reads stream in pieces of n bytes.
func events(stream string, limit, n int) []sseEvent {
	var out []sseEvent
	s := sseReader{maxBytes: limit, handleEvent: func(name, data []byte, lost bool) {
		if lost { // data is the tail of the line
			data = nil
		}
		out = append(out, sseEvent{string(name), string(data), lost})
	}}
	for len(stream) > 0 {
		k := min(n, len(stream))
		s.write([]byte(stream[:k]))
		stream = stream[k:]
	}
	s.end()
	return out
}

func TestSSEReaderReadsEvents(t *testing.T) {
	for _, tc := range []struct {
		name, stream string
		want         []sseEvent
	}{
		{"empty stream", "", nil},
		{"blank lines", "\n\n\r\n\r\r", nil},
		{"one event", "data: a\n\n", []sseEvent{{"", "a", false}}},
		{"no space", "data:a\n\n", []sseEvent{{"", "a", false}}},
		{"two spaces", "data:  a\n\n", []sseEvent{{"", " a", false}}},
		{"no line end", "data: a", []sseEvent{{"", "a", false}}},
		{"no blank line at the end", "data: a\n", []sseEvent{{"", "a", false}}},
		{"two lines", "data: a\ndata: b\n\n", []sseEvent{{"", "a\nb", false}}},
		{"empty data", "data:\n\ndata\n\n", []sseEvent{{"", "", false}, {"", "", false}}},
		{"two lines, the first empty", "data:\ndata: b\n\n", []sseEvent{{"", "\nb", false}}},
		{"CRLF", "event: x\r\ndata: a\r\n\r\ndata: b\r\n\r\n", []sseEvent{{"x", "a", false}, {"", "b", false}}},
		{"CR", "event: x\rdata: a\r\rdata: b\r\r", []sseEvent{{"x", "a", false}, {"", "b", false}}},
		{"mixed line ends", "data: a\r\n\ndata: b\n\rdata: c\r\r\n", []sseEvent{{"", "a", false}, {"", "b", false}, {"", "c", false}}},
		{"comments", ": keep\ndata: a\n:\n: PROCESSING\n\n", []sseEvent{{"", "a", false}}},
		{"unused fields", "id: 7\nretry: 3\nfoo: bar\nnonsense\ndata: a\n\n", []sseEvent{{"", "a", false}}},
		{"name without data", "event: ping\n\ndata: a\n\n", []sseEvent{{"", "a", false}}},
		{"the last name counts", "event: x\nevent: y\ndata: a\n\n", []sseEvent{{"y", "a", false}}},
		{"colon in the data", "data: a: b\n\n", []sseEvent{{"", "a: b", false}}},
		{"a space is not a field", " data: a\n\n", nil},
		{"data above the limit", "event: big\ndata: " + strings.Repeat("x", 100) + "\n\ndata: a\n\n", []sseEvent{{"big", "", true}, {"", "a", false}}},
		{"several lines above the limit", "data: " + strings.Repeat("x", 40) + "\ndata: " + strings.Repeat("x", 40) + "\ndata: y\n\ndata: a\n\n", []sseEvent{{"", "", true}, {"", "a", false}}},
		{"long comment", ": " + strings.Repeat("x", 100) + "\ndata: a\n\n", []sseEvent{{"", "a", false}}},
		{"exactly the limit", "data: " + strings.Repeat("x", 58) + "\n\n", []sseEvent{{"", strings.Repeat("x", 58), false}}},
		{"data above the limit, truncated", "data: " + strings.Repeat("x", 100), []sseEvent{{"", "", true}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, n := range []int{1 << 10, 1, 2, 3, 5} {
				if got := events(tc.stream, 64, n); !reflect.DeepEqual(got, tc.want) {
					t.Errorf("in %d-byte pieces\n got %+v\nwant %+v", n, got, tc.want)
				}
			}
		})
	}
}

func TestSSERoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var stream strings.Builder
		var want []sseEvent
		for range rapid.IntRange(0, 6).Draw(t, "events") {
			end := rapid.SampledFrom([]string{"\n", "\r\n", "\r"}).Draw(t, "end")
			lines := rapid.SliceOfN(rapid.StringMatching(`[a-z:\{ ]{0,12}`), 1, 3).Draw(t, "lines")
			name := rapid.SampledFrom([]string{"", "ping", "response.completed"}).Draw(t, "name")
			if name != "" {
				stream.WriteString("event: " + name + end)
			}
			for _, l := range lines {
				stream.WriteString("data: " + l + end)
			}
			stream.WriteString(end)
			want = append(want, sseEvent{name, strings.Join(lines, "\n"), false})
		}
		n := rapid.IntRange(1, 40).Draw(t, "n")
		if got := events(stream.String(), 1000, n); !reflect.DeepEqual(got, want) {
			t.Fatalf("%q in %d-byte pieces\n got %+v\nwant %+v", stream.String(), n, got, want)
		}
	})
}

func TestSSEReaderReleasesBuffersAfterLongEvent(t *testing.T) {
	s := sseReader{maxBytes: 1 << 20, handleEvent: func(_, _ []byte, _ bool) {}}
	s.write([]byte("data: " + strings.Repeat("x", 1<<19)))
	s.write([]byte(strings.Repeat("x", 1<<18) + "\n\n"))
	if cap(s.line) > keptBuffer || cap(s.data) > keptBuffer {
		t.Errorf("after a long event: buffers have %d and %d bytes, want at most %d", cap(s.line), cap(s.data), keptBuffer)
	}
}
