package distill

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"precept/detect"
)

// Outcomes counts sessions with a failure, and the sessions among them that ended the failure.
type Outcomes struct {
	Ended    int `json:"ended"`
	Sessions int `json:"sessions"`
}

// String returns the counts as "ended/sessions".
func (o Outcomes) String() string { return fmt.Sprintf("%d/%d", o.Ended, o.Sessions) }

// Comparison compares the sessions with the failure of a lesson: the sessions that did what the
// lesson advises, and the other sessions.
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

// Limits of a comparison. With fewer than minCompared sessions without the advice, the comparison does not
// refuse a lesson: the failed call and the call that worked are the evidence. minConfidence is the required
// probability, with uniform priors, that sessions end the failure more often with the advice than without.
const (
	minCompared   = 3
	minConfidence = 0.8
	maxCompared   = 500 // larger counts are scaled down
)

// isIneffective reports whether the counts do not show that sessions with the advice end the failure more often
// than sessions without the advice. Too few sessions without the advice give false.
func (c *Comparison) isIneffective() bool {
	return c.NotFollowed.Sessions >= minCompared && c.confidence() < minConfidence
}

// confidence returns the probability that the rate of Followed exceeds the rate of NotFollowed: 1 minus
// the probability of the opposite, a sum of Beta functions (E. Miller, Formulas for Bayesian A/B Testing).
func (c *Comparison) confidence() float64 {
	a, b := c.Followed.posterior()
	x, y := c.NotFollowed.posterior()
	opposite := 0.0
	for i := range int(x) {
		opposite += math.Exp(logBeta(a+float64(i), b+y) - math.Log(y+float64(i)) - logBeta(1+float64(i), y) - logBeta(a, b))
	}
	return 1 - opposite
}

// posterior returns the parameters of the Beta distribution of the rate.
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

// comparison compares the sessions of the case that tried the fix with the other sessions.
func (c *Case) comparison(h *CountedFix) Comparison {
	followed := Outcomes{h.Sessions, min(h.Sessions+h.Failed, c.Sessions)}
	other := Outcomes{Sessions: c.Sessions - followed.Sessions}
	ended := c.Ended
	if h.Kind == fixCheck { // a lookup ends the failure if the failing call is not repeated
		ended = c.Once
	}
	other.Ended = min(max(ended-h.Sessions, 0), other.Sessions)
	return Comparison{followed, other}
}

// endsLater reports whether a call of the same tool, or a command of the same program, worked after
// the failure.
func (r *reading) endsLater(i int) bool {
	s := &r.steps[i]
	for j := i + 1; j < len(r.steps) && j <= i+reach; j++ {
		t := &r.steps[j]
		if t.tool != s.tool || !t.succeeded() {
			continue
		}
		if s.shell == nil || t.shell != nil && slices.ContainsFunc(t.shell.commands, func(c command) bool { return c.program == s.blamedCommand().program }) {
			return true
		}
	}
	return false
}

// failedFixes returns the fixes that the session tried after step i without success, up to the
// call that worked.
func (r *reading) failedFixes(i int) (out []Fix) {
	s := &r.steps[i]
	var lookups []int
	for j := i + 1; j < len(r.steps) && j <= i+reach; j++ {
		t := &r.steps[j]
		switch {
		case t.tool == s.tool && t.succeeded() && s.shell == nil:
			return out
		case s.shell != nil && t.shell != nil && t.failed():
			if f, ok := compareCommands(s.blamedCommand(), t.shell.main(), s.text); ok {
				out = append(out, f)
			} else if by, ok := t.shell.main().runs(s.blamedCommand()); ok {
				out = append(out, Fix{Kind: fixProgram, Param: s.blamedCommand().program, Other: by})
			}
		case s.shell != nil || t.shell != nil:
		case t.failed() && t.tool == s.tool && sameArguments(&s.args, &t.args):
			if f, ok := r.repeatedCall(i, j); ok {
				out = append(out, f)
			}
		case t.failed() && t.tool == s.tool:
			if f, ok := r.changedCall(s, t, lookups, i, j); ok {
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

// Ways to redo a refused edit (knownFailure.Edit).
const (
	editReread  = "reread"  // read the file again
	editContext = "context" // give a longer text to replace, or ask for all occurrences
)

// fixRedone is the kind of the fix of a refused edit. The text of the lesson comes from the known
// failure.
const fixRedone = "redone"

// redoneEdit reads the next edit of the same file after the refused edit i. followed reports whether the session
// followed the advice before or with this edit. worked reports whether this edit worked. ok is false if there is
// no such edit.
func (r *reading) redoneEdit(i int, advice string) (followed, worked, ok bool) {
	s := &r.steps[i]
	for j := i + 1; j < len(r.steps) && j <= i+reach; j++ {
		t := &r.steps[j]
		sameFile := shareValue(&s.args, &t.args) || mentions(t, editedFile(s))
		switch {
		case !sameFile:
		case t.edits():
			if advice == editContext {
				followed = longerText(&s.args, &t.args)
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
		program := s.shell.main().program
		return program == "apply_patch" || program == "patch" || program == "git" && s.shell.main().subcommand() == "apply"
	}
	if toolDoes(s.tool, "edits") {
		verb, _ := s.args.object["command"].(string)
		return verb != "view"
	}
	return false
}

// editedFile returns the base name of the file of an edit, empty if unknown.
func editedFile(s *step) string {
	for _, name := range []string{"file_path", "path", "filePath", "target_file", "filename", "file"} {
		if path, ok := s.args.object[name].(string); ok {
			return path[strings.LastIndexByte(path, '/')+1:]
		}
	}
	return ""
}

// mentions reports whether the arguments of a call name a file.
func mentions(s *step, file string) bool { return len(file) > 3 && strings.Contains(s.args.raw, file) }

// longerText reports whether the second edit gives a longer text to replace, or asks for all
// occurrences.
func longerText(from, to *arguments) bool {
	if all, _ := to.object["replace_all"].(bool); all {
		return true
	}
	for _, name := range []string{"old_string", "old_str", "oldString", "oldText", "old_text", "search", "old"} {
		a, _ := from.object[name].(string)
		b, given := to.object[name].(string)
		if given {
			return len(b) > len(a)
		}
	}
	return false
}

// errorText returns the text in which a known failure is searched: the lines that describe the
// failure. A result that only quotes an error is not evidence.
func (s *step) errorText() string { return strings.ToLower(detect.Signature(s.text)) }
