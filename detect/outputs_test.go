package detect_test

import (
	_ "embed"
	"encoding/json"
	"strings"
	"testing"

	"precept/detect"
)

//go:embed testdata/fine.txt
var fineOutputs string

// What went well is no failure, however much it speaks of failures.
func TestFineOutputs(t *testing.T) {
	n, command, text := 0, "", ""
	for line := range strings.Lines(fineOutputs) {
		switch {
		case strings.HasPrefix(line, "$ "):
			command, text = strings.TrimSpace(line[2:]), ""
		case line == "=\n" && command != "":
			args, err := json.Marshal(map[string]string{"command": command})
			if err != nil {
				t.Fatal(err)
			}
			for _, frame := range []string{"", "[exit code: 0]", "Exit code: 0"} {
				shown := text
				if frame != "" {
					shown += frame
				}
				if j := detect.Classify("bash", string(args), shown, 0); j.Outcome == detect.Error {
					t.Errorf("%s %s: %s by %q\n%s", command, frame, j.Outcome, j.Rule, text)
				}
			}
			n++
			command = ""
		case command != "":
			text += line
		}
	}
	if n < 70 {
		t.Errorf("%d outputs were read", n)
	}
}
