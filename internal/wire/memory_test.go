package wire

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func assertSameParse(t interface {
	Helper()
	Fatalf(string, ...any)
}, d Dialect, m *ParseCache, body []byte,
) {
	t.Helper()
	want, wantErr := Parse(d, body)
	got, err := m.Parse(7, d, body, 0)
	if fmt.Sprint(err) != fmt.Sprint(wantErr) {
		t.Fatalf("body %q: ParseCache.Parse: err = %v, want %v, as from Parse", body, err, wantErr)
	}
	if wantErr != nil {
		return
	}
	for i := range want.Len() { // Item decodes values on demand, before DeepEqual compares them
		want.Item(i)
		got.Item(i)
		if want.Hash(i) != got.Hash(i) {
			t.Fatalf("body %q, item %d: got hash %x, want %x, as from Parse", body, i, got.Hash(i), want.Hash(i))
		}
	}
	if len(want.scan.results) == 0 {
		want.scan.results, got.scan.results = nil, nil
	}
	if !reflect.DeepEqual(want, got) {
		t.Fatalf("ParseCache.Parse(%q):\n got %+v\nwant %+v as from Parse", body, got, want)
	}
}

// The conversation grows, branches, loses items, or changes outside the list.
func TestParseCacheMatchesParse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SampledFrom([]Dialect{Chat, Responses, Messages}).Draw(t, "dialect")
		m := NewParseCache()
		m.minBytes = 1
		var items []string
		head := rapid.SampledFrom([]string{`"model":"m","stream":true,`, `"tools":[{"type":"function","function":{"name":"f"}}],`, `"system":"s",`, ` `, `"metadata":{"session_id":"x"},`}).Draw(t, "head")
		for range rapid.IntRange(1, 12).Draw(t, "turns") {
			switch rapid.IntRange(0, 6).Draw(t, "change") {
			case 0:
				items = items[:rapid.IntRange(0, len(items)).Draw(t, "cut")]
			case 1:
				head = rapid.SampledFrom([]string{head, `"model":"n",`, `"instructions":"i",`}).Draw(t, "other head")
			}
			items = append(items, rapid.SampledFrom([]string{
				`{"role":"system","content":"be good"}`, `{"role":"user","content":"hi \u00e9"}`, `{"role":"user","content":[{"type":"text","text":"x"},{"type":"tool_result","tool_use_id":"toolu_1","content":"r"}]}`,
				`{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","function":{"name":"f","arguments":"{}"}}]}`, `{"role":"tool","tool_call_id":"call_1","content":"out"}`,
				`{"type":"function_call_output","call_id":"call_2","output":"o"}`, `{"type":"function_call","call_id":"call_2","name":"f","arguments":"{}"}`, `{"role":"user","content":`, `7`,
				`{"type":"additional_tools","role":"developer","tools":[{"type":"function","name":"late"},{"type":"namespace","name":"ns","tools":[{"name":"in"}]}]}`, `{"tools":[{"name":"g"}],"type":"additional_tools"}`, `{"type":"mcp_list_tools","tools":[{"name":"far"}]}`,
			}).Draw(t, "item"))
			tail := rapid.SampledFrom([]string{``, `,"tools":[{"name":"b"},{"name":"a"}]`, `,"stream":true`, `,"system":"late"`, `,"previous_response_id":"r"`, `,"messages":[]`, `,"x":[[[]]]`, `,`, `}`}).Draw(t, "tail")
			gap := rapid.SampledFrom([]string{"", " ", "\n "}).Draw(t, "gap")
			assertSameParse(t, d, m, []byte(`{`+strings.TrimSpace(head)+`"`+d.listKey()+`":[`+strings.Join(items, gap+","+gap)+gap+`]`+tail+`}`))
			if items[len(items)-1] == `7` || strings.HasSuffix(items[len(items)-1], ":") {
				items = items[:len(items)-1]
			}
		}
	})
}

func FuzzParseCache(f *testing.F) {
	f.Add([]byte(`{"messages":[{"role":"user","content":"a"}],"x":1}`), 40, []byte(`,{"role":"assistant","content":"b"}]}`))
	f.Add([]byte(`{"tools":[{"name":"f"}],"messages":[{"role":"user","content":"a"}]}`), 60, []byte(` , {"role":"tool","tool_call_id":"c","content":"b"} ] , "system":"s"}`))
	f.Fuzz(func(t *testing.T, first []byte, cut int, rest []byte) {
		for _, d := range []Dialect{Chat, Responses, Messages} {
			m := NewParseCache()
			m.minBytes = 1
			if len(first) == 0 {
				return
			}
			assertSameParse(t, d, m, first)
			second := append(append([]byte(nil), first[:min(max(cut, 1), len(first))]...), rest...)
			assertSameParse(t, d, m, second)
			assertSameParse(t, d, m, first)
		}
	})
}

func TestParseCacheIsBounded(t *testing.T) {
	m := NewParseCache()
	m.minBytes = 1
	for i := range 300 {
		body := fmt.Appendf(nil, `{"messages":[{"role":"user","content":"number %d"}]}`, i)
		if _, err := m.Parse(1, Chat, body, 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, list := range m.checkpoints {
		if len(list) > maxBucketCheckpoints {
			t.Errorf("bucket: got %d checkpoints, want at most %d", len(list), maxBucketCheckpoints)
		}
	}
	m.size = maxCacheEntries + 1
	if _, err := m.Parse(2, Chat, []byte(`{"messages":[{"role":"user","content":"x"}]}`), 0); err != nil || len(m.checkpoints) > 1 {
		t.Errorf("Parse with a full cache: got %d buckets, error %v, want at most 1 bucket and no error", len(m.checkpoints), err)
	}
}

// In a body, the tools can follow the message list and be much longer than the list.
func TestParseCacheDropsBytesAfterList(t *testing.T) {
	m := NewParseCache()
	tools := strings.Repeat(`{"type":"function","function":{"name":"f"}},`, 4000)
	const conversations = 100
	body := func(n int) []byte {
		return fmt.Appendf(nil, `{"messages":[{"role":"user","content":"number %d"}],"tools":[%s{}]}`, n, tools)
	}
	before := heapBytes()
	for n := range conversations {
		if _, err := m.Parse(uint64(n), Chat, body(n), 0); err != nil {
			t.Fatal(err)
		}
	}
	if grown := int64(heapBytes()) - int64(before); grown > conversations*8<<10 {
		t.Errorf("%d conversations retain %d KiB, want at most %d KiB", conversations, grown>>10, conversations*8)
	}
	if m.size > maxCacheEntries || len(m.checkpoints) != conversations {
		t.Errorf("ParseCache: size %d, %d buckets, want size at most %d, %d buckets", m.size, len(m.checkpoints), maxCacheEntries, conversations)
	}
}

func heapBytes() uint64 {
	var s runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

func TestModelNameIsBounded(t *testing.T) {
	r, err := Parse(Chat, []byte(`{"model":"`+strings.Repeat("é", 1<<19)+`","messages":[{"role":"user","content":"hi"}]}`))
	if err != nil || len(r.Model) > 1024 || !strings.HasPrefix(r.Model, "éé") || !utf8.ValidString(r.Model) {
		t.Errorf("len(Model) = %d, prefix %.4q, error %v, want at most 1024 valid UTF-8 bytes, prefix éé", len(r.Model), r.Model, err)
	}
}
