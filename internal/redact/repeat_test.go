package redact

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestEveryRepeatedSecretIsRedacted(t *testing.T) {
	const first, second = "k3yOfTheHouse", "tok3nOfTheDoor"
	line := "attempt " + first + " then " + second + "\n"
	text := "password=" + first + "\nDB_PASSWORD=" + second + "\n" + strings.Repeat(line, 40)
	got := New(true).Text(text)
	if strings.Contains(got, first) || strings.Contains(got, second) {
		t.Errorf("got %d and %d occurrences of the two secrets in the redacted text, want 0 of each",
			strings.Count(got, first), strings.Count(got, second))
	}
}

func TestJSONWithRepeatedSecretsIsValid(t *testing.T) {
	for _, raw := range []string{
		`{"password":"nXYZ12abc9","log":"first\nXYZ12abc9 and \\nXYZ12abc9"}`,
		`{"a":"password=/abc123xyz done","log":"see \/abc123xyz again"}`,
		`{"password":"u00e9x12abc9","log":"caf\u00e9x12abc9"}`,
	} {
		got := New(true).JSON(nil, []byte(raw))
		if !json.Valid(got) {
			t.Errorf("JSON(%s) = %s, want valid JSON", raw, got)
		}
	}
}

func TestTextDoesNotPanicOnTruncatedLine(t *testing.T) {
	texts := []string{"u + '&password='", `user=app password="`, `"old_string":"a&pwd={"`}
	for _, line := range readLines(t, "testdata/recall.txt") {
		texts = append(texts, strings.NewReplacer("«", "", "»", "").Replace(expandMarks(line)))
	}
	for _, line := range texts {
		for end := range len(line) + 1 {
			New(true).Text(line[:end])
		}
		raw, err := json.Marshal(map[string]string{"text": line})
		if err != nil {
			t.Fatal(err)
		}
		if got := New(true).JSON(nil, raw); !json.Valid(got) {
			t.Errorf("JSON(%s) = %s, want valid JSON", raw, got)
		}
	}
}
