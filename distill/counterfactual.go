package distill

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"precept/detect"
)

// Outcomes holds the number of sessions that had a failure, and the number of these sessions in which the failure
// ended.
type Outcomes struct {
	Ended    int `json:"ended"`
	Sessions int `json:"sessions"`
}

// String returns the counts as "ended/sessions".
func (o Outcomes) String() string { return fmt.Sprintf("%d/%d", o.Ended, o.Sessions) }

// Comparison counts the sessions that had the failure of a lesson, in two groups: the sessions that followed the advice
// of the lesson, and all others.
type Comparison struct {
	Followed    Outcomes `json:"followed"`
	NotFollowed Outcomes `json:"not_followed"`
}

func (c *Comparison) add(o Comparison) {
	c.Followed.Ended += o.Followed.Ended
	c.Followed.Sessions += o.Followed.Sessions
	c.NotFollowed.Ended += o.NotFollowed.Ended
	c.NotFollowed.Sessions += o.NotFollowed.Sessions
}

// Limits of a comparison.
const (
	minCompared   = 3   // minimum number of sessions that did not follow the advice; with fewer, no lesson is refused
	minConfidence = 0.8 // required probability that the failure ends more often with the advice than without
	maxCompared   = 500 // maximum number of sessions of a group; larger counts are scaled down
)

// isIneffective reports whether the counts fail to show that the failure ends more often with the advice than without.
// The result is false if too few sessions did not follow the advice.
func (c *Comparison) isIneffective() bool {
	return c.NotFollowed.Sessions >= minCompared && c.confidence() < minConfidence
}

// confidence returns the probability that the failure ends more often in the sessions of Followed than in the sessions
// of NotFollowed, for uniform priors of both rates. The probability of the opposite is a sum of Beta functions (E.
// Miller, Formulas for Bayesian A/B Testing).
func (c *Comparison) confidence() float64 {
	a, b := c.Followed.posterior()
	x, y := c.NotFollowed.posterior()
	opposite := 0.0
	for i := range int(x) {
		opposite += math.Exp(logBeta(a+float64(i), b+y) - math.Log(y+float64(i)) - logBeta(1+float64(i), y) - logBeta(a, b))
	}
	return 1 - opposite
}

// posterior returns the parameters of the Beta distribution of the rate at which the failure ends.
func (o Outcomes) posterior() (successes, failures float64) {
	ended, sessions := o.Ended, o.Sessions
	if sessions > maxCompared {
		ended, sessions = ended*maxCompared/sessions, maxCompared
	}
	return float64(ended + 1), float64(sessions - ended + 1)
}

// logBeta returns the natural logarithm of the Beta function.
func logBeta(a, b float64) float64 {
	x, _ := math.Lgamma(a)
	y, _ := math.Lgamma(b)
	z, _ := math.Lgamma(a + b)
	return x + y - z
}

// comparison compares the sessions of the case that tried the fix h with the other sessions of the case.
func (c *Case) comparison(h *CountedFix) Comparison {
	followed := Outcomes{h.Sessions, min(h.Sessions+h.Failed, c.Sessions)}
	other := Outcomes{Sessions: c.Sessions - followed.Sessions}
	ended := c.Ended
	if h.Kind == fixLookupOnly { // a lookup helped if the session did not repeat the failing call
		ended = c.FailedOnce
	}
	other.Ended = min(max(ended-h.Sessions, 0), other.Sessions)
	return Comparison{followed, other}
}

// failureEndsLater reports whether a call of the same tool, or a command of the same program, worked soon after the
// failure in step i.
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

// failedFixes returns the fixes that the session tried without success after the failure in step i, up to the call that
// worked.
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
			if f, ok := ps.fixOfRepeatedCall(i, j); ok {
				out = append(out, f)
			}
		case t.failed() && t.tool == s.tool:
			if f, ok := ps.fixOfChangedCall(s, t, lookups, i, j); ok {
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
	editReread  = "reread"  // read the file again
	editContext = "context" // give a longer text to replace, or ask for all occurrences
)

// fixRedone is the kind of the fix of a refused edit. The text of the lesson comes from the known failure.
const fixRedone = "redone"

// redoneEdit finds the next edit of the same file after the refused edit in step i. followed is true if the session
// followed the advice before or with the next edit, and worked is true if the next edit worked. ok is false if there is
// no next edit.
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

// edits reports whether the call changes a file.
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

// editedFile returns the base name of the file that an edit changes, "" if the arguments name no file.
func editedFile(s *step) string {
	for _, name := range []string{"file_path", "path", "filePath", "target_file", "filename", "file"} {
		if path, ok := s.args.object[name].(string); ok {
			return path[strings.LastIndexByte(path, '/')+1:]
		}
	}
	return ""
}

// mentionsFile reports whether the arguments of a call name a file.
func mentionsFile(s *step, file string) bool {
	return len(file) > 3 && strings.Contains(s.args.raw, file)
}

// replacesLongerText reports whether the second edit replaces a longer text than the first edit, or replaces all
// occurrences.
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

// errorText returns the lines of the result that describe the failure, in lower case. Known failures are searched only
// in these lines, because a result may also quote an error.
func (s *step) errorText() string { return strings.ToLower(detect.Signature(s.text)) }
