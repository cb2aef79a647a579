package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"precept/bandit/feedback"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/store/spool"
)

// text is what the records of a batch hold, to compare it.
func (p *batch) text() string {
	docs := make([]string, len(p.exchanges))
	for i := range p.exchanges {
		docs[i] = string(p.exchanges[i].Encode().Data)
	}
	stubs, _ := json.Marshal(p.begun)
	rows, _ := json.Marshal(p.rows)
	return fmt.Sprintf("crashed %v\nrows %s\nechoes %v\nexchanges %q\nsignals %+v\nbegun %s\nended %v\nvoids %q\ndropped %v\nadmitted %d\n",
		p.crashed, rows, p.echoes, docs, p.signals, stubs, p.ended, p.voids, p.dropped, p.admitted())
}

var when = time.Date(2032, 4, 5, 6, 7, 8, 123456000, time.UTC) //nolint:gochecknoglobals // a constant but for its type

// drawBatch makes a batch of every kind of record.
func drawBatch(rt *rapid.T, no int) batch {
	text := rapid.StringN(0, 12, -1)
	id := rapid.Custom(func(rt *rapid.T) (id session.ID) {
		copy(id[:], rapid.SliceOfN(rapid.Byte(), len(id), len(id)).Draw(rt, "id"))
		return id
	})
	at := rapid.Custom(func(rt *rapid.T) time.Time {
		return when.Add(time.Duration(rapid.Int64Range(-1e9, 1e9).Draw(rt, "seconds")) * time.Second)
	})
	few := func(what string) int { return rapid.IntRange(0, 3).Draw(rt, what) }
	p := batch{crashed: rapid.Bool().Draw(rt, "crashed")}
	for range few("rows") {
		p.rows = append(p.rows, session.Row{
			Tenant: text.Draw(rt, "tenant"), ID: id.Draw(rt, "row"), Started: at.Draw(rt, "started"), Seen: at.Draw(rt, "seen"),
			Closed: rapid.Bool().Draw(rt, "closed"), Data: append([]byte(nil), rapid.SliceOf(rapid.Byte()).Draw(rt, "data")...),
		})
	}
	tenant := text.Draw(rt, "tenant of the echoes") // those of several come sorted by it
	for range few("echoes") {
		p.echoes = append(p.echoes, session.Echo{Tenant: tenant, Key: session.EchoKey(rapid.Uint64().Draw(rt, "key")), ID: id.Draw(rt, "owner"), At: at.Draw(rt, "at")})
	}
	for i := range few("exchanges") {
		x := exchange(text.Draw(rt, "tenant"), text.Draw(rt, "name"), 10*no+i, at.Draw(rt, "at"))
		if rapid.Bool().Draw(rt, "bare") {
			x.New, x.Reply = nil, sample.Reply{}
		}
		p.exchanges = append(p.exchanges, *x)
		if rapid.Bool().Draw(rt, "begun before") {
			p.finish(x.ID)
		}
	}
	for range few("signals") {
		e := score(text.Draw(rt, "id"), 5, rapid.Float64Range(0, 1).Draw(rt, "score"))
		e.Comment = text.Draw(rt, "comment")
		p.signals = append(p.signals, signal{session.Ref{Tenant: text.Draw(rt, "tenant"), ID: id.Draw(rt, "session")}, e})
	}
	for range few("begun") {
		x := exchange(us, text.Draw(rt, "name"), 1, at.Draw(rt, "at"))
		p.begun = append(p.begun, stub{ID: x.ID, Doc: x.Encode().Data})
	}
	for range few("voids") {
		p.voids = append(p.voids, void{text.Draw(rt, "id"), text.Draw(rt, "reason")})
	}
	for range few("dropped") {
		p.drop(text.Draw(rt, "reason"), rapid.Int64Range(1, 1e6).Draw(rt, "n"))
	}
	return p
}

// Whatever a batch holds, it comes back from the disk as it was.
func TestBatchesComeBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		p := drawBatch(rt, 0)
		total := rapid.Int64Range(0, 1e12).Draw(rt, "total")
		dir, err := os.MkdirTemp(dir, "")
		if err != nil {
			rt.Fatal(err)
		}
		log, _, err := spool.Open(dir, spool.Options{Quota: 1 << 30, Now: when, Count: admittedBy})
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { _ = log.Close() }()
		log.Skip(total)
		end, err := log.Append(p.admitted(), p.append)
		if err != nil {
			rt.Fatal(err)
		}
		r := reader{from: log.Reader(), most: replayBytes}
		got, err := r.next(spool.Place{Segment: 1}, end)
		if err != nil {
			rt.Fatal(err)
		}
		if have, want := got.text(), p.text(); have != want {
			rt.Fatalf("have\n%swant\n%s", have, want)
		}
		total += p.admitted()
		if got.end != end || !got.numbered || got.before+got.admitted() != total {
			rt.Fatalf("ends at %v, told %v of %d; want %v, %d", got.end, got.numbered, got.before+got.admitted(), end, total)
		}
		r.account = true
		counted, err := r.next(spool.Place{Segment: 1}, end)
		if err != nil {
			rt.Fatal(err)
		}
		var kept, only progress
		kept.advance(&got)
		only.advance(&counted)
		if have, want := fmt.Sprint(only), fmt.Sprint(kept); have != want {
			rt.Fatalf("the account alone: %s, want %s", have, want)
		}
	})
}

// Batches that were merged say what they said one after the other.
func TestMergedBatches(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		list := make([]batch, rapid.IntRange(1, 4).Draw(rt, "batches"))
		var single, merged progress
		var all, used batch // one whose room is used again for each of them
		for i := range list {
			list[i] = drawBatch(rt, i)
			list[i].crashed = list[i].crashed && i == 0
			list[i].end, list[i].flush, list[i].held = spool.Place{Segment: 1, Offset: int64(i + 1)}, int64(i+1), int64(i)
			single.advance(&list[i])
			used.merge(&list[i])
			all.merge(&used)
			used.reset()
		}
		merged.advance(&all)
		if have, want := fmt.Sprint(merged), fmt.Sprint(single); have != want {
			rt.Fatalf("have %s, want %s", have, want)
		}
		at := 0
		for i := range list {
			for k := range list[i].exchanges {
				same(t, "exchange", all.exchanges[at].ID, list[i].exchanges[k].ID)
				at++
			}
		}
		same(t, "flush", all.flush, int64(len(list)))
		same(t, "held", all.held, int64(len(list)*(len(list)-1)/2))
	})
}

func TestNewestRows(t *testing.T) {
	t.Parallel()
	row := func(tenant string, id byte, data string) session.Row {
		return session.Row{Tenant: tenant, ID: session.ID{id}, Data: []byte(data)}
	}
	got := newestRows([]session.Row{row("a", 1, "old"), row("b", 1, "x"), row("a", 2, "y"), row("a", 1, "new")})
	var data []string
	for i := range got {
		data = append(data, string(got[i].Data))
	}
	sameList(t, "rows", data, []string{"x", "y", "new"})
}

// What stands in a record is looked at before it is believed: a checksum says what was written, not
// that it was right.
func FuzzTake(f *testing.F) {
	x := exchange(us, "s", 1, when)
	p := batch{
		exchanges: []sample.Exchange{*x}, rows: []session.Row{{Tenant: us, Data: []byte("row")}}, echoes: []session.Echo{{Tenant: us, Key: 7}},
		begun: []stub{{ID: x.ID, Doc: x.Encode().Data}}, voids: []void{{"id", "why"}}, dropped: map[string]int64{"why": 1},
		signals: []signal{{session.Ref{Tenant: us, ID: session.ID{1}}, feedback.Entry{ID: "a"}}},
	}
	for _, rec := range recordsOf(f, &p) {
		f.Add(rec.Kind, rec.Payload)
	}
	f.Add(byte(recordEchoes), []byte("\x01a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, kind byte, payload []byte) {
		var kept, counted batch
		if err := kept.add(spool.Record{Kind: kind, Payload: payload}); err != nil {
			if !kept.empty() || kept.admitted() != 0 {
				t.Fatalf("refused, and half of it is there: %s", kept.text())
			}
			return
		}
		if err := counted.count(spool.Record{Kind: kind, Payload: payload}); err != nil {
			t.Fatalf("taken, and not counted: %v", err)
		}
		var a, b progress
		a.advance(&kept)
		b.advance(&counted)
		if fmt.Sprint(a) != fmt.Sprint(b) {
			t.Fatalf("kept it counts %v, by itself %v", a, b)
		}
		switch kind {
		case recordRow, recordEchoes, recordVoid, recordDropped:
		default:
			return // of JSON that others encode
		}
		text := kept.text()
		var again batch
		for _, rec := range recordsOf(t, &kept) {
			if err := again.add(rec); err != nil {
				t.Fatal(err)
			}
		}
		if have := again.text(); have != text {
			t.Fatalf("written again: %s, was %s", have, text)
		}
	})
}

// recordsOf are a batch's records as a spool gives them back, but for its own.
func recordsOf(t testing.TB, p *batch) (list []spool.Record) {
	t.Helper()
	log, c, err := spool.Open(t.TempDir(), spool.Options{Quota: 1 << 30, Now: when, Count: admittedBy})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	end, err := log.Append(p.admitted(), p.append)
	if err != nil {
		t.Fatal(err)
	}
	_, err = log.Reader().Next(c.Delivered.At, end, func(rec spool.Record) (spool.Step, error) {
		if rec.Kind != spool.KindHead && rec.Kind != spool.KindEnd {
			list = append(list, spool.Record{Kind: rec.Kind, Payload: bytes.Clone(rec.Payload)})
		}
		return spool.More, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// A burst of long conversations is written into one buffer, not into ever larger ones.
func TestABatchTakesOneBuffer(t *testing.T) {
	var p batch
	for i := range 16 {
		item := json.RawMessage(`"` + strings.Repeat("x", 100<<10) + `"`)
		p.exchanges = append(p.exchanges, sample.Exchange{ID: fmt.Sprint(i), New: []json.RawMessage{item}})
	}
	p.append(nil)
	if n := testing.AllocsPerRun(5, func() { p.append(nil) }); n > 2 {
		t.Errorf("%v allocations", n)
	}
}
