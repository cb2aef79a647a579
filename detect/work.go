package detect

import (
	"slices"
	"strings"

	"precept/internal/wire"
	"precept/internal/work"
)

const (
	maxWork     = 32        // references returned per call
	maxWorkText = 256 << 10 // bytes searched at the end of a result
)

// WorkRefs returns the commits, branches and pull requests that the agent worked on, as found in new tool results. A
// reference counts only if the call made, pushed or merged it, or asked for this reference alone. References in a list,
// a file or the user's words do not count. recall returns calls in earlier requests.
func (r *Results) WorkRefs(req *wire.Request, recall func(callID string) (wire.Call, bool)) (refs []work.Ref) {
	for _, item := range req.NewResults() {
		call, ok := findCall(req, item.Result.CallID, recall)
		if !ok || !mayShowWork(&call) || item.Result.Text == "" {
			continue
		}
		j := r.entry(callResult{call.Name, call.Args, item.Result.Text, item.Result.IsError})
		if j.classify().Outcome == Refusal {
			continue
		}
		text := item.Result.Text
		s := workSearch{call: j.toolCall(), text: text[max(0, len(text)-maxWorkText):]}
		s.search(func() bool { return committedBefore(req, item.Item) })
		for _, ref := range s.refs {
			if len(refs) < maxWork && !slices.Contains(refs, ref) {
				refs = append(refs, ref)
			}
		}
	}
	return refs
}

// mayShowWork reports whether a call mentions git or a code host. Other calls need no analysis.
func mayShowWork(c *wire.Call) bool {
	for _, word := range [...]string{"git", "gh ", "glab", "hub "} {
		if strings.Contains(c.Args, word) {
			return true
		}
	}
	name := strings.ToLower(c.Name)
	for _, word := range [...]string{"git", "pull", "merge", "commit", "push", "branch", "file"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// committedBefore reports whether one of the last four answers before item called git commit.
func committedBefore(req *wire.Request, item int) bool {
	const answers = 4
	for n := 0; item > 0 && n < answers; {
		item--
		if req.Role(item) != wire.RoleAssistant {
			continue
		}
		n++
		for _, c := range req.Item(item).Calls {
			if strings.Contains(c.Args, "git") && strings.Contains(c.Args, "commit") {
				return true
			}
		}
	}
	return false
}

// workSearch collects the references in one result.
type workSearch struct {
	call *toolCall
	text string
	refs []work.Ref
}

// add adds a reference if ok is true. Callers pass the two results of a parser.
func (s *workSearch) add(ref work.Ref, ok bool) {
	if ok {
		s.refs = append(s.refs, ref)
	}
}

// search adds the references in the result. committed reports whether a recent answer called git commit. It is called
// only if the command shows the newest commit.
func (s *workSearch) search(committed func() bool) {
	c := s.call
	parts := c.shell.parts
	if len(parts) == 0 && (c.purpose == purposeExec || c.purpose == purposeWait || c.runsCode()) {
		parts = c.phrases.analyseShell(quotedCommands(c.command)).parts
	}
	if len(parts) == 0 {
		s.readAPIResult()
		return
	}
	s.text = outputText(s.text)
	commits, pushes, branches, showsNewCommit := false, false, false, false
	for _, part := range parts {
		args := part.args
		if part.prog == "git" {
			args = c.phrases.subcommandArgs(args)
		}
		if len(args) == 0 {
			continue
		}
		switch part.prog {
		case "git":
			switch args[0] {
			case "commit", "cherry-pick", "revert", "am":
				commits = true
			case "push":
				pushes = true
			case "checkout", "switch":
				branches = branches || hasAny(args, "-b", "-B", "-c", "-C", "--create", "--force-create", "--orphan")
			case "log", "rev-parse", "show":
				showsNewCommit = showsNewCommit || showsHead(args[1:]) && (commits || committed())
			}
		case "gh", "glab":
			if len(args) > 1 && hasAny(args[:1], "pr", "mr") {
				s.readPullRequestOutput(args[1], args[2:])
			}
		case "hub":
			if args[0] == "pull-request" {
				s.readPullRequestOutput("create", args[1:])
			}
		}
	}
	s.readGitOutput(commits, pushes, branches)
	if showsNewCommit {
		s.readNewestCommit()
	}
}

func (s *workSearch) readGitOutput(commits, pushes, branches bool) {
	if !commits && !pushes && !branches {
		return
	}
	p := pushOutput{}
	for line := range strings.Lines(s.text) {
		line = strings.TrimRight(line, "\r\n")
		if commits {
			s.readCommitLine(line)
		}
		if pushes {
			s.readPushLine(&p, line)
		}
		if name, ok := strings.CutPrefix(line, "Switched to a new branch '"); ok && branches {
			s.add(work.BranchRef(strings.TrimSuffix(name, "'"), ""))
		}
	}
}

// readCommitLine reads "[main 3f2a9c1] message", "[main (root-commit) 3f2a9c1] message" or "[detached HEAD 3f2a9c1]
// message".
func (s *workSearch) readCommitLine(line string) {
	inside, ok := strings.CutPrefix(line, "[")
	if !ok {
		return
	}
	inside, _, ok = strings.Cut(inside+" ", "] ")
	words := strings.Fields(inside)
	if !ok || len(words) < 2 {
		return
	}
	ref, ok := work.CommitRef(words[len(words)-1], "")
	if !ok {
		return
	}
	s.add(ref, true)
	words = words[:len(words)-1]
	if last := words[len(words)-1]; len(words) > 1 && strings.HasPrefix(last, "(") && strings.HasSuffix(last, ")") {
		words = words[:len(words)-1]
	}
	if len(words) == 1 { // if there are several words, no branch is checked out
		s.add(work.BranchRef(words[0], ""))
	}
}

// pushOutput is the state that readPushLine keeps between lines.
type pushOutput struct {
	repository string
	inFetch    bool // the lines come from git fetch
}

// readPushLine reads a repository, an updated branch, or a pull request address from a line that git push printed.
func (s *workSearch) readPushLine(p *pushOutput, line string) {
	if remote, ok := strings.CutPrefix(line, "To "); ok {
		p.repository, p.inFetch = work.RemoteRepository(remote), false
		return
	}
	if strings.HasPrefix(line, "From ") {
		p.inFetch = true
		return
	}
	if message, ok := strings.CutPrefix(line, "remote:"); ok {
		s.add(work.ParsePullRequest(strings.TrimSpace(message)))
		return
	}
	if p.inFetch || strings.Contains(line, "rejected]") || strings.Contains(line, "[deleted]") || strings.Contains(line, "tag]") ||
		strings.Contains(line, "refs/tags/") || strings.Contains(line, "up to date]") {
		return
	}
	left, branch, ok := strings.Cut(line, " -> ")
	if columns := strings.Split(line, "\t"); len(columns) > 2 { // git push --porcelain
		_, branch, ok = strings.Cut(columns[1], ":")
		left = columns[2]
	}
	words := strings.Fields(branch)
	left = strings.TrimLeft(left, " +*")
	if !ok || len(words) == 0 || strings.HasPrefix(words[0], "origin/") {
		return
	}
	newest := ""
	if !strings.HasPrefix(left, "[new branch]") && !strings.HasPrefix(left, "[new reference]") {
		oldHash, after, isRange := strings.Cut(left, "..")
		newHash, _, _ := strings.Cut(strings.TrimLeft(after, ".")+" ", " ")
		if _, ok := work.CommitRef(oldHash, ""); !ok || !isRange {
			return
		}
		newest = newHash
	}
	s.add(work.CommitRef(newest, p.repository))
	s.add(work.BranchRef(words[0], p.repository))
}

// showsHead reports whether git log, show or rev-parse with these arguments shows the newest commit.
func showsHead(args []string) bool {
	for _, a := range args {
		if strings.HasPrefix(a, "-") || a == "HEAD" || a == "@" || strings.Trim(a, "0123456789") == "" {
			continue
		}
		return false
	}
	return true
}

// readNewestCommit adds the first commit in the output, unless a commit is already known.
func (s *workSearch) readNewestCommit() {
	if slices.ContainsFunc(s.refs, func(r work.Ref) bool { return r.Kind == work.Commit }) {
		return
	}
	for line := range strings.Lines(s.text) {
		word, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "commit ")+" ", " ")
		if ref, ok := work.CommitRef(word, ""); ok {
			s.add(ref, true)
			return
		}
	}
}

// quotedCommands returns the git and code host commands that are quoted in a program, with one command per line.
func quotedCommands(program string) string {
	var lines []string
	for line := range strings.Lines(program) {
		for _, begin := range [...]string{"git ", "gh ", "glab ", "hub "} {
			at := strings.Index(line, begin)
			if at <= 0 || strings.IndexByte("\"'`!", line[at-1]) < 0 {
				continue
			}
			command := line[at:]
			if end := strings.LastIndexByte(command, line[at-1]); end > 0 {
				command = command[:end]
			}
			lines = append(lines, strings.TrimSpace(command))
			break
		}
	}
	return strings.Join(lines, "\n")
}

// outputText returns the output in a JSON result, or the text itself.
func outputText(text string) string {
	v, ok := parseLenient(text)
	if !ok || v.kind != objectValue {
		return text
	}
	var out []string
	for _, key := range []string{"output", "stdout", "stderr", "content", "result", "text"} {
		if field, ok := v.get(key); ok && field.kind == stringValue {
			out = append(out, field.text())
		}
	}
	if len(out) == 0 {
		return text
	}
	return strings.Join(out, "\n")
}
