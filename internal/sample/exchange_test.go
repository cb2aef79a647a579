package sample_test

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"precept/internal/redact"
	"precept/internal/sample"

	"github.com/google/uuid"
	"pgregory.net/rapid"
)

func TestEncodeDecodeRoundTrip(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "a\"b\\c\n\t\r\x01<>&", "é\u2028😀"}))
	rapid.Check(t, func(t *rapid.T) {
		e := sample.Exchange{
			ID: text.Draw(t, "id"), Tenant: text.Draw(t, "tenant"), Agent: "a", Session: "0f",
			SessionName: text.Draw(t, "name"), Turn: rapid.Int().Draw(t, "turn"),
			At:    time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "at"), 123456789).UTC(),
			Model: text.Draw(t, "model"), Outcome: sample.Complete, FirstNew: 3,
			Reply: sample.Reply{
				ID: text.Draw(t, "rid"), Text: text.Draw(t, "text"), InputTokens: 5,
				CachedTokens: rapid.IntRange(-1, 9).Draw(t, "cached"),
			},
			Loops:     rapid.IntRange(0, 2).Draw(t, "loops"),
			LatencyMS: rapid.Float64Range(0, 1e9).Draw(t, "ms"), Truncated: rapid.Bool().Draw(t, "cut"),
		}
		item := rapid.SampledFrom([]string{`{"a": [1, 2.0, 1E400],"b":"x\ny"}`, "{\n \"a\" :\r\n null}", `"s"`})
		for range rapid.IntRange(0, 3).Draw(t, "items") {
			e.New = append(e.New, json.RawMessage(item.Draw(t, "item")))
			call := sample.Call{ID: text.Draw(t, "cid"), Name: "run", Args: text.Draw(t, "args")}
			e.Reply.Calls = append(e.Reply.Calls, call)
			e.Lessons = append(e.Lessons, sample.Lesson{
				Slug: text.Draw(t, "slug"), Arm: "a@1", State: "injected",
				Propensity: rapid.Float64Range(0, 1).Draw(t, "p"),
			})
			if e.Redacted == nil {
				e.Redacted = map[string]int{}
			}
			e.Redacted[rapid.SampledFrom([]string{"email", "ip", "jwt"}).Draw(t, "kind")]++
		}
		enc := e.Encode()
		if bytes.IndexByte(enc.Data, '\n') >= 0 || bytes.Contains(enc.Data, []byte(`\u003c`)) {
			t.Fatalf("got Data %s, want one line without HTML escapes", enc.Data)
		}
		if got, err := enc.Decode(); err != nil || !reflect.DeepEqual(got, e) {
			t.Fatalf("Decode = %+v, error %v\nwant %+v", got, err, e)
		}
	})
}

func TestEncodeReplacesNonJSONValues(t *testing.T) {
	e := sample.Exchange{ID: "a", LatencyMS: math.NaN(), FirstByteMS: math.Inf(1), Model: "\xff\xfe broken"}
	got, err := e.Encode().Decode()
	if err != nil || got.ID != "a" || got.LatencyMS != 0 || got.FirstByteMS != 0 || got.Model != "\ufffd\ufffd broken" {
		t.Errorf("got exchange %+v, error %v, want no error, ID = \"a\", LatencyMS = 0, FirstByteMS = 0 and Model = \"\\ufffd\\ufffd broken\"", got, err)
	}
}

func TestReplyTokensKeepJSONNames(t *testing.T) {
	e := sample.Exchange{Reply: sample.Reply{InputTokens: 1, CachedTokens: 2, OutputTokens: 3}}
	for _, name := range []string{`"input_tokens":1`, `"cached_tokens":2`, `"output_tokens":3`} {
		if !strings.Contains(string(e.Encode().Data), name) {
			t.Errorf("encoded exchange lacks %s: %s", name, e.Encode().Data)
		}
	}
}

func TestDecodeRejectsStringTurn(t *testing.T) {
	if _, err := (sample.Encoded{Data: []byte(`{"turn":"x"}`)}).Decode(); err == nil {
		t.Error("turn is a string: err = nil, want an error")
	}
}

func TestNewIDDependsOnlyOnRandomSource(t *testing.T) {
	a, err := sample.NewID(bytes.NewReader(bytes.Repeat([]byte{7}, 16)))
	if err != nil {
		t.Fatal(err)
	}
	if u := uuid.MustParse(a); u.Version() != 4 || u.Variant() != uuid.RFC4122 {
		t.Errorf("NewID = %s, want a UUID v4", a)
	}
	b, _ := sample.NewID(bytes.NewReader(bytes.Repeat([]byte{7}, 16)))
	if a != b {
		t.Errorf("NewID = %s and %s from the same random bytes, want the same id", a, b)
	}
	if _, err := sample.NewID(strings.NewReader("short")); err == nil {
		t.Error("short random source: err = nil, want an error")
	}
}

func TestRedactCoversAllExchangeTexts(t *testing.T) {
	e := sample.Exchange{
		Model: "ft:gpt-4o:ann@example.com",
		New:   []json.RawMessage{json.RawMessage(`{"role":"user","content":"mail bob@example.com"}`), json.RawMessage(`{"role":"user","content":"hi"}`)},
		Reply: sample.Reply{Text: "ok, bob@example.com", Error: "key password=hunter2", Calls: []sample.Call{{ID: "c:ann@example.com", Name: "send:ann@example.com", Args: `{"to":"bob\u0040example.com"}`}}},
	}
	e.Redact(redact.New(true))
	enc := e.Encode()
	got := string(enc.Data) + string(enc.Items)
	if strings.Contains(got, "example.com") || strings.Contains(got, "hunter2") {
		t.Errorf("redacted exchange contains an address or the password: %s", got)
	}
	if n := strings.Count(got, "[REDACTED:email:1]"); n != 3 {
		t.Errorf("got %d placeholders for bob's address, want 3: %s", n, got)
	}
	if n := strings.Count(got, "[REDACTED:email:2]"); n != 3 {
		t.Errorf("got %d placeholders for ann's address (model, call id, call name), want 3: %s", n, got)
	}
	if e.Redacted["email"] != 6 || e.Redacted["secret"] != 1 {
		t.Errorf("got counts %v, want 6 emails and 1 secret", e.Redacted)
	}
}

func TestRedactHidesCutValueInIncompleteReply(t *testing.T) {
	for outcome, want := range map[string]string{sample.Incomplete: "card [REDACTED:cut:1]", sample.Aborted: "card [REDACTED:cut:1]", sample.Complete: "card 4111 1111"} {
		e := sample.Exchange{Outcome: outcome, Reply: sample.Reply{Text: "card 4111 1111", Calls: []sample.Call{{Args: "card 4111 1111"}}}}
		e.Redact(redact.New(true))
		if e.Reply.Text != want || e.Reply.Calls[0].Args != want {
			t.Errorf("%s: got reply %q and arguments %q, want %q in both", outcome, e.Reply.Text, e.Reply.Calls[0].Args, want)
		}
	}
}
