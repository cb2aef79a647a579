package project

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

// snippet is code in a document: a span between backticks, or a line in a fenced block.
type snippet struct {
	text  string
	block bool
}

var (
	spanPattern        = regexp.MustCompile("`([^`\n]+)`")
	linkPattern        = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)
	commandLinePattern = regexp.MustCompile(`(?:^|[\s(;|&])(?:bin/|\./)?precept((?:\s+\S+)+)`)
	flagPattern        = regexp.MustCompile(`(?:^|\s)--([a-z][a-z0-9-]*)`)
	keyPattern         = regexp.MustCompile(`^[a-z_]+(\.[a-z_]+)+$`)
	envPattern         = regexp.MustCompile(`\bPRECEPT_[A-Z][A-Z_]*\b`)
	metricPattern      = regexp.MustCompile(`\bprecept_[a-z_]*(?:\{[a-z_]+(?:,[a-z_]+)*\}_[a-z_]+)?[a-z_]*`)
	pathPattern        = regexp.MustCompile(`(?:^|\s)(/(?:api|v1/feedback|v1/lessons|healthz|readyz|metrics|login|logout)[^\s?"']*)`)
	headerPattern      = regexp.MustCompile(`\bPrecept-[A-Z][A-Za-z-]+`)
	makePattern        = regexp.MustCompile(`(?:^|\s)make ([a-z0-9-]+)`)
	filePattern        = regexp.MustCompile(`^(?:configs|docs|examples|tools)/[\w./-]+$`)
	subcommandsPattern = regexp.MustCompile(`^precept\s+([a-z]+)\s{2,}([a-z]+(?:, [a-z]+)+)(?:\s{2,}|$)`) // a command and a list of subcommands, as in "precept lessons   list, show"
	yamlPrefix         = regexp.MustCompile(`^\s*#\s?`)
)

// findSnippets returns the code in a document.
func findSnippets(file, text string) []snippet {
	var out []snippet
	fenced := false
	for line := range strings.SplitSeq(text, "\n") {
		if path.Ext(file) == ".yaml" {
			line = yamlPrefix.ReplaceAllString(line, "")
		}
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			continue
		}
		if path.Ext(file) == ".md" && (fenced || strings.HasPrefix(line, "    ")) {
			out = append(out, snippet{text: strings.TrimSpace(line), block: true})
			continue
		}
		for _, m := range spanPattern.FindAllStringSubmatch(line, -1) {
			out = append(out, snippet{text: m[1]})
		}
	}
	return out
}

// findUnknownNames returns a message for each unknown name in a document.
func (k *knownNames) findUnknownNames(file, text string) []string {
	var out []string
	report := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for _, c := range findSnippets(file, text) {
		k.checkCommands(c, report)
		k.checkNames(c, report)
	}
	for _, m := range linkPattern.FindAllStringSubmatch(text, -1) {
		if !strings.Contains(m[1], "://") && !existsInRepo(path.Join(path.Dir(file), m[1])) {
			report("the link target %s does not exist", m[1])
		}
	}
	return out
}

// checkCommands reports precept commands and flags that do not exist.
func (k *knownNames) checkCommands(c snippet, report func(string, ...any)) {
	if m := subcommandsPattern.FindStringSubmatch(c.text); c.block && m != nil {
		if cmd, rest := k.findCommand([]string{m[1]}); len(rest) == 0 && len(cmd.subcommands) > 0 {
			for sub := range strings.SplitSeq(m[2], ", ") {
				if _, rest := k.findCommand([]string{m[1], sub}); len(rest) > 0 {
					report("precept %s %s is not a command", m[1], sub)
				}
			}
			return
		}
	}
	line := c.text
	if c.block {
		line, _, _ = strings.Cut(line, " # ") // without a shell comment
	}
	m := commandLinePattern.FindStringSubmatch(line)
	if m == nil {
		if strings.HasPrefix(c.text, "--") {
			k.checkFlags(k.root, c.text, report)
		}
		return
	}
	words := strings.Fields(m[1])
	nameLength := slices.IndexFunc(words, func(w string) bool { return !regexp.MustCompile(`^[a-z]+$`).MatchString(w) })
	if nameLength < 0 {
		nameLength = len(words)
	}
	cmd, rest := k.findCommand(words[:nameLength])
	if cmd == k.root && nameLength > 0 || len(rest) > 0 && len(cmd.subcommands) > 0 {
		if c.block && !strings.HasPrefix(line, "precept") && !strings.Contains(line, "/precept") {
			return // the word precept in prose, not a command
		}
		report("precept %s is not a command", strings.Join(words[:nameLength], " "))
		return
	}
	preceptArgs, _, _ := strings.Cut(m[1], " -- ") // after "--", the command of another program follows
	preceptArgs, _, _ = strings.Cut(preceptArgs, "|")
	k.checkFlags(cmd, preceptArgs, report)
}

func (k *knownNames) checkFlags(cmd *command, text string, report func(string, ...any)) {
	for _, m := range flagPattern.FindAllStringSubmatch(text, -1) {
		if !cmd.hasFlag(m[1]) && !belongsToOtherProgram(text) {
			report("%s has no flag --%s", cmd.path, m[1])
		}
	}
}

func belongsToOtherProgram(text string) bool {
	return slices.Contains([]string{"--auth-type openai", "--model openai/MODEL", "--user", "/api/chat"}, text)
}

// checkNames reports keys, variables, metrics, paths, headers, make targets and files that do not exist.
func (k *knownNames) checkNames(c snippet, report func(string, ...any)) {
	if head, _, _ := strings.Cut(c.text, ":"); keyPattern.MatchString(head) {
		first, _, _ := strings.Cut(head, ".")
		if k.sections[first] && !k.keys[head] && !existsInRepo(head) {
			report("there is no key %s", head)
		}
	}
	for _, name := range envPattern.FindAllString(c.text, -1) {
		if !k.env[name] {
			report("nothing reads the variable %s", name)
		}
	}
	for _, metric := range metricPattern.FindAllString(c.text, -1) {
		for _, name := range expandBraces(metric) {
			if !k.metrics[name] && !strings.HasSuffix(name, "_") {
				report("there is no metric %s", name)
			}
		}
	}
	text := regexp.MustCompile(`^(GET|POST|PUT|PATCH|DELETE|POST/GET) `).ReplaceAllString(c.text, "")
	if !c.block || strings.HasPrefix(text, "/") {
		for _, m := range pathPattern.FindAllStringSubmatch(text, -1) {
			examplePath := regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(m[1], "x")
			if !belongsToOtherProgram(m[1]) && !slices.ContainsFunc(k.routes, func(r *regexp.Regexp) bool { return r.MatchString(examplePath) }) {
				report("no listener answers the path %s", m[1])
			}
		}
	}
	for _, name := range headerPattern.FindAllString(c.text, -1) {
		if !k.headers[strings.ToLower(name)] {
			report("there is no header %s", name)
		}
	}
	for _, m := range makePattern.FindAllStringSubmatch(c.text, -1) {
		if (!c.block || strings.HasPrefix(c.text, "make ")) && !k.targets[m[1]] {
			report("there is no target make %s", m[1])
		}
	}
	if filePattern.MatchString(c.text) && !existsInRepo(c.text) {
		report("there is no file %s", c.text)
	}
}

// expandBraces returns one metric name for each item in the braces of a name such as precept_{a,b}.
func expandBraces(name string) []string {
	head, rest, ok := strings.Cut(name, "{")
	if !ok {
		return []string{name}
	}
	list, tail, _ := strings.Cut(rest, "}")
	var out []string
	for item := range strings.SplitSeq(list, ",") {
		out = append(out, head+item+tail)
	}
	return out
}

func existsInRepo(name string) bool {
	_, err := fs.Stat(os.DirFS(repo), path.Clean(name))
	return err == nil
}
