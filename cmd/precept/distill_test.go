package main

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// precept sends several requests at once to the judge, the model that rates sessions. When the judge refuses requests,
// all of them wait for the same reason, so precept reports the reason once.
func TestJudgeWaitIsPrintedOnce(t *testing.T) {
	var out strings.Builder
	now := time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)
	report := judgeWaitReport(&out, func() time.Time { return now })
	report(errors.New("the judge answers 429: slow down"), 20*time.Second)
	report(errors.New("the judge answers 429: slow down"), 21*time.Second)
	now = now.Add(20 * time.Second)
	report(errors.New("the judge answers 500: away"), 2500*time.Millisecond)
	const want = "precept: the judge answers 429: slow down; the next attempt is in 20.0 s\nprecept: the judge answers 500: away; the next attempt is in 2.5 s\n"
	if out.String() != want {
		t.Errorf("reported waits: got %q, want %q", out.String(), want)
	}
}
