package distill

import (
	"slices"
	"strings"
)

// The kinds of what helped after a failure.
const (
	fixForm    = "form"    // the same tool, one parameter in another form
	fixOffered = "offered" // the value that the error itself offered
	fixNarrow  = "narrow"  // fewer words
	fixFewer   = "fewer"   // fewer values
	fixAdded   = "added"   // a parameter more
	fixRemoved = "removed" // a parameter less
	fixLookup  = "lookup"  // a value that another tool had to be asked for
	fixAsked   = "asked"   // a value that a person had to be asked for
	fixTool    = "tool"    // another tool
	fixCheck   = "check"   // nothing was mended; a look at how things stand told why
	fixFirst   = "first"   // the same call, after another one
	fixFlags   = "flags"   // the same command with another option
	fixProgram = "program" // another program
	fixInstall = "install" // the same command after a package was installed
	fixStop    = "stop"    // nothing helped
)

// Fix is what helped.
type Fix struct {
	Kind  string `json:"kind"`
	Param string `json:"param,omitempty"`
	Other string `json:"other,omitempty"` // the other tool, program or option
	How   string `json:"how,omitempty"`   // the form
}

// reach is how many calls after a failure are looked at for what helped.
const reach = 10

// repair looks for what helped after the failed step i.
func (r *reading) repair(i int) (Fix, bool) {
	s := &r.steps[i]
	if s.shell != nil {
		return r.repairShell(i)
	}
	var looked []int
	for j := i + 1; j < len(r.steps) && j <= i+reach; j++ {
		t := &r.steps[j]
		switch {
		case !t.worked() || thinks(t.tool):
		case t.tool == s.tool && same(&s.args, &t.args):
			return r.again(i, j)
		case t.tool == s.tool:
			return r.changed(s, t, looked, i, j)
		case t.shell == nil && !looks(t.tool) && (shared(&s.args, &t.args) > 0) && !gives(t.tool):
			return Fix{Kind: fixTool, Other: t.tool}, true
		case looks(t.tool) && looks(s.tool) && stem(s.tool, t.tool) >= 2:
			return Fix{Kind: fixTool, Other: t.tool}, true
		case looks(t.tool):
			looked = append(looked, j)
		}
	}
	for _, j := range looked {
		if t := &r.steps[j]; !looks(s.tool) && t.shell == nil && shared(&s.args, &t.args) > 0 {
			return Fix{Kind: fixCheck, Other: t.tool}, true
		}
	}
	return Fix{}, false
}

// again: the very same call worked later. What stood between made the difference, if anything did.
func (r *reading) again(i, j int) (Fix, bool) {
	for k := j - 1; k > i; k-- {
		if t := &r.steps[k]; t.worked() && t.shell == nil && !thinks(t.tool) && (shared(&r.steps[i].args, &t.args) > 0 || len(r.steps[i].args.object) == 0) {
			return Fix{Kind: fixFirst, Other: t.tool}, true
		}
	}
	return Fix{}, false
}

// changed reads what was different in the call of the same tool that worked.
func (r *reading) changed(s, t *step, looked []int, i, j int) (Fix, bool) {
	if s.args.object == nil || t.args.object == nil {
		return Fix{}, false
	}
	d := differ(&s.args, &t.args)
	drop := func(list []string) []string {
		return slices.DeleteFunc(list, func(k string) bool { return chatter(k) })
	}
	d.added, d.removed, d.changed = drop(d.added), drop(d.removed), drop(d.changed)
	told := strings.ToLower(s.text)
	switch {
	case len(d.changed) == 1 && d.size() <= 3:
		p := d.changed[0]
		if f, ok := r.reshaped(s, p, s.args.object[p], t.args.object[p], looked, i, j); ok {
			f.Param = p
			return f, true
		}
	case len(d.added) == 1 && d.size() == 1 && !opaque(d.added[0]):
		return Fix{Kind: fixAdded, Param: d.added[0]}, true
	case len(d.removed) == 1 && d.size() == 1 && !opaque(d.removed[0]) && strings.Contains(told, strings.ToLower(d.removed[0])):
		return Fix{Kind: fixRemoved, Param: d.removed[0]}, true
	}
	for _, p := range d.changed {
		if f, ok := r.found(p, t.args.object[p], looked); ok && d.size() <= 3 {
			return f, true
		}
	}
	return Fix{}, false
}

// reshaped reads how one parameter changed.
func (r *reading) reshaped(s *step, param string, from, to any, looked []int, i, j int) (Fix, bool) {
	a, b := plainText(from), plainText(to)
	if form := formOf(from, to); form != "" {
		return Fix{Kind: fixForm, How: form}, true
	}
	body := strings.ToLower(s.text)
	switch {
	case len(b) >= 3 && !strings.EqualFold(a, b) && strings.Contains(afterEcho(body, strings.ToLower(a)), strings.ToLower(b)):
		return Fix{Kind: fixOffered}, true
	case subset(b, a) && looks(s.tool):
		return Fix{Kind: fixNarrow}, true
	case fewer(from, to):
		return Fix{Kind: fixFewer}, true
	}
	if f, ok := r.found(param, to, looked); ok {
		return f, true
	}
	if len(b) >= 4 && r.namedBetween(b, i, j) {
		return Fix{Kind: fixAsked}, true
	}
	return Fix{}, false
}

// afterEcho is the error without the value that was sent, which errors like to repeat.
func afterEcho(body, sent string) string {
	if len(sent) < 3 {
		return body
	}
	return strings.Replace(body, sent, "", 1)
}

// found says whether the value came out of a look-up.
func (r *reading) found(param string, value any, looked []int) (Fix, bool) {
	v := plainText(value)
	if len(v) < 4 || len(v) > 200 {
		return Fix{}, false
	}
	for _, at := range slices.Backward(looked) {
		t := &r.steps[at]
		if strings.Contains(t.text, v) && t.shell == nil {
			return Fix{Kind: fixLookup, Param: param, Other: t.tool}, true
		}
	}
	return Fix{}, false
}

// namedBetween says whether a person named the value after step i and before step j, and not
// before.
func (r *reading) namedBetween(value string, i, j int) bool {
	low, said := strings.ToLower(value), false
	for _, t := range r.turns {
		if strings.Contains(strings.ToLower(t.words), low) {
			if t.before <= i {
				return false
			}
			said = said || t.before <= j
		}
	}
	return said
}

// repairShell looks for the command that worked instead.
func (r *reading) repairShell(i int) (Fix, bool) {
	s := &r.steps[i]
	broken := s.blamed()
	if broken == nil {
		return Fix{}, false
	}
	installed := ""
	for j := i + 1; j < len(r.steps) && j <= i+reach; j++ {
		t := &r.steps[j]
		if t.shell == nil || !t.worked() {
			continue
		}
		for k := range t.shell.commands {
			c := &t.shell.commands[k]
			if how, ok := c.installs(); ok {
				installed = how
				continue
			}
			if c.program == broken.program && slices.Equal(c.args, broken.args) {
				if installed != "" {
					return Fix{Kind: fixInstall, Other: installed}, true
				}
				return Fix{}, false // the world changed, not the command
			}
			if f, ok := compare(broken, c); ok {
				return f, true
			}
		}
	}
	return Fix{}, false
}

// blamed is the command of a line that the error names, or the one that the line is about.
func (s *step) blamed() *command {
	for line := range strings.SplitSeq(s.text, "\n") {
		if len(line) > 300 {
			continue
		}
		for p := range strings.SplitSeq(line, ": ") {
			for k := range s.shell.commands {
				if c := &s.shell.commands[k]; strings.TrimSpace(p) == c.program && c.program != "bash" && c.program != "sh" {
					return c
				}
			}
		}
	}
	return s.shell.main()
}

// compare reads what another command did differently to the same end.
func compare(from, to *command) (Fix, bool) {
	a, rest := from.flags()
	b, others := to.flags()
	common := 0
	for _, w := range others {
		if slices.Contains(rest, w) {
			common++
		}
	}
	alike := common > 0 && 2*common >= len(rest) || len(rest)+len(others) == 0
	switch {
	case from.program == to.program && from.subcommand() == to.subcommand() && alike:
		for _, f := range b {
			if !slices.Contains(a, f) {
				return Fix{Kind: fixFlags, Param: from.name(), Other: f}, true
			}
		}
		if len(b) < len(a) {
			for _, f := range a {
				if !slices.Contains(b, f) {
					return Fix{Kind: fixFlags, Param: from.name(), Other: f, How: "without"}, true
				}
			}
		}
	case from.program != to.program && isProgram(from.program) && isProgram(to.program) && common > 0 && common == len(rest):
		if from.subcommand() != "" && to.subcommand() == "" {
			return Fix{}, false
		}
		return Fix{Kind: fixProgram, Param: from.program, Other: to.program}, true
	}
	return Fix{}, false
}
