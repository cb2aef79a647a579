package detect_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"precept/detect"
)

// callAllFunctions passes text to each function that reads results. The test fails if one of them panics.
func callAllFunctions(text string) {
	for _, tool := range []string{"bash", "read_file", "edit", "get_order", "translate_text", ""} {
		v := detect.Classify(tool, deployArgs, text, 0)
		detect.Kinds(text, v)
		v.Outcome = detect.Error
		detect.Kinds(text, v)
		_, _, _ = detect.Verification(tool, deployArgs, text)
	}
	detect.Signature(text)
	detect.Headline(text)
	detect.ResultHash(text)
}

// readTestdataRows returns the last column of each line in testdata.
func readTestdataRows(t *testing.T) (rows []string) {
	t.Helper()
	files, err := filepath.Glob("testdata/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if info, err := os.Stat(name); err != nil || info.IsDir() {
			continue
		}
		text, err := os.ReadFile(name) //nolint:gosec // a project file
		if err != nil {
			t.Fatal(err)
		}
		for row := range strings.Lines(string(text)) {
			row = strings.TrimRight(row, "\n")
			row = row[strings.LastIndexByte(row, '\t')+1:]
			rows = append(rows, strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(row[:min(len(row), 2000)]))
		}
	}
	if len(rows) < 500 {
		t.Fatalf("testdata rows: got %d, want at least 500", len(rows))
	}
	return rows
}

func framedResults() []string {
	return []string{
		`<result exit_code="2" name='x'>boom</result>`, `<result exit_code=2>boom</result>`, `<result exit_code=></result>`,
		`<r exitcode='' ></r>`, `<result returncode=></result>`, `<r exit_status="></r>`, "<returncode>1</returncode><output>x</output>",
		"<stdout>a</stdout><stderr>b</stderr>", "Exit code: 1\nOutput:\nx", "[The command completed with exit code 130. CTRL+C was sent.]",
		"[execute_command for 'make'] Result:\nx", "# var_3 = \"a\\nb\\nc\"", "Script failed\nOutput:\n{\"exit_code\":1}",
		"error 404: x", "Error: ", "near \"x\": syntax error", "{\"error\":{\"message\":\"\"}}", "[{\"detail\":[{\"loc\":[]}]}]",
		"Command timed out after 5s\n[", "</shell_metadata>\n<", "<system-reminder></system-reminder>", "x.go:1:2: error: y",
		"<" + strings.Repeat("a", 186) + " exit_code=" + "\"1\"></r>",
	}
}

// A harness can truncate a result at any byte.
func TestTruncatedResultDoesNotPanic(t *testing.T) {
	t.Parallel()
	for _, text := range framedResults() {
		for end := range len(text) + 1 {
			for _, cut := range []string{text[:end], text[end:], text[:end] + "</x>", "<" + text[:end] + "></x>"} {
				callAllFunctions(cut)
			}
		}
	}
	rows := readTestdataRows(t)
	rapid.Check(t, func(t *rapid.T) {
		row := rapid.SampledFrom(rows).Draw(t, "row")
		frame := rapid.SampledFrom(framedResults()).Draw(t, "frame")
		from := rapid.IntRange(0, len(row)).Draw(t, "from")
		end := rapid.IntRange(from, len(row)).Draw(t, "end")
		middle := rapid.IntRange(0, len(frame)).Draw(t, "middle")
		callAllFunctions(row[from:end])
		callAllFunctions(frame[:middle] + row[from:end] + frame[middle:])
	})
}

func TestExitCodeIsReadFromTagAttribute(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		`<result exit_code="2">boom</result>`:     2,
		`<result exit_code='2' id=7>x</result>`:   2,
		`<result exit_code=2>boom</result>`:       2,
		`<result id=7 exit_code=22 b=3>x</r>`:     22,
		`<result exit_code=></result>`:            0,
		`<result exit_code="">boom</result>`:      0,
		`<result exit_code="0">error: x</r>`:      0,
		`<result exit_code=0 />error: x</result>`: 0,
	} {
		if got := detect.Classify("bash", deployArgs, text, 0); got.Code != want {
			t.Errorf("%s: Code = %d, want %d", text, got.Code, want)
		}
	}
}
