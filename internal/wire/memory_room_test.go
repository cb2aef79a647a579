package wire

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
)

// longConversation returns a conversation of n exchanges.
func longConversation(name string, n int) []byte {
	var b strings.Builder
	b.WriteString(`{"model":"m","messages":[{"role":"user","content":"` + name + `"}`)
	for i := range n {
		fmt.Fprintf(&b, `,{"role":"assistant","content":"answer %d"},{"role":"user","content":"go on %d"}`, i, i)
	}
	return []byte(b.String() + "]}")
}

// keyOf returns the bucket of a conversation.
func keyOf(m *Memory, scope uint64, d Dialect, body []byte) uint64 {
	return scope ^ uint64(d)<<56 ^ xxhash.Sum64(body[:min(len(body), memoryHead, m.minBytes)])
}

// counted fails unless the used room is the sum of the kept entries.
func counted(t *testing.T, m *Memory) (conversations int) {
	t.Helper()
	sum := 0
	for _, list := range m.kept {
		for i, k := range list {
			if sum += k.size(); i > 0 && list[i-1].n > k.n && list[i-1].start == k.start {
				t.Errorf("%d bytes before %d", list[i-1].n, k.n)
			}
		}
		conversations += len(list)
	}
	if m.size != sum {
		t.Errorf("%d entries are counted, there are %d", m.size, sum)
	}
	return conversations
}

// A growing conversation is remembered once, up to its end, and a branch separately. The next turn
// resumes from the longest beginning.
func TestMemoryFollowsAConversation(t *testing.T) {
	m := NewMemory()
	m.minBytes = 1
	parse := func(body []byte) *Request {
		r, err := m.Parse(1, Chat, body, 0)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for n := range 10 {
		r := parse(longConversation("one", n))
		if have := counted(t, m); have != 1 {
			t.Fatalf("after turn %d, memory has %d copies", n, have)
		}
		if want := xxhash.Sum64(r.Body[r.at(0).start-1 : len(r.Body)-1]); r.ListHash != want {
			t.Fatalf("turn %d: hash %x, want %x", n, r.ListHash, want)
		}
	}
	parse(longConversation("one", 9)) // a retry
	if have := counted(t, m); have != 1 {
		t.Errorf("after a retry, memory has %d copies", have)
	}
	branch := strings.Replace(string(longConversation("one", 9)), "go on 7", "go back", 1)
	parse([]byte(branch))
	parse([]byte(branch))
	if have := counted(t, m); have != 2 {
		t.Errorf("it and its branch are remembered %d times", have)
	}
	for n, body := range [][]byte{longConversation("one", 12), []byte(branch)} {
		k := m.find(keyOf(m, 1, Chat, body), body)
		if k == nil || k.n < len(longConversation("one", 9))-2 || k.n > len(body) {
			t.Errorf("body %d continues from %+v", n, k)
		}
	}
	shorter := longConversation("one", 3)
	if k := m.find(keyOf(m, 1, Chat, shorter), shorter); k != nil {
		t.Errorf("a body continues from %d bytes and has %d", k.n, len(shorter))
	}
	if k := m.find(keyOf(m, 2, Chat, shorter), longConversation("one", 12)); k != nil {
		t.Error("the conversation of another client is continued")
	}
}

// Of conversations with the same beginning the least recently used one makes room.
func TestMemoryEvictsTheLeastRecentlyUsed(t *testing.T) {
	m := NewMemory()
	m.minBytes = 1
	one := func(n int) []byte { return fmt.Appendf(nil, `{"messages":[{"role":"user","content":"number %d"}]}`, n) }
	for n := range memoryBucket {
		_, _ = m.Parse(1, Chat, one(n), 0)
	}
	_, _ = m.Parse(1, Chat, one(0), 0) // used once more
	_, _ = m.Parse(1, Chat, one(memoryBucket), 0)
	if have := counted(t, m); have != memoryBucket {
		t.Errorf("%d are remembered, want %d", have, memoryBucket)
	}
	for n, want := range map[int]bool{0: true, 1: false, 2: true, memoryBucket: true} {
		if k := m.find(keyOf(m, 1, Chat, one(n)), one(n)); (k != nil) != want {
			t.Errorf("number %d is remembered: %v", n, k != nil)
		}
	}
	m.size += memoryEntries // other conversations fill the memory
	_, _ = m.Parse(2, Messages, []byte(`{"messages":[{"role":"user","content":"x"}]}`), 0)
	m.size -= memoryEntries
	counted(t, m)
}
