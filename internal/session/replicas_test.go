package session_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"precept/internal/session"
	"precept/internal/wire"
)

func chatOf(t *testing.T, roles string) *wire.Request {
	t.Helper()
	var items []string
	for i, r := range roles {
		n := string(rune('a' + i))
		switch r {
		case 'u':
			items = append(items, `{"role":"user","content":"words `+n+`"}`)
		case 'a':
			items = append(items, `{"role":"assistant","content":"","tool_calls":[{"id":"c`+n+`","type":"function","function":{"name":"ls","arguments":"{}"}}]}`)
		case 't':
			items = append(items, `{"role":"tool","tool_call_id":"c`+string(rune('a'+i-1))+`","content":"out `+n+`"}`)
		case 's': // what a compaction leaves
			items = append(items, `{"role":"user","content":"summary"}`)
		}
	}
	req, err := wire.Parse(wire.Chat, []byte(`{"model":"m","messages":[`+strings.Join(items, ",")+`]}`))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func TestElsewhere(t *testing.T) {
	for _, c := range []struct {
		name, seen string
		replied    bool
		now        string
		want       bool
	}{
		{"the next turn", "u", true, "uat", false},
		{"a turn later on", "uat", true, "uatat", false},
		{"the user goes on", "u", true, "uau", false},
		{"the user adds to it", "u", true, "uu", false},
		{"the same list again", "u", true, "u", false},
		{"a retry", "u", false, "u", false},
		{"one turn was elsewhere", "u", true, "uatat", true},
		{"three turns were", "u", true, "uatatatat", true},
		{"words were answered elsewhere", "u", true, "uauau", true},
		{"the answer did not come from here", "u", false, "uat", true},
		{"the history was compacted", "uatat", true, "su", true},
		{"a new session", "", false, "u", false},
	} {
		r := &session.Record{}
		if c.seen != "" {
			seen := chatOf(t, c.seen)
			r.Begin(seen, time.Unix(1, 0))
			r.Mark(seen)
			r.Replied = c.replied
		}
		if have := r.Elsewhere(chatOf(t, c.now)); have != c.want {
			t.Errorf("%s: %v", c.name, have)
		}
	}
}

// Adopt must know every field: one that it forgets would be lost when a session moves. What is not
// stored is the process' own, and listed here.
func TestAdoptTakesAll(t *testing.T) {
	own := []string{"Mutex", "ID", "Asked", "Unjudged", "Kept", "Dirty"}
	from, to := &session.Record{}, &session.Record{}
	a, b := reflect.ValueOf(from).Elem(), reflect.ValueOf(to).Elem()
	fill(a)
	to.Adopt(from)
	for i := range a.NumField() {
		name := a.Type().Field(i).Name
		if slices.Contains(own, name) {
			if !b.Field(i).IsZero() {
				t.Errorf("%s is the process' own, and was taken over", name)
			}
			continue
		}
		if have, want := b.Field(i).Interface(), a.Field(i).Interface(); a.Field(i).IsZero() || !reflect.DeepEqual(have, want) {
			t.Errorf("%s: have %v, want %v", name, have, want)
		}
	}
}

// fill gives every exported field that is stored a value of its own.
func fill(v reflect.Value) {
	switch v.Kind() { //nolint:exhaustive // the others do not occur
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1234, 0).UTC()))
			return
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Name != "Mutex" {
				fill(v.Field(i))
			}
		}
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(7)
	case reflect.Float64:
		v.SetFloat(0.5)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, val := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(val)
		v.SetMapIndex(key, val)
	}
}
