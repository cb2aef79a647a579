package distill

import (
	"slices"
	"strings"
	"unicode"
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
	fixHint    = "hint"    // the same command after another one that the error names
	fixEnv     = "env"     // the same command with a variable set
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
	case len(d.added) == 2 && d.size() == 2 && !opaque(d.added[0]+d.added[1]) && strings.Contains(told, strings.ToLower(d.added[0])) && strings.Contains(told, strings.ToLower(d.added[1])):
		return Fix{Kind: fixAdded, Param: d.added[0] + "` and `" + d.added[1]}, true
	case len(d.added) == 2 && d.size() == 2 && !opaque(d.added[0]+d.added[1]) && (strings.Contains(told, "required") || strings.Contains(told, "missing")) &&
		(namesParameter(told, d.added[0]) || namesParameter(told, d.added[1])):
		return Fix{Kind: fixAdded, Param: d.added[0] + "` and `" + d.added[1]}, true
	case len(d.added) == 1 && d.size() == 1 && !opaque(d.added[0]):
		return Fix{Kind: fixAdded, Param: d.added[0]}, true
	case len(d.removed) == 1 && d.size() == 1 && !opaque(d.removed[0]) && strings.Contains(told, strings.ToLower(d.removed[0])):
		return Fix{Kind: fixRemoved, Param: d.removed[0]}, true
	}
	for _, p := range d.changed {
		if f, ok := r.found(p, s.args.object[p], t.args.object[p], looked); ok && d.size() <= 3 {
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
	if f, ok := r.found(param, from, to, looked); ok {
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

// found says whether the value came out of a look-up, or all that is new in it did.
func (r *reading) found(param string, from, value any, looked []int) (Fix, bool) {
	v := plainText(value)
	if len(v) < 4 || len(v) > 200 {
		return Fix{}, false
	}
	parts := newParts(plainText(from), v)
	for _, at := range slices.Backward(looked) {
		t := &r.steps[at]
		if t.shell != nil {
			continue
		}
		all := len(parts) > 0 && len(t.text) < mostLookedUp
		for _, p := range parts {
			all = all && strings.Contains(t.text, p)
		}
		switch {
		case strings.Contains(t.text, v):
			return Fix{Kind: fixLookup, Param: param, Other: t.tool}, true
		case all:
			return Fix{Kind: fixLookup, Param: param, Other: t.tool, How: "part"}, true
		}
	}
	return Fix{}, false
}

// mostLookedUp bounds the look-ups whose words are compared one by one, in bytes: a longer text
// holds any word by chance.
const mostLookedUp = 4 << 10

// newParts are the words of a value that did not stand in the one before; none where one of them is
// too short to tell anything.
func newParts(from, to string) []string {
	var out []string
	for _, p := range strings.FieldsFunc(to, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && r != '-' }) {
		switch {
		case strings.Contains(from, p):
		case len(p) < 3:
			return nil
		default:
			out = append(out, p)
		}
	}
	return out
}

// namesParameter says whether an error names a parameter, as a word of its own.
func namesParameter(told, name string) bool {
	name = strings.ToLower(name)
	for rest, at := told, 0; ; {
		i := strings.Index(rest[at:], name)
		if i < 0 {
			return false
		}
		at += i
		if !wordAt(rest, at-1) && !wordAt(rest, at+len(name)) {
			return true
		}
		at += len(name)
	}
}

func wordAt(s string, i int) bool {
	return i >= 0 && i < len(s) && (s[i] == '_' || s[i] >= 'a' && s[i] <= 'z' || s[i] >= '0' && s[i] <= '9')
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
	installed, hint := "", ""
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
				return sameCommand(broken, c, installed, hint)
			}
			if by, ok := c.runs(broken); ok {
				return Fix{Kind: fixProgram, Param: broken.program, Other: by}, true
			}
			if name := c.named(s.text); name != "" && name != broken.name() {
				hint = name
				continue
			}
			if f, ok := compare(broken, c); ok {
				return f, true
			}
		}
	}
	return Fix{}, false
}

// runs says whether the command is another one behind a program that only runs it: poetry run
// pytest.
func (c *command) runs(o *command) (by string, ok bool) {
	at := len(c.args) - len(o.args) - 1
	if at < 0 || at > 1 || !isProgram(c.program) || !isProgram(o.program) || c.args[at] != o.program || !slices.Equal(c.args[at+1:], o.args) {
		return "", false
	}
	if at == 0 {
		return c.program + " " + o.program, slices.Contains([]string{"npx", "bunx", "pnpx", "uvx", "pnpm", "yarn", "bun"}, c.program)
	}
	switch c.args[0] {
	case "run", "exec", "-m", "dlx":
		return c.program + " " + c.args[0] + " " + o.program, true
	}
	return "", false
}

// kin: the two programs are there for the same. Whatever else worked on the same file did
// something else with it.
func kin(a, b string) bool {
	for _, family := range [][]string{
		{"python", "python3", "python2", "py", "uv", "poetry", "pipenv", "pdm", "conda", "ipython"},
		{"pip", "pip3", "uv", "uvx", "pipx", "conda", "poetry"},
		{"npm", "pnpm", "yarn", "bun", "npx", "bunx", "pnpx"},
		{"node", "tsx", "ts-node", "bun", "deno", "npx"},
		{"docker", "docker-compose", "podman"},
		{"grep", "egrep", "rg", "ag", "git"},
		{"terraform", "tofu", "terragrunt"},
		{"apt", "apt-get", "apk", "dnf", "yum", "brew"},
		{"make", "gmake", "ninja"},
		{"pytest", "py.test", "python", "python3", "tox", "nox", "uv", "poetry"},
		{"gradle", "gradlew"},
		{"mvn", "mvnw"},
		{"vim", "vi", "nano"},
		{"sed", "gsed", "perl"},
		{"curl", "wget", "http"},
		{"cc", "gcc", "clang", "g++", "clang++"},
		{"kubectl", "oc"},
		{"awk", "gawk"},
		{"jest", "vitest", "mocha", "npx", "npm", "pnpm", "yarn"},
	} {
		if slices.Contains(family, a) && slices.Contains(family, b) {
			return true
		}
	}
	return false
}

// sameCommand reads why the very command that failed worked later: what was installed meanwhile,
// what the error had asked for, a variable that was set for it. Otherwise the world changed, not
// the command.
func sameCommand(from, to *command, installed, hint string) (Fix, bool) {
	switch {
	case hint != "":
		return Fix{Kind: fixHint, Param: from.name(), Other: hint}, true
	case installed != "":
		return Fix{Kind: fixInstall, Other: installed}, true
	case len(from.env) == 0 && len(to.env) == 1 && isVariable(to.env[0]):
		return Fix{Kind: fixEnv, Param: to.name(), Other: to.env[0]}, true
	}
	return Fix{}, false
}

// named is the command as an error tells to run it, as many of its words as stand there; "" where
// the error does not.
func (c *command) named(text string) string {
	words := append([]string{c.program}, c.args[:min(len(c.args), 3)]...)
	runner := ""
	if slices.Contains([]string{"npx", "bunx", "pnpx", "uvx"}, c.program) && len(words) > 1 {
		runner, words = c.program+" ", words[1:]
	}
	if !isProgram(words[0]) {
		return ""
	}
	for n := min(len(words), 3); n > 1; n-- {
		if slices.ContainsFunc(words[1:n], func(w string) bool { return !isSubcommand(w) }) {
			continue
		}
		if name := strings.Join(words[:n], " "); strings.Contains(text, name) {
			return runner + name
		}
	}
	return ""
}

// isVariable knows variables of the environment that are nobody's own.
func isVariable(name string) bool {
	return slices.Contains([]string{
		"AWS_PROFILE", "AWS_REGION", "CGO_ENABLED", "CI", "DEBIAN_FRONTEND", "DISPLAY", "DJANGO_SETTINGS_MODULE", "DOCKER_BUILDKIT", "DOCKER_HOST", "FLASK_APP",
		"GIT_EDITOR", "GO111MODULE", "GOARCH", "GOOS", "GOPRIVATE", "GOPROXY", "JAVA_HOME", "KUBECONFIG", "LANG", "LC_ALL", "LD_LIBRARY_PATH",
		"MPLBACKEND", "NODE_ENV", "NODE_PATH", "PGHOST", "PGUSER", "PYTHONPATH", "RAILS_ENV", "TERM", "TMPDIR", "TZ",
	}, name)
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

// optionOf reads the one option that made the difference; values is how many words the command that
// worked has besides. An option of one letter with a value of its own says nothing without the
// value, which is the session's; and what one meant that was left out, its error seldom says.
func optionOf(from, to *command, a, b []string, values int) (Fix, bool) {
	added := slices.DeleteFunc(slices.Clone(b), func(f string) bool { return slices.Contains(a, f) })
	removed := slices.DeleteFunc(slices.Clone(a), func(f string) bool { return slices.Contains(b, f) })
	switch {
	case slices.ContainsFunc(slices.Concat(added, removed), risky):
		return Fix{}, false
	case len(added) == 1 && len(removed) == 0 && values <= 1 && (values == 0 || len(added[0]) > 2):
		return Fix{Kind: fixFlags, Param: to.name(), Other: added[0]}, true
	case len(removed) == 1 && len(added) == 0 && values == 0 && len(removed[0]) > 2:
		return Fix{Kind: fixFlags, Param: from.name(), Other: removed[0], How: "without"}, true
	}
	return Fix{}, false
}

// risky: an option that turns a check off, or a check that was turned off. That a command worked
// with it is no reason to advise it.
func risky(f string) bool {
	low := strings.ToLower(f)
	switch low {
	case "-k", "-f", "-y", "--yes", "--locked", "--frozen", "--frozen-lockfile", "--check", "--strict", "--privileged", "--hard", "--dangerously":
		return true
	}
	for _, w := range []string{"force", "insecure", "no-verify", "no-check", "skip", "ignore", "disable", "unsafe", "allow-", "legacy", "break-system", "trust", "validate", "no-gpg", "bypass", "auto-approve", "no-preserve"} {
		if strings.Contains(low, w) {
			return true
		}
	}
	return false
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
	switch {
	case from.program == to.program && from.subcommand() == to.subcommand() && common == len(rest):
		return optionOf(from, to, a, b, len(others)-common)
	case from.program != to.program && isProgram(from.program) && isProgram(to.program) && common > 0 && common == len(rest):
		if from.subcommand() != "" && to.subcommand() == "" || !kin(from.program, to.program) {
			return Fix{}, false
		}
		other := to.program
		if sub := to.subcommand(); sub != "" && !slices.Contains(from.args, sub) {
			other = to.name() // docker compose for docker-compose
		}
		return Fix{Kind: fixProgram, Param: from.program, Other: other}, true
	}
	return Fix{}, false
}
