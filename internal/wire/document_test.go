package wire

import (
	"encoding/json"
	"maps"
	"reflect"
	"testing"
	"unicode/utf8"
)

func TestDocumentReadsEachValueKind(t *testing.T) {
	d := NewDocument([]byte(` {"t": "a\nb", "n" : [1, -2], "f":1.5e3,"o":{} , "raw":[null,{"x":true}]} `))
	type values struct {
		text, raw string
		numbers   []int
		float     float64
	}
	var got values
	d.Object(func(name string) {
		switch name {
		case "t":
			got.text = d.Text()
		case "n":
			d.Array(func() { got.numbers = append(got.numbers, d.Int()) })
		case "f":
			got.float = d.Float()
		case "o":
			d.Object(func(string) { d.Fail() })
		case "raw":
			got.raw = string(d.Raw())
		}
	})
	want := values{text: "a\nb", raw: `[null,{"x":true}]`, numbers: []int{1, -2}, float: 1500}
	if !d.Done() || !reflect.DeepEqual(got, want) {
		t.Errorf("Document read %+v, Done = %v, want %+v, true", got, d.Done(), want)
	}
}

func TestDocumentFailsOnInvalidJSONAndWrongTypes(t *testing.T) {
	for _, text := range []string{``, `{`, `{"a"}`, `{"a":}`, `{"a":1`, `{"a":1}x`, `{"a":1,}`, `{"a":"x"}`, `{"a":1.5}`, `{"a":null}`, `[1]`, `{"a":01}`, `{"a":+1}`} {
		d := NewDocument([]byte(text))
		if d.Object(func(string) { d.Int() }); d.Done() {
			t.Errorf("%s read as an object with integers: Done = true, want false", text)
		}
	}
	d := NewDocument([]byte(`{"a":[{"b":1}],"c":"x"}`))
	d.Object(func(string) { d.Array(func() { d.Text() }) })
	if d.Done() || d.Text() != "" || d.Raw() != nil || d.Int() != 0 || d.Float() != 0 {
		t.Errorf("after a failure: got Done = %v and values %q, %q, %d and %v, want false and zero values", d.Done(), d.Text(), d.Raw(), d.Int(), d.Float())
	}
}

func FuzzDocument(f *testing.F) {
	f.Add(`{"a":"b","c":"d\u0041"}`)
	f.Add(`{"a":"\ud83d\ude00\ud83d"}`)
	f.Add("{\"a\":\"\x01\"}")
	f.Fuzz(func(t *testing.T, text string) {
		d := NewDocument([]byte(text))
		got := map[string]string{}
		if d.Object(func(name string) { got[name] = d.Text() }); !d.Done() || !utf8.ValidString(text) {
			return
		}
		want := map[string]string{}
		if err := json.Unmarshal([]byte(text), &want); err != nil || !maps.Equal(got, want) {
			t.Errorf("%q: got %q, want %q, the result of encoding/json (error: %v)", text, got, want, err)
		}
	})
}
