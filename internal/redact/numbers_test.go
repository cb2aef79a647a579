package redact_test

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"precept/internal/redact"
)

func TestUnquotedJSONNumbersAreRedacted(t *testing.T) {
	for in, want := range map[string]string{
		`[4111111111111111,4111111111111111]`:             `["[REDACTED:card:1]","[REDACTED:card:1]"]`,
		`{"a":4111111111111111.0,"b":4111111111111111e0}`: `{"a":4111111111111111.0,"b":4111111111111111e0}`,
		`{"a":4111111111111111E0,"b":0.4111111111111111}`: `{"a":4111111111111111E0,"b":0.4111111111111111}`,
		`{"a":-4111111111111111,"b":1e+4111111111111111}`: `{"a":-4111111111111111,"b":1e+4111111111111111}`,
		`[1.5,4111111111111111]`:                          `[1.5,"[REDACTED:card:1]"]`,
		`[[1.5],{"x":2.5},4111111111111111]`:              `[[1.5],{"x":2.5},"[REDACTED:card:1]"]`,
		"\n4111111111111111\t":                            "\n\"[REDACTED:card:1]\"\t",
		`{"phone":5550100,"phone":[5550100],"x":5550100}`: `{"phone":"[REDACTED:phone:1]","phone":[5550100],"x":5550100}`,
		`{"ssn": 78051120,"ssn":078051120}`:               `{"ssn": 78051120,"ssn":"[REDACTED:ssn:1]"}`,
		`{"ssn":null,"x":078051120}`:                      `{"ssn":null,"x":078051120}`,
		`{"tel":123456,"tel":1234567}`:                    `{"tel":123456,"tel":"[REDACTED:phone:1]"}`,
		`{"mobile" : 4155550100 , "n" : 4155550100}`:      `{"mobile" : "[REDACTED:phone:1]" , "n" : 4155550100}`,
	} {
		if got := string(redact.New(true).JSON(nil, []byte(in))); got != want {
			t.Errorf("JSON(%s) = %s, want %s", in, got, want)
		}
		if got := string(redact.New(false).JSON(nil, []byte(in))); got != in {
			t.Errorf("redactor for secrets only: JSON(%s) = %s, want it unchanged", in, got)
		}
	}
	const in, want = `{"password":12345678,"token":1234567890123456789}`, `{"password":"[REDACTED:secret:1]","token":1234567890123456789}`
	if got := string(redact.New(false).JSON(nil, []byte(in))); got != want {
		t.Errorf("JSON(%s) = %s, want %s", in, got, want)
	}
}

// A redacted number becomes a string.
func TestRedactionKeepsJSONStructure(t *testing.T) {
	leaf := rapid.SampledFrom([]any{
		"a@b.io", "hello", "", nil, true, 1.5, json.Number("4111111111111111"), json.Number("5550100"), "4111 1111 1111 1111", "tel 030 901820", "password: \"hunter22\"", "é\n\"\\", "-----BEGIN PRIVATE KEY-----", "DE89370400440532013000",
	})
	names := rapid.SampledFrom([]string{"a", "password", "phone", "ssn", "Cookie", "Authorization", "auth", "token", "x y", "\"", "é"})
	rapid.Check(t, func(t *rapid.T) {
		var draw func(depth int) any
		draw = func(depth int) any {
			switch rapid.IntRange(0, 3).Draw(t, "kind") * min(depth, 1) {
			case 1:
				return map[string]any{names.Draw(t, "name"): draw(depth - 1), names.Draw(t, "name"): draw(depth - 1)}
			case 2:
				return []any{draw(depth - 1), draw(depth - 1)}
			}
			return leaf.Draw(t, "leaf")
		}
		original := draw(4)
		raw, err := json.Marshal(original)
		if err != nil {
			t.Fatal(err)
		}
		before := string(raw)
		var redacted any
		if err := json.Unmarshal(redact.New(true).JSON(nil, raw), &redacted); err != nil || string(raw) != before {
			t.Fatalf("JSON(%s): output is invalid (%v) or the input changed to %s", before, err, raw)
		}
		if at, ok := sameStructure(original, redacted); !ok {
			t.Fatalf("JSON(%s) changed the structure at %q", before, at)
		}
	})
}

// sameStructure reports whether two values have the same types and names. If not, path is the place of the first
// difference.
func sameStructure(original, redacted any) (path string, ok bool) {
	switch o := original.(type) {
	case map[string]any:
		r, isMap := redacted.(map[string]any)
		if !isMap || len(r) != len(o) {
			return "{", false
		}
		for name, v := range o {
			if path, ok := sameStructure(v, r[name]); !ok {
				return name + "." + path, false
			}
		}
		return "", true
	case []any:
		r, isList := redacted.([]any)
		if !isList || len(r) != len(o) {
			return "[", false
		}
		for n := range o {
			if path, ok := sameStructure(o[n], r[n]); !ok {
				return path, false
			}
		}
		return "", true
	case string:
		_, ok := redacted.(string)
		return o, ok
	case json.Number:
		s, isString := redacted.(string)
		return string(o), !isString || strings.HasPrefix(s, redact.Placeholder)
	}
	return "", original == redacted
}

// In these texts, < and > mark a number that must be redacted. A text without the marks must stay unchanged.
func TestGroupedNumberIsRedactedToLastGroup(t *testing.T) {
	assertMarked(t, "phone",
		"tel <030 901820>, 5", "tel <030 901820> / 5", "tel <0171 123 4567> ext. 12", "tel <030 90182>", "tel <030 9018>", "tel 1234567890123456", "<+49 30 901820> 1234567890123", "+49 30 90", "<415-555-0100> 5 6",
		"<1 415 555 0100>", "5 <1-415-555-0100>", "415 555 0100 2", "\t415 555 0100", "415 555 0100\t", "2 415 555 0100", "+12 3 4 5 6 7 8", "call_4155550100", "a call_ <4155550100>", "call <030/901820>",
	)
	assertMarked(t, "card",
		"<4111 1111 1111 1111> 12/27", "<4111 1111 1111 1111>-", "4111 1111 1111 1111-1", "4111 1111 1111 1111a", "4111 1111 1111", "<3782-822463-10005>", "3782 82246 310005", "4111  1111 1111 1111", "14111 1111 1111 1111",
	)
}
