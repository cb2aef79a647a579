package detect_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"precept/detect"
)

// transcriptsWithFaults returns one transcript per line. Some lines are invalid, one line is too long for parallel
// inspection, and one is an array.
func transcriptsWithFaults(t *testing.T) string {
	t.Helper()
	var file strings.Builder
	for n := range 60 {
		fmt.Fprintln(&file, mustJSON(t, obj{"id": fmt.Sprint(n), "messages": chat(sampleSession)}))
		switch {
		case n%7 == 3:
			fmt.Fprintln(&file, `{"id":"faulty","messages":{}}`)
		case n%11 == 5:
			fmt.Fprintln(&file, `not JSON`)
		case n == 30:
			file.Write(longTranscript(1000))
			fmt.Fprintln(&file, "["+mustJSON(t, obj{"id": "element", "messages": chat(sampleSession)})+"]")
		}
	}
	return file.String()
}

func TestParallelInspectKeepsOrder(t *testing.T) {
	in := transcriptsWithFaults(t)
	inspectOn := func(goroutines int) (findings []detect.Finding, fault string) {
		err := detect.InspectOn(goroutines, strings.NewReader(in), func(f detect.Finding) error {
			findings = append(findings, f)
			return nil
		})
		return findings, fmt.Sprint(err)
	}
	want, wantFault := inspectOn(1)
	if len(want) < 2000 || strings.Count(wantFault, "\n") < 10 {
		t.Fatalf("one goroutine: got %d findings and error %s, want at least 2000 findings and 11 faults", len(want), wantFault)
	}
	for _, n := range []int{2, 8} {
		got, gotFault := inspectOn(n)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%d goroutines: the %d findings differ from one goroutine's %d findings", n, len(got), len(want))
		}
		if gotFault != wantFault {
			t.Errorf("%d goroutines: error:\ngot  %s\nwant %s", n, gotFault, wantFault)
		}
	}
}

func TestParallelInspectEndsAtCallbackError(t *testing.T) {
	stop := errors.New("stop")
	n := 0
	err := detect.InspectOn(4, strings.NewReader(transcriptsWithFaults(t)), func(detect.Finding) error {
		if n++; n == 20 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || n != 20 {
		t.Errorf("InspectOn: err = %v after %d findings, want %v after 20", err, n, stop)
	}
}

// If the inspection of a line panics, the caller first gets the findings of the earlier lines.
func TestParallelInspectPanicReachesCaller(t *testing.T) {
	n := 0
	raw := bytes.TrimSpace(longTranscript(2))
	cause := detect.InspectWithPanic(raw, func(detect.Finding) error { n++; return nil })
	if !strings.Contains(fmt.Sprint(cause), "broken line") || n == 0 {
		t.Errorf("InspectWithPanic = %v after %d findings, want \"broken line\" after the first line's findings", cause, n)
	}
}
