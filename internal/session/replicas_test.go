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

// newChatWithRoles returns a request with one message per letter: u for user, a for a reply with a call, t for the
// call's result, s for a summary.
func newChatWithRoles(t *testing.T, roles string) *wire.Request {
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
		case 's':
			items = append(items, `{"role":"user","content":"summary"}`)
		}
	}
	req, err := wire.Parse(wire.Chat, []byte(`{"model":"m","messages":[`+strings.Join(items, ",")+`]}`))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func TestWasServedElsewhereDetectsOtherReplica(t *testing.T) {
	for _, tc := range []struct {
		name, last string // roles in this replica's last turn
		replied    bool
		next       string // roles in the next request
		want       bool
	}{
		{"the next turn", "u", true, "uat", false},
		{"the turn after a tool call", "uat", true, "uatat", false},
		{"a user message after the reply", "u", true, "uau", false},
		{"another user message before the reply", "u", true, "uu", false},
		{"the same list again", "u", true, "u", false},
		{"a retry", "u", false, "u", false},
		{"another replica served one turn", "u", true, "uatat", true},
		{"another replica served three turns", "u", true, "uatatatat", true},
		{"another replica replied to a user message", "u", true, "uauau", true},
		{"a reply unseen by this replica", "u", false, "uat", true},
		{"the history was compacted", "uatat", true, "su", true},
		{"a new session", "", false, "u", false},
	} {
		r := &session.Record{}
		if tc.last != "" {
			last := newChatWithRoles(t, tc.last)
			r.Begin(last, time.Unix(1, 0))
			r.SetLastTurn(last)
			r.Thread.Replied = tc.replied
		}
		if got := r.WasServedElsewhere(newChatWithRoles(t, tc.next)); got != tc.want {
			t.Errorf("%s: got WasServedElsewhere = %v, want %v", tc.name, got, tc.want)
		}
	}
}

// A field that Adopt omits would be lost when a session moves to another replica. Adopt keeps processFields, which
// belong to one process.
func TestAdoptCopiesEveryField(t *testing.T) {
	processFields := []string{"Identity.ID", "Identity.Tenant", "OptOut.ByRequest", "OptOut.PendingTurns", "OptOut.HasStorableSession", "State.Dirty", "Unit.Replica"}
	from, to := &session.Record{}, &session.Record{}
	fill(reflect.ValueOf(from).Elem())
	to.Adopt(from)
	want := recordFields(from)
	for name, got := range recordFields(to) {
		switch {
		case want[name].IsZero():
			t.Errorf("%s: got the zero value after fill, want a non-zero value", name)
		case slices.Contains(processFields, name) && !got.IsZero():
			t.Errorf("%s: Adopt set this process field to %v, want it unchanged", name, got)
		case !slices.Contains(processFields, name) && !reflect.DeepEqual(got.Interface(), want[name].Interface()):
			t.Errorf("%s: after Adopt: got %v, want %v", name, got, want[name])
		}
	}
}

// Other goroutines read the ID and the tenant, and call MemberNow, without the record's lock. The race detector reports
// an error if Adopt writes to data that they read.
func TestAdoptIsSafeWithConcurrentReads(t *testing.T) {
	r := session.NewRun("x", session.Claim{}, "old-name", session.ID{1}, time.Unix(1e9, 0))
	done := make(chan session.Member)
	go func() {
		var last session.Member
		for range 100 {
			if last = r.MemberNow(); r.Identity.ID != last.ID || r.Identity.Tenant != "x" {
				t.Errorf("got ID %v and tenant %s, want both unchanged", r.Identity.ID, r.Identity.Tenant)
			}
		}
		done <- last
	}()
	for range 100 {
		r.Lock()
		r.Adopt(session.NewRun("x", session.Claim{}, "new-name", session.ID{1}, time.Unix(1e9, 0)))
		r.Unlock()
	}
	if m := <-done; m.Run != "old-name" && m.Run != "new-name" {
		t.Errorf("got run %q, want old-name or new-name", m.Run)
	}
}

func recordFields(r *session.Record) map[string]reflect.Value {
	fields := map[string]reflect.Value{}
	v := reflect.ValueOf(r).Elem()
	for i := range v.NumField() {
		part := v.Type().Field(i).Name
		if part == "Mutex" {
			continue
		}
		for k := range v.Field(i).NumField() {
			fields[part+"."+v.Field(i).Type().Field(k).Name] = v.Field(i).Field(k)
		}
	}
	return fields
}

// fill sets v, or all its exported fields, to values other than zero.
func fill(v reflect.Value) {
	switch v.Kind() { //nolint:exhaustive // other kinds do not occur
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
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
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
