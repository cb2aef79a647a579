package store

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"precept/internal/redact"
	"precept/internal/sample"
	"precept/internal/session"
)

// longText is so much of what an agent sends at once in a session that nobody has seen: source
// files, as results of a tool.
func longText(tb testing.TB, size int) (items []json.RawMessage, bytes int) {
	tb.Helper()
	files, err := filepath.Glob("../*/*.go")
	if err != nil || len(files) == 0 {
		tb.Fatal("no files", err)
	}
	for i := 0; bytes < size; i++ {
		text, err := os.ReadFile(files[i%len(files)])
		if err != nil {
			tb.Fatal(err)
		}
		raw, err := json.Marshal(map[string]string{"role": "tool", "tool_call_id": fmt.Sprint("call_", i), "content": string(text)})
		if err != nil {
			tb.Fatal(err)
		}
		items = append(items, raw)
		bytes += len(raw)
	}
	return items, bytes
}

// New text of a session that was never seen, on its way to the disk: redaction, packing, spool and
// database.
func BenchmarkNewText(b *testing.B) {
	items, size := longText(b, 537<<10)
	whole := func(n int) *sample.Exchange {
		x := exchange(us, fmt.Sprint("s", n), 1, when)
		x.New = append([]json.RawMessage(nil), items...)
		return x
	}
	perKB := func(b *testing.B) {
		b.Helper()
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/(float64(size)/1024), "us/KB")
	}
	b.Run("redact", func(b *testing.B) {
		r := redact.New(true)
		for n := 0; b.Loop(); n++ {
			whole(n).Redact(r)
		}
		perKB(b)
	})
	b.Run("all", func(b *testing.B) {
		r := newRig(b, func(o *Options) { o.HoldBytes = 1 << 30 })
		for n := 0; b.Loop(); n++ {
			x := whole(n)
			r.admit(Turn{Exchange: x, Size: int64(size)})
			r.flush(b.Context())
		}
		perKB(b)
		same(b, "written", r.Tally.Exchanges.Load(), int64(b.N))
		same(b, "stored", r.exchanges(session.KeyOf(us, session.SpaceName, "s0")), 1)
	})
}
