package detect_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"precept/detect"
)

// readIDs returns the ids of the transcripts in a text.
func readIDs(text string) (ids []string, err error) {
	err = detect.Read(strings.NewReader(text), func(t detect.Transcript) error {
		ids = append(ids, t.ID)
		return nil
	})
	return ids, err
}

// transcriptLine returns a valid transcript on one line.
func transcriptLine(id string) string {
	return fmt.Sprintf(`{"id":%q,"messages":[{"role":"user","content":"a } in \" text"},{"role":"assistant","content":"b"}]}`, id)
}

// A line without a valid transcript is skipped, and the error names the line.
func TestReadSkipsBadLines(t *testing.T) {
	valid := transcriptLine("x")
	for _, bad := range []string{
		"not json", valid[:len(valid)/2], `{"id":"x","messages":[`, `{"id":"x","messages":[{"role":"user","content":"x"},`,
		`{"id":"x",}`, valid + "garbage", valid + ",", `{'id': 'x'}`, "]", "}", "[", "[INFO] a log line", `"text"`, "3", "null",
		`{"id":"x","messages":[{"role":"user","content":"` + strings.Repeat("long ", 100_000),
		`{"id":"x"}`, `{}`, `[{"role":"user","content":"a"},{"role":"assi`, "\x00\x01", "// comment",
	} {
		text := transcriptLine("a") + "\r\n\n" + bad + "\n" + transcriptLine("b") + "\n" + transcriptLine("c")
		ids, err := readIDs(text)
		if err == nil || !strings.Contains(err.Error(), "line 3") || strings.Contains(err.Error(), "\n") || !slices.Equal(ids, []string{"a", "b", "c"}) {
			t.Errorf("bad line %.60q: got transcripts %v, error %v, want a, b, c and only the fault of line 3", bad, ids, err)
		}
		ids, err = readIDs(bad + "\n" + transcriptLine("a") + "\n" + bad + "\n")
		if err == nil || !strings.Contains(err.Error(), "line 1") || !strings.Contains(err.Error(), "line 3") || !slices.Equal(ids, []string{"a"}) {
			t.Errorf("bad lines %.60q at both ends: got transcripts %v, error %v, want a and the faults of lines 1 and 3", bad, ids, err)
		}
	}
}

// The error names each of several truncated lines, even of two consecutive lines.
func TestReadNamesEachTruncatedLine(t *testing.T) {
	cut := `{"id":"x","messages":[` + "\n"
	ids, err := readIDs(cut + cut + transcriptLine("a") + "\n" + cut)
	if !slices.Equal(ids, []string{"a"}) {
		t.Errorf("got transcripts %v, want a", ids)
	}
	for _, line := range []string{"line 1", "line 2", "line 4"} {
		if err == nil || !strings.Contains(err.Error(), line) {
			t.Errorf("the error is %v, want %s in the error", err, line)
		}
	}
}

// Read reads JSON that spans lines, several values on a line, arrays, and lists of messages.
func TestReadAcceptsEveryForm(t *testing.T) {
	a, b := transcriptLine("a"), transcriptLine("b")
	multiline := strings.NewReplacer(`[`, "[\n", `},`, "},\n", `:`, ":\n  ")
	for _, text := range []string{
		a + b, a + " " + b, a + "\n" + b, multiline.Replace(a) + "\n" + multiline.Replace(b), "[" + a + "," + b + "]",
		"[\n" + a + ",\n" + b + "\n]\n", "[\n  " + multiline.Replace(a) + "\n,\n" + multiline.Replace(b) + "]", a + "\n[" + b + "]\n",
	} {
		ids, err := readIDs(text)
		if err != nil || !slices.Equal(ids, []string{"a", "b"}) {
			t.Errorf("%s: got transcripts %v, error %v, want a, b, nil", text, ids, err)
		}
	}
	messages := "[\n" + `{"role":"user","content":"x"},` + "\n" + `{"role":"assistant","content":"y"}` + "\n]\n"
	if ids, err := readIDs(messages + messages); err != nil || len(ids) != 2 {
		t.Errorf("two lists of messages: got %d transcripts and error %v, want 2, nil", len(ids), err)
	}
}

// The error names the line of a broken element of an array. The other elements are read.
func TestReadArrayContinuesAfterABrokenElement(t *testing.T) {
	a, b := transcriptLine("a"), transcriptLine("b")
	for _, text := range []string{
		"[\n" + a + ",\n" + `{"id":"x",},` + "\n" + b + "\n]",
		"[\n" + a + ",\n" + b[:40] + "\n" + b + "\n]",
		"[\n" + a + ",\nnot json,\n" + b + "\n]",
	} {
		ids, err := readIDs(text)
		if err == nil || !strings.Contains(err.Error(), "line 3") || !slices.Equal(ids, []string{"a", "b"}) {
			t.Errorf("%s: got transcripts %v, error %v, want a, b and the fault of line 3", text, ids, err)
		}
	}
	if ids, err := readIDs("[\n" + `{"role":"user","content":"x"},` + "\n{bad},\n" + `{"role":"assistant","content":"y"}` + "\n]"); len(ids) != 0 || err == nil {
		t.Errorf("a list with a broken message: got %d transcripts and error %v, want none and a fault", len(ids), err)
	}
}

// A redirection in a Windows shell may write UTF-16. Read returns an error that advises UTF-8.
func TestReadRefusesUTF16(t *testing.T) {
	if _, err := readIDs("\xff\xfe{\x00}\x00"); err == nil || !strings.Contains(err.Error(), "save it as UTF-8") {
		t.Errorf("got error %v, want \"save it as UTF-8\" in the error", err)
	}
}
