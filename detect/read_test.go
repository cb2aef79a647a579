package detect_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"precept/detect"
)

func readIDs(text string) (ids []string, err error) {
	err = detect.ReadTranscripts(strings.NewReader(text), func(t detect.Transcript) error {
		ids = append(ids, t.ID)
		return nil
	})
	return ids, err
}

func transcriptLine(id string) string {
	return fmt.Sprintf(`{"id":%q,"messages":[{"role":"user","content":"a } in \" text"},{"role":"assistant","content":"b"}]}`, id)
}

func TestReadTranscriptsSkipsInvalidLines(t *testing.T) {
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
			t.Errorf("invalid line 3 %.60q: ReadTranscripts = %v, %v, want a, b, c and an error that names only line 3",
				bad, ids, err)
		}
		ids, err = readIDs(bad + "\n" + transcriptLine("a") + "\n" + bad + "\n")
		if err == nil || !strings.Contains(err.Error(), "line 1") || !strings.Contains(err.Error(), "line 3") || !slices.Equal(ids, []string{"a"}) {
			t.Errorf("invalid lines 1 and 3 %.60q: ReadTranscripts = %v, %v, want a and an error that names lines 1 and 3",
				bad, ids, err)
		}
	}
}

func TestReadTranscriptsNamesEachTruncatedLine(t *testing.T) {
	truncated := `{"id":"x","messages":[` + "\n"
	ids, err := readIDs(truncated + truncated + transcriptLine("a") + "\n" + truncated)
	if !slices.Equal(ids, []string{"a"}) {
		t.Errorf("ReadTranscripts = %v, want a", ids)
	}
	for _, line := range []string{"line 1", "line 2", "line 4"} {
		if err == nil || !strings.Contains(err.Error(), line) {
			t.Errorf("ReadTranscripts: err = %v, want it to contain %s", err, line)
		}
	}
}

// ReadTranscripts accepts JSON over several lines, several values on a line, arrays, and message lists.
func TestReadTranscriptsAcceptsEveryFormat(t *testing.T) {
	a, b := transcriptLine("a"), transcriptLine("b")
	multiline := strings.NewReplacer(`[`, "[\n", `},`, "},\n", `:`, ":\n  ")
	for _, text := range []string{
		a + b, a + " " + b, a + "\n" + b, multiline.Replace(a) + "\n" + multiline.Replace(b), "[" + a + "," + b + "]",
		"[\n" + a + ",\n" + b + "\n]\n", "[\n  " + multiline.Replace(a) + "\n,\n" + multiline.Replace(b) + "]", a + "\n[" + b + "]\n",
	} {
		ids, err := readIDs(text)
		if err != nil || !slices.Equal(ids, []string{"a", "b"}) {
			t.Errorf("ReadTranscripts(%s) = ids %v, error %v, want ids a and b, and no error", text, ids, err)
		}
	}
	messages := "[\n" + `{"role":"user","content":"x"},` + "\n" + `{"role":"assistant","content":"y"}` + "\n]\n"
	if ids, err := readIDs(messages + messages); err != nil || len(ids) != 2 {
		t.Errorf("ReadTranscripts(two message lists) = %d transcripts, error %v, want 2 transcripts and no error", len(ids), err)
	}
}

func TestReadTranscriptsSkipsInvalidArrayElement(t *testing.T) {
	a, b := transcriptLine("a"), transcriptLine("b")
	for _, text := range []string{
		"[\n" + a + ",\n" + `{"id":"x",},` + "\n" + b + "\n]",
		"[\n" + a + ",\n" + b[:40] + "\n" + b + "\n]",
		"[\n" + a + ",\nnot json,\n" + b + "\n]",
	} {
		ids, err := readIDs(text)
		if err == nil || !strings.Contains(err.Error(), "line 3") || !slices.Equal(ids, []string{"a", "b"}) {
			t.Errorf("ReadTranscripts(%s) = %v, %v, want a, b and an error that names line 3", text, ids, err)
		}
	}
	if ids, err := readIDs("[\n" + `{"role":"user","content":"x"},` + "\n{bad},\n" + `{"role":"assistant","content":"y"}` + "\n]"); len(ids) != 0 || err == nil {
		t.Errorf("ReadTranscripts(list with an invalid message) = %d transcripts, error %v, want no transcript and an error", len(ids), err)
	}
}

// PowerShell redirects output to a file as UTF-16.
func TestReadTranscriptsRefusesUTF16(t *testing.T) {
	if _, err := readIDs("\xff\xfe{\x00}\x00"); err == nil || !strings.Contains(err.Error(), "save it as UTF-8") {
		t.Errorf("ReadTranscripts(UTF-16): err = %v, want an error with \"save it as UTF-8\"", err)
	}
}
