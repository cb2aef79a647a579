package session

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"precept/bandit/trial"
	"precept/internal/wire"
)

// fullRecord returns a record with a value in every stored field. The last release with format version 1 wrote the
// record to testdata/record_version_1.json.
func fullRecord() *Record {
	at := time.Date(2026, 11, 3, 9, 30, 0, 0, time.UTC)
	return &Record{
		Identity: Identity{ID: ID{7}, Tenant: "acme", Agent: "coder", Name: "ci-42", Method: ByHeader, Started: at, Seen: at.Add(time.Minute), Model: "gpt-x", Dialect: wire.Chat},
		Unit:     Unit{ID: "000102030405060708090a0b0c0d0e0f", RunName: "nightly", MemberNumber: 2, Members: 3, IsRun: true},
		Thread:   Thread{Turns: 5, ListHash: 1<<63 + 1, Items: 9, ItemsBefore: 6, LastTurn: LastTurn{FirstNew: 7, Items: []uint64{11, 12}, AnsweredCalls: []uint64{13}, Reply: []uint64{14, 15}}, Replied: true, Used: trial.Usage{Input: 41, Cached: 42}, Calls: map[string]wire.Call{"call_1": {ID: "call_1", Name: "bash", Args: `{"cmd":"ls"}`}}, CallOrder: []string{"call_1"}, FirstWords: 1<<64 - 2},
		Agents:   Agents{HasTools: true, SystemHash: 21, ToolsHash: 22, ToolNames: []uint32{23, 24}, PromptsWithoutTools: []uint64{25}, PreviousPrompts: []uint64{26}},
		Lessons: Lessons{Matched: []string{"a", "b"}, Blocks: []Block{
			{Anchor: wire.Anchor{Role: wire.RoleUser, Hash: 1<<64 - 1, Index: 3}, Text: "x\n\n", Turn: 1, Slugs: []string{"a"}, AnchorRemoved: true, Superseded: true},
			{Anchor: wire.Anchor{CallID: "call_1"}, Text: "y\n\n", Turn: 4, Loop: true, KeptByProvider: true, Supersedes: true},
		}, BlockBytes: 51, Loops: LoopState{WarnedCalls: map[string]bool{"call_1": true}, Count: 2, DeltaState: []byte("state")}, Picks: 4},
		OptOut:  OptOut{NoLearn: true, Turns: []int{2, 3}, HasStorableSession: true},
		Mailbox: Mailbox{Answers: []string{"noted"}, Pending: []string{"req_1"}, Offered: true},
		State:   State{PassThrough: true, Closed: true, Ambiguous: true, StartedOffline: true},
		Assignment: trial.Assignment{
			Category: "fix", Base: 0.5, Decided: true, ControlP: 0.2, Matched: []trial.Match{{Arm: "a", MatchEffect: 0.1}},
			Picks: []trial.Pick{{Slug: "a", Arm: "a", Eps: 0.25, Injected: true}}, StartUnix: 31, Day: 32, Excluded: true,
		},
	}
}

func version1Data(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/record_version_1.json")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestDecodeReadsVersion1(t *testing.T) {
	got, err := Decode(ID{7}, version1Data(t))
	if want := fullRecord(); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Decode: err = %v; got record\n%+v\nwant\n%+v", err, got, want)
	}
}

// version1Parts has tables that map the keys of format version 1 to the current keys.
func TestVersion1PartsHaveEveryKey(t *testing.T) {
	var keys map[string]any
	if err := json.Unmarshal(version1Data(t), &keys); err != nil {
		t.Fatal(err)
	}
	for part, names := range version1Parts() {
		for key := range names {
			if keys[key] == nil {
				t.Errorf("%s: the recorded file lacks table key %q", part, key)
			}
			delete(keys, key)
		}
	}
	if len(keys) > 0 {
		t.Errorf("the tables lack keys %v from the recorded file", keys)
	}
}

// A release with format version 1 expects a string under "unit". If such a release could decode the record, it would
// replace the record with an empty one.
func TestVersion1RefusesTheCurrentFormat(t *testing.T) {
	for name, r := range map[string]*Record{"a full record": fullRecord(), "an empty record": {}} {
		data, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		var version1 struct {
			Tenant string `json:"tenant"`
			Unit   string `json:"unit"`
		}
		if err := json.Unmarshal(data, &version1); err == nil {
			t.Errorf("%s: decoded %s into a version 1 struct without an error, want an error", name, data)
		}
	}
}

func TestDecodeRefusesNewerVersion(t *testing.T) {
	if _, err := Decode(ID{7}, []byte(`{"version":3,"unit":{},"thread":{"turns":1}}`)); err == nil || !strings.Contains(err.Error(), "version 3 is newer than 2") {
		t.Errorf(`Decode(version 3) error = %v, want "version 3 is newer than 2"`, err)
	}
}

func TestEncodeDecodeRoundTrip(t *testing.T) {
	gen := rapid.MakeCustom[document](rapid.MakeConfig{
		Types: map[reflect.Type]*rapid.Generator[any]{
			reflect.TypeFor[time.Time](): rapid.Map(rapid.Int64Range(0, 1<<40), func(n int64) any { return time.UnixMicro(n).UTC() }),
		},
		Kinds: map[reflect.Kind]*rapid.Generator[any]{
			reflect.Float64: rapid.Map(rapid.Float64Range(-1e6, 1e6), func(f float64) any { return f }), // JSON has no NaN
		},
	})
	rapid.Check(t, func(t *rapid.T) {
		d := gen.Draw(t, "record")
		emptyToNil(reflect.ValueOf(&d).Elem())
		want := d.record()
		data, err := want.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(want.Identity.ID, data)
		if err != nil {
			t.Fatal(err)
		}
		// Encode omits process fields, and Decode sets HasStorableSession for a run.
		want.OptOut.ByRequest, want.OptOut.PendingTurns, want.OptOut.HasStorableSession, want.State.Dirty = false, nil, want.Unit.IsRun, false
		want.Unit.Replica = ""
		if !reflect.DeepEqual(got, want) {
			t.Errorf("Decode(%s) =\n%+v\nwant\n%+v", data, got, want)
		}
	})
}

// emptyToNil replaces empty slices and maps with nil, because JSON omits them.
func emptyToNil(v reflect.Value) {
	switch v.Kind() { //nolint:exhaustive // other kinds contain no slice or map
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for _, f := range v.Fields() {
			emptyToNil(f)
		}
	case reflect.Slice:
		if v.Len() == 0 {
			v.SetZero()
		}
		for i := range v.Len() {
			emptyToNil(v.Index(i))
		}
	case reflect.Map:
		if v.Len() == 0 {
			v.SetZero()
		}
	}
}
