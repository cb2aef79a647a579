package sample_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"precept/internal/sample"
)

func TestSealKeepsFirstEncoding(t *testing.T) {
	x := sample.Exchange{ID: "a", New: []json.RawMessage{[]byte("{ }")}, Outcome: sample.Complete}
	first := x.Seal()
	x.ID = "b"
	if second := x.Encode(); string(second.Data) != string(first.Data) || string(second.Items) != "[{ }]" {
		t.Errorf("Encode after a change: got Data %s, Items %s, want %s, [{ }]", second.Data, second.Items, first.Data)
	}
	decoded, err := first.Decode()
	if err != nil || decoded.ID != "a" || len(decoded.New) != 1 || string(decoded.New[0]) != "{ }" {
		t.Errorf(`Decode = %+v, %v, want ID = "a", the item { }, no error`, decoded, err)
	}
}

func TestSystemAndToolsRoundTrip(t *testing.T) {
	for _, x := range []sample.Exchange{
		{System: json.RawMessage(`"Be kind."`), New: []json.RawMessage{[]byte(`{"role":"user"}`)}},
		{Tools: json.RawMessage(`[{"name":"ls"}]`)},
		{System: json.RawMessage(`[{"type":"text","text":"a , b"}]`), Tools: json.RawMessage(`[]`), New: []json.RawMessage{[]byte(`[null,null]`)}},
		{New: []json.RawMessage{[]byte(`[null,null]`)}}, // resembles an encoded prompt
	} {
		decoded, err := x.Encode().Decode()
		if err != nil || string(decoded.System) != string(x.System) || string(decoded.Tools) != string(x.Tools) || len(decoded.New) != len(x.New) {
			t.Errorf("got System %s, Tools %s, New %s, error %v, want System %s, Tools %s, New %s and no error", decoded.System, decoded.Tools, decoded.New, err, x.System, x.Tools, x.New)
		}
	}
}

func FuzzItems(f *testing.F) {
	f.Add([]byte(`{"a" : 1.0}`), []byte(`"x"`))
	f.Add([]byte(`1],[2`), []byte("\xff"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		items := []json.RawMessage{a, b}
		decoded := func() []json.RawMessage {
			x := sample.Exchange{New: items}
			got, err := x.Encode().Decode()
			if err != nil {
				t.Fatal(err)
			}
			return got.New
		}()
		for _, it := range decoded {
			if !json.Valid(it) {
				t.Errorf("items %q: got item %q, want valid JSON", items, it)
			}
		}
		trimmed := func(b []byte) bool { return json.Valid(b) && strings.TrimSpace(string(b)) == string(b) }
		if trimmed(a) && trimmed(b) && !slices.EqualFunc(decoded, items, func(x, y json.RawMessage) bool { return string(x) == string(y) }) {
			t.Errorf("got items %q, want %q", decoded, items)
		}
	})
}

func decodeWithLibrary(data []byte) (e sample.Exchange, err error) {
	err = json.Unmarshal(data, &e)
	return e, err
}

func TestDecodeReadsAllFields(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := sample.Exchange{Truncated: rapid.Bool().Draw(t, "truncated"), At: time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "s"), rapid.Int64Range(0, 1e9-1).Draw(t, "ns")).UTC()}
		fill(t, reflect.ValueOf(&x).Elem())
		enc := x.Encode()
		want, err := decodeWithLibrary(enc.Data)
		if err != nil {
			t.Fatal(err)
		}
		got, err := sample.Encoded{Data: enc.Data}.Decode()
		if got.New, want.New = nil, nil; err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("Decode(%s):\n got %+v, error %v\nwant %+v", enc.Data, got, err, want)
		}
	})
}

// fill sets the exported fields of a struct to random values.
func fill(t *rapid.T, v reflect.Value) {
	for i := range v.NumField() {
		f, field := v.Field(i), v.Type().Field(i)
		switch {
		case !field.IsExported() || field.Tag.Get("json") == "-" || field.Name == "At" || field.Name == "New":
		case f.Kind() == reflect.String:
			f.SetString(rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "a\nb\"\\", "\u2028<&>", "\xff"})).Draw(t, field.Name))
		case f.CanInt():
			f.SetInt(rapid.Int64().Draw(t, field.Name))
		case f.CanFloat():
			f.SetFloat(rapid.Float64().Draw(t, field.Name))
		case f.Kind() == reflect.Struct:
			fill(t, f)
		case f.Kind() == reflect.Pointer && rapid.Bool().Draw(t, field.Name):
			f.Set(reflect.New(f.Type().Elem()))
			fill(t, f.Elem())
		case f.Kind() == reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), rapid.IntRange(0, 2).Draw(t, field.Name), 2))
			for k := range f.Len() {
				if e := f.Index(k); e.CanInt() {
					e.SetInt(int64(k))
				} else {
					fill(t, e)
				}
			}
		case f.Kind() == reflect.Map:
			f.Set(reflect.ValueOf(map[string]int{rapid.String().Draw(t, field.Name): 1}))
		}
	}
}

func FuzzDecode(f *testing.F) {
	x := sample.Exchange{ID: "a", Lessons: []sample.Lesson{{Slug: "s", Propensity: .5}}, ResultJudgements: &sample.ResultJudgements{Failed: []int{1}}, Redacted: map[string]int{"email": 2}}
	f.Add(x.Encode().Data)
	f.Add([]byte(`{"id":null,"turn":1.5,"reply":[],"unknown":1}`))
	f.Add([]byte(`{"ID":"a","lessons":null,"new":[1],"truncated":false,"at":"x"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := sample.Encoded{Data: data}.Decode()
		want, wantErr := decodeWithLibrary(data)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: got error %v, want %v (the result of encoding/json)", data, err, wantErr)
		}
		if got.New, want.New = nil, nil; err == nil && !reflect.DeepEqual(got, want) && !mayRepeatName(data) {
			t.Errorf("%q: got %+v, want %+v (the result of encoding/json)", data, got, want)
		}
	})
}

// mayRepeatName reports whether an object may repeat a name. encoding/json merges the values of a repeated name, and
// Decode does not.
func mayRepeatName(data []byte) bool {
	for _, name := range []string{`"id"`, `"reply"`, `"verdicts"`, `"lessons"`, `"calls"`, `"failed"`, `"redacted"`} {
		if strings.Count(string(data), name) > 1 {
			return true
		}
	}
	return false
}

func BenchmarkDecode(b *testing.B) {
	x := sample.Exchange{
		ID: "0b0e1c9e-5f0c-4c43-9a43-6f6a3b1a0001", Tenant: "default", Agent: "coder", Session: strings.Repeat("0f", 16), SessionName: "task-42", RequestID: "req_1",
		Turn: 7, At: time.Date(2032, 4, 5, 6, 7, 8, 9000, time.UTC), Dialect: "chat", Model: "model-1", Status: 200, Outcome: sample.Complete, FirstNew: 12,
		New:     []json.RawMessage{[]byte(`{"role":"tool","tool_call_id":"call_1","content":"` + strings.Repeat("A line of the build. ", 50) + `"}`)},
		Reply:   sample.Reply{ID: "chatcmpl-1", Calls: []sample.Call{{ID: "call_2", Name: "bash", Args: `{"command":"make wall"}`}}, InputTokens: 1200, OutputTokens: 90},
		Lessons: []sample.Lesson{{Slug: "open-the-window", Arm: "open-the-window", State: "injected", Propensity: .9}}, ResultJudgements: &sample.ResultJudgements{Results: 1}, LatencyMS: 1200.25, FirstByteMS: 300,
	}
	enc := x.Encode()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := enc.Decode(); err != nil {
			b.Fatal(err)
		}
	}
}
