package wire

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestReplyReaderBoundsAndFreesMemory(t *testing.T) {
	event := func(piece string) string {
		return fmt.Sprintf("data: {\"id\":\"chatcmpl-1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", piece)
	}
	const end = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":3}}\n\ndata: [DONE]\n\n"
	for name, tc := range map[string]struct{ body, end string }{
		"small events":  {strings.Repeat(event("word "), 20_000), end},
		"large events":  {strings.Repeat(event(strings.Repeat("w", 50_000)), 40), end},
		"one line":      {"data: " + strings.Repeat("x", 3<<20), "\n\n" + end},
		"one JSON body": {`{"id":"chatcmpl-1","x":"` + strings.Repeat("y", 3<<20), `"}`},
	} {
		const limit = 256 << 10
		r := NewReplyReader(Chat, -1, limit)
		feed := func(s string) {
			for len(s) > 0 {
				n := min(1000, len(s))
				_, _ = r.Write([]byte(s[:n]))
				s = s[n:]
			}
		}
		feed(tc.body[:len(tc.body)/100])
		atStart := r.MemoryBytes()
		feed(tc.body[len(tc.body)/100:])
		if held := r.MemoryBytes(); atStart == 0 || held > 5*limit {
			t.Errorf("%s: MemoryBytes = %d after 1%% of the input and %d after %d bytes, want more than 0, and at most 5 times the limit %d", name, atStart, held, len(tc.body), limit)
		}

		r = NewReplyReader(Chat, -1, 1<<20)
		feed(tc.body[:len(tc.body)/2])
		r.Drop()
		feed(tc.body[len(tc.body)/2:])
		if held := r.MemoryBytes(); held > 16<<10 {
			t.Errorf("%s: MemoryBytes after Drop = %d, want at most 16 KiB", name, held)
		}
		feed(tc.end)
		if rep := r.Reply(); !rep.Complete || !rep.Cut || len(rep.Text) > 0 {
			t.Errorf("%s: after Drop: got Complete = %v, Cut = %v, len(Text) = %d, want Complete and Cut true, and no text", name, rep.Complete, rep.Cut, len(rep.Text))
		}
	}
}

// The reader needs at most 10% more memory than the text, and only one allocation if the length is announced.
func TestReplyReaderMemoryIsCloseToLength(t *testing.T) {
	const pieces, piece = 900, 1000
	text := strings.Repeat("w", piece)
	for name, tc := range map[string]struct {
		size  int64
		reply []string
	}{
		"a stream": {-1, slices.Repeat([]string{fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", text)}, pieces)},
		"a call": {-1, slices.Repeat([]string{
			fmt.Sprintf("data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":%q}}]}}]}\n\n", text),
		}, pieces)},
		"one body": {pieces*piece + 2, slices.Concat([]string{`{"`}, slices.Repeat([]string{text}, pieces))},
	} {
		r := NewReplyReader(Chat, tc.size, 1<<20)
		growths, last := 0, 0
		for _, s := range tc.reply {
			_, _ = r.Write([]byte(s))
			if size := r.MemoryBytes(); size > last {
				growths, last = growths+1, size
			}
		}
		if size, limit := r.MemoryBytes(), pieces*piece*11/10; size > limit {
			t.Errorf("%s: MemoryBytes = %d, want at most %d", name, size, limit)
		}
		if tc.size >= 0 && growths > 1 {
			t.Errorf("%s: MemoryBytes grew %d times, want at most once for an announced length", name, growths)
		}
		if tc.size < 0 {
			if rep := r.Reply(); len(rep.Text)+len(strings.Join(callArguments(rep), "")) != pieces*piece {
				t.Errorf("%s: text and arguments: got %d bytes, want %d", name, len(rep.Text)+len(strings.Join(callArguments(rep), "")), pieces*piece)
			}
		}
	}
}

func callArguments(rep *Reply) (all []string) {
	for _, c := range rep.Calls {
		all = append(all, c.Args)
	}
	return all
}
