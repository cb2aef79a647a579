package wire

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
)

// longConversation returns a body with a user message, and n times a reply and another user message.
func longConversation(name string, n int) []byte {
	var b strings.Builder
	b.WriteString(`{"model":"m","messages":[{"role":"user","content":"` + name + `"}`)
	for i := range n {
		fmt.Fprintf(&b, `,{"role":"assistant","content":"answer %d"},{"role":"user","content":"go on %d"}`, i, i)
	}
	return []byte(b.String() + "]}")
}

func checkpointKey(m *ParseCache, scope uint64, d Dialect, body []byte) uint64 {
	return scope ^ uint64(d)<<56 ^ xxhash.Sum64(body[:min(len(body), cacheKeyBytes, m.minBytes)])
}

// countCheckpoints returns the checkpoint count, and checks m.size and the bucket order.
func countCheckpoints(t *testing.T, m *ParseCache) (checkpoints int) {
	t.Helper()
	sum := 0
	for _, list := range m.checkpoints {
		for i, k := range list {
			if sum += k.size(); i > 0 && list[i-1].end > k.end && list[i-1].start == k.start {
				t.Errorf("got a %d-byte checkpoint before a %d-byte one, want the shorter first", list[i-1].end, k.end)
			}
		}
		checkpoints += len(list)
	}
	if m.size != sum {
		t.Errorf("got m.size = %d, want %d, the sum of all checkpoint sizes", m.size, sum)
	}
	return checkpoints
}

// ParseCache keeps one checkpoint for a growing conversation, at the end of the newest body. A branch of the
// conversation gets a separate checkpoint.
func TestParseCacheKeepsOneCheckpointPerConversation(t *testing.T) {
	m := NewParseCache()
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
		if got := countCheckpoints(t, m); got != 1 {
			t.Fatalf("after turn %d: got %d checkpoints, want 1", n, got)
		}
		if want := xxhash.Sum64(r.Body[r.itemSpan(0).start-1 : len(r.Body)-1]); r.ListHash != want {
			t.Fatalf("turn %d: got ListHash %x, want %x", n, r.ListHash, want)
		}
	}
	parse(longConversation("one", 9)) // retry of the last request
	if got := countCheckpoints(t, m); got != 1 {
		t.Errorf("after a retry: got %d checkpoints, want 1", got)
	}
	branch := strings.Replace(string(longConversation("one", 9)), "go on 7", "go back", 1)
	parse([]byte(branch))
	parse([]byte(branch))
	if got := countCheckpoints(t, m); got != 2 {
		t.Errorf("after a branch: got %d checkpoints, want 2", got)
	}
	for n, body := range [][]byte{longConversation("one", 12), []byte(branch)} {
		k := m.findCheckpoint(checkpointKey(m, 1, Chat, body), body)
		shortest := len(longConversation("one", 9)) - 2
		if k == nil || k.end < shortest || k.end > len(body) {
			t.Errorf("body %d: got checkpoint %+v, want an end between %d and %d", n, k, shortest, len(body))
		}
	}
	shorter := longConversation("one", 3)
	if k := m.findCheckpoint(checkpointKey(m, 1, Chat, shorter), shorter); k != nil {
		t.Errorf("%d-byte body: got a %d-byte checkpoint, want none", len(shorter), k.end)
	}
	if k := m.findCheckpoint(checkpointKey(m, 2, Chat, shorter), longConversation("one", 12)); k != nil {
		t.Error("another client: got a checkpoint, want none")
	}
}

func TestParseCacheEvictsLeastRecentlyUsedCheckpoint(t *testing.T) {
	m := NewParseCache()
	m.minBytes = 1
	body := func(n int) []byte { return fmt.Appendf(nil, `{"messages":[{"role":"user","content":"number %d"}]}`, n) }
	for n := range maxBucketCheckpoints {
		_, _ = m.Parse(1, Chat, body(n), 0)
	}
	_, _ = m.Parse(1, Chat, body(0), 0) // body 1 is now the least recently used
	_, _ = m.Parse(1, Chat, body(maxBucketCheckpoints), 0)
	if got := countCheckpoints(t, m); got != maxBucketCheckpoints {
		t.Errorf("full bucket: got %d checkpoints, want %d", got, maxBucketCheckpoints)
	}
	for n, want := range map[int]bool{0: true, 1: false, 2: true, maxBucketCheckpoints: true} {
		if k := m.findCheckpoint(checkpointKey(m, 1, Chat, body(n)), body(n)); (k != nil) != want {
			t.Errorf("body %d: got a checkpoint: %v, want %v", n, k != nil, want)
		}
	}
	m.size += maxCacheEntries // as if the cache were full
	_, _ = m.Parse(2, Messages, []byte(`{"messages":[{"role":"user","content":"x"}]}`), 0)
	m.size -= maxCacheEntries
	countCheckpoints(t, m)
}

// In the third body, a second "messages" member replaces the list. This list must not overwrite the checkpoint's items.
func TestParseCacheBranchesDoNotShareItems(t *testing.T) {
	m := NewParseCache()
	m.minBytes = 1
	for n := 1; n <= 30; n++ { // the loop makes the arrays' capacity exceed their length
		if _, err := m.Parse(1, Chat, longConversation("one", n), 0); err != nil {
			t.Fatal(err)
		}
	}
	base := string(longConversation("one", 30))
	base = base[:len(base)-2]
	bodies := []string{
		base + `,{"role":"assistant","content":"left"},{"role":"tool","tool_call_id":"a","content":"x"}]}`,
		base + `,{"role":"user","content":"the right branch"}]}`,
		base + `],"messages":[{"role":"tool","content":"y"}]}`,
	}
	var found []*checkpoint
	for _, body := range bodies {
		found = append(found, m.findCheckpoint(checkpointKey(m, 1, Chat, []byte(body)), []byte(body)))
	}
	var parsers []*parser
	for i, body := range bodies {
		p := found[i].parser(Chat, []byte(body), 0)
		p.resume(found[i])
		parsers = append(parsers, p)
	}
	for i, body := range bodies[:2] {
		_, fresh, err := parse(Chat, []byte(body), 0)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(parsers[i].list, fresh.list) || !slices.Equal(parsers[i].results, fresh.results) {
			t.Errorf("branch %d: got last items %v and results %v, want %v and %v",
				i, parsers[i].list[58:], parsers[i].results, fresh.list[58:], fresh.results)
		}
	}
	if k := found[0]; k.list[0].role != RoleUser {
		t.Errorf("checkpoint's first item: got role %v, want %v", k.list[0].role, RoleUser)
	}
}

func TestParseCacheAllocationPerTurnDoesNotGrow(t *testing.T) {
	perTurn := func(from int) (bytes uint64) {
		m := NewParseCache()
		m.minBytes = 1
		const turns = 100
		var bodies [][]byte
		for n := range turns {
			bodies = append(bodies, longConversation("one", from+n))
		}
		_, _ = m.Parse(1, Chat, longConversation("one", from-1), 0)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for _, body := range bodies {
			r, err := m.Parse(1, Chat, body, 0)
			if err != nil {
				t.Fatal(err)
			}
			r.Item(r.Len() - 1)
			r.Hash(r.Len() - 1)
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / turns
	}
	short, long := perTurn(20), perTurn(1000)
	if long > 2*short {
		t.Errorf("allocation per turn: got %d bytes after 1000 turns, want at most twice the %d bytes after 20 turns", long, short)
	}
}
