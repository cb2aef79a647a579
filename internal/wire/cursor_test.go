package wire

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"
)

func TestTextMatchesEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		raw, err := json.Marshal(s)
		if err != nil {
			t.Skip("no JSON for this string")
		}
		var want string
		if err := json.Unmarshal(raw, &want); err != nil {
			t.Fatal(err)
		}
		if got := text(raw, span{0, len(raw)}); got != want {
			t.Fatalf("text(%s) = %q, want %q", raw, got, want)
		}
	})
}

func TestTextDecodesSurrogates(t *testing.T) {
	for raw, want := range map[string]string{
		`"\ud83d\ude00"`:       "\U0001F600",
		`"\uD83D"`:             "\uFFFD",
		`"\ude00\ud83d"`:       "\uFFFD\uFFFD",
		`"\ud83dx"`:            "\uFFFDx",
		`"\ud83d\n"`:           "\uFFFD\n",
		`"\ud83d\u0041"`:       "\uFFFDA",
		`"\u0000\/\b\f\r\t\\"`: "\x00/\b\f\r\t\\",
	} {
		if got := text([]byte(raw), span{0, len(raw)}); got != want {
			t.Errorf("text(%s) = %q, want %q", raw, got, want)
		}
	}
	if raw := "\"a\xffb\""; text([]byte(raw), span{0, len(raw)}) != "a\xffb" {
		t.Errorf("text(%q) = %q, want invalid UTF-8 unchanged", raw, text([]byte(raw), span{0, len(raw)}))
	}
}

func TestAppendEscapedRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.Byte()).Draw(t, "s"))
		raw := append(appendEscaped([]byte{'"'}, s), '"')
		if !json.Valid(raw) {
			t.Fatalf("appendEscaped(%q) = %s, want valid JSON", s, raw)
		}
		if got := text(raw, span{0, len(raw)}); got != s {
			t.Fatalf("text(%s) = %q, want %q", raw, got, s)
		}
	})
	if got := string(appendEscaped(nil, "<a href='x'>&\u2028\"\\\n\x01")); got != "<a href='x'>&\u2028\\\"\\\\\\n\\u0001" {
		t.Errorf("appendEscaped = %s, want only the escapes required by JSON", got)
	}
}

func TestMembersMatchesGJSON(t *testing.T) {
	body := `{ "a" : "x\"}" , "b":[1, {"c":"]"} ,[]] ,"\u0064":{ } ,"e":-1.5e3,"f":null , "g":"\\\\","h":"\\\"" }`
	var names, values []string
	for k, v := range members([]byte(body), span{0, len(body)}) {
		names, values = append(names, string(k)), append(values, body[v.start:v.end])
	}
	var wantNames, wantValues []string
	gjson.Parse(body).ForEach(func(k, v gjson.Result) bool {
		wantNames, wantValues = append(wantNames, k.String()), append(wantValues, v.Raw)
		return true
	})
	if strings.Join(names, "|") != strings.Join(wantNames, "|") || strings.Join(values, "|") != strings.Join(wantValues, "|") {
		t.Errorf("members: got names %q, values %q\nwant names %q, values %q (from gjson)", names, values, wantNames, wantValues)
	}
	var first []string
	for v := range elements([]byte(` [ 1 , "a" , [ ] , {} ] `), span{1, 25}) {
		if first = append(first, string(v.of([]byte(` [ 1 , "a" , [ ] , {} ] `)))); len(first) == 3 {
			break
		}
	}
	if strings.Join(first, "|") != `1|"a"|[ ]` {
		t.Errorf(`elements: got %q, want 1, "a" and [ ]`, first)
	}
}
