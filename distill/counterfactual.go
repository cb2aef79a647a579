package distill

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"precept/detect"
)

// Outcomes holds the number of sessions with a failure, and the number of those in which the failure ended.
type Outcomes struct {
	Ended    int `json:"ended"`
	Sessions int `json:"sessions"`
}

// String returns "ended/sessions".
func (o Outcomes) String() string { return fmt.Sprintf("%d/%d", o.Ended, o.Sessions) }

// Comparison compares two groups of sessions with the same failure: those that followed the advice, and all others.
type Comparison struct {
	Followed    Outcomes `json:"followed"`
	NotFollowed Outcomes `json:"not_followed"`
}

func (c *Comparison) add(other Comparison) {
	c.Followed.Ended += other.Followed.Ended
	c.Followed.Sessions += other.Followed.Sessions
	c.NotFollowed.Ended += other.NotFollowed.Ended
	c.NotFollowed.Sessions += other.NotFollowed.Sessions
}

const (
	minCompared   = 3   // sessions without the advice; below this number, no lesson is refused
	minConfidence = 0.8 // probability that the failure ends more often with the advice
	maxCompared   = 500 // sessions per group; larger counts are scaled down
)

// isIneffective reports whether the advice did not help. It returns false while there are too few sessions to compare
// with.
func (c *Comparison) isIneffective() bool {
	return c.NotFollowed.Sessions >= minCompared && c.confidence() < minConfidence
}

// confidence returns the probability that the failure ends more often in Followed than in NotFollowed, with uniform
// priors for both rates (Evan Miller, Formulas for Bayesian A/B Testing).
func (c *Comparison) confidence() float64 {
	a, b := c.Followed.posterior()
	x, y := c.NotFollowed.posterior()
	opposite := 0.0
	for i := range int(x) {
		opposite += math.Exp(logBeta(a+float64(i), b+y) - math.Log(y+float64(i)) - logBeta(1+float64(i), y) - logBeta(a, b))
	}
	return 1 - opposite
}

// posterior returns the parameters of the Beta distribution for the share of sessions where the failure ended.
func (o Outcomes) posterior() (successes, failures float64) {
	ended, sessions := o.Ended, o.Sessions
	if sessions > maxCompared {
		ended, sessions = ended*maxCompared/sessions, maxCompared
	}
	return float64(ended + 1), float64(sessions - ended + 1)
}

func logBeta(a, b float64) float64 {
	x, _ := math.Lgamma(a)
	y, _ := math.Lgamma(b)
	z, _ := math.Lgamma(a + b)
	return x + y - z
}

// comparison compares the sessions that tried the fix with the others.
func (c *Case) comparison(counted *CountedFix) Comparison {
	followed := Outcomes{counted.Sessions, min(counted.Sessions+counted.Failed, c.Sessions)}
	other := Outcomes{Sessions: c.Sessions - followed.Sessions}
	ended := c.Ended
	if counted.Kind == fixLookupOnly { // a lookup helped if the session did not repeat the failing call
		ended = c.FailedOnce
	}
	other.Ended = min(max(ended-counted.Sessions, 0), other.Sessions)
	return Comparison{followed, other}
}

// failureEndsLater reports whether the failure in step i ends in a later call to the same tool. For a command, the call
// must run the same program.
func (ps *parsedSession) failureEndsLater(i int) bool {
	s := &ps.steps[i]
	for j := i + 1; j < len(ps.steps) && j <= i+repairWindow; j++ {
		t := &ps.steps[j]
		if t.tool != s.tool || !t.succeeded() {
			continue
		}
		if s.shell == nil || t.shell != nil && slices.ContainsFunc(t.shell.commands, func(c command) bool { return c.program == s.blamedCommand().program }) {
			return true
		}
	}
	return false
}

// failedFixes returns the changes that were tried after the failure in step i without success, until the call worked.
func (ps *parsedSession) failedFixes(i int) (out []Fix) {
	s := &ps.steps[i]
	var lookups []int
	for j := i + 1; j < len(ps.steps) && j <= i+repairWindow; j++ {
		t := &ps.steps[j]
		switch {
		case t.tool == s.tool && t.succeeded() && s.shell == nil:
			return out
		case s.shell != nil && t.shell != nil && t.failed():
			if f, ok := commandFix(s.blamedCommand(), t.shell.mainCommand(), s.text); ok {
				out = append(out, f)
			} else if by, ok := t.shell.mainCommand().wraps(s.blamedCommand()); ok {
				out = append(out, Fix{Kind: fixProgram, Param: s.blamedCommand().program, Other: by})
			}
		case s.shell != nil || t.shell != nil:
		case t.failed() && t.tool == s.tool && sameArguments(&s.args, &t.args):
			if f, ok := ps.repeatedCallFix(i, j); ok {
				out = append(out, f)
			}
		case t.failed() && t.tool == s.tool:
			if f, ok := ps.changedCallFix(s, t, lookups, i, j); ok {
				out = append(out, f)
			}
		case t.failed() && shareValue(&s.args, &t.args) && !toolDoes(t.tool, "thinks"):
			out = append(out, Fix{Kind: fixTool, Other: t.tool})
		case t.succeeded() && toolDoes(t.tool, "looks"):
			lookups = append(lookups, j)
		}
	}
	return out
}

// Ways to repeat a refused edit (knownFailure.Edit).
const (
	editReread  = "reread"  // read the file again before the next edit
	editContext = "context" // replace a longer text, or all occurrences
)

// fixRedone is the fix for a refused edit: the edit is made again as the known failure advises.
const fixRedone = "redone"

// redoneEdit finds the next edit to the same file after the refused edit in step i. followed is true if the session
// followed the advice before or in that edit.
func (ps *parsedSession) redoneEdit(i int, advice string) (followed, worked, ok bool) {
	s := &ps.steps[i]
	for j := i + 1; j < len(ps.steps) && j <= i+repairWindow; j++ {
		t := &ps.steps[j]
		sameFile := shareValue(&s.args, &t.args) || mentionsFile(t, editedFile(s))
		switch {
		case !sameFile:
		case t.edits():
			if advice == editContext {
				followed = replacesLongerText(&s.args, &t.args)
			}
			return followed, t.succeeded(), true
		case advice == editReread && t.succeeded():
			followed = true
		}
	}
	return followed, false, false
}

func (s *step) edits() bool {
	if s.shell != nil {
		program := s.shell.mainCommand().program
		return program == "apply_patch" || program == "patch" || program == "git" && s.shell.mainCommand().subcommand() == "apply"
	}
	if toolDoes(s.tool, "edits") {
		verb, _ := s.args.object["command"].(string)
		return verb != "view"
	}
	return false
}

func editedFile(s *step) string {
	for _, name := range []string{"file_path", "path", "filePath", "target_file", "filename", "file"} {
		if path, ok := s.args.object[name].(string); ok {
			return path[strings.LastIndexByte(path, '/')+1:]
		}
	}
	return ""
}

func mentionsFile(s *step, file string) bool {
	return len(file) > 3 && strings.Contains(s.args.raw, file)
}

func replacesLongerText(first, second *arguments) bool {
	if all, _ := second.object["replace_all"].(bool); all {
		return true
	}
	for _, name := range []string{"old_string", "old_str", "oldString", "oldText", "old_text", "search", "old"} {
		a, _ := first.object[name].(string)
		b, ok := second.object[name].(string)
		if ok {
			return len(b) > len(a)
		}
	}
	return false
}

// errorText returns the lines about the failure, in lower case. The rest of a result may quote other errors.
func (s *step) errorText() string { return strings.ToLower(detect.Signature(s.text)) }
