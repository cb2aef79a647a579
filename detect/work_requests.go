package detect

import (
	"strings"

	"precept/internal/work"
)

// readPullRequestOutput reads the output of "gh pr VERB ARGS", "glab mr VERB ARGS" or "hub pull-request ARGS".
func (s *workSearch) readPullRequestOutput(verb string, args []string) {
	if !hasAny([]string{verb}, "create", "merge", "view", "ready", "edit", "new", "accept", "update") {
		return
	}
	if v, ok := parseLenient(s.text); ok && v.kind == objectValue { // gh pr view --json
		s.readPullRequest(v, "")
		return
	}
	creates := verb == "create" || verb == "new"
	if !creates && s.addPullRequest(args) {
		return
	}
	for line := range strings.Lines(s.text) {
		line = strings.TrimSpace(line)
		if verb == "view" { // other addresses may be in the description
			for _, label := range [...]string{"url:", "View this pull request on GitHub:", "View this merge request on GitLab:"} {
				if address, ok := strings.CutPrefix(line, label); ok {
					s.add(work.ParsePullRequest(address))
				}
			}
			continue
		}
		for word := range strings.FieldsSeq(line) { // merged pull request acme/shop#12 (title)
			ref, ok := work.ParsePullRequest(strings.Trim(word, "().,<>"))
			if ok && (strings.Contains(word, "://") || strings.Contains(line, "pull request "+word) || strings.Contains(line, "merge request "+word)) {
				s.add(ref, true)
			}
		}
	}
}

// addPullRequest adds the pull request that the arguments name by an address, or by a number and --repo.
func (s *workSearch) addPullRequest(args []string) (found bool) {
	repository := repositoryOption(args, "-R", "--repo")
	for _, a := range args {
		ref, ok := work.ParsePullRequest(a)
		if !ok {
			ref, ok = work.PullRequestRef(repository, a)
		}
		s.add(ref, ok)
		found = found || ok
	}
	return found
}

func repositoryOption(args []string, names ...string) string {
	for i, a := range args {
		for _, name := range names {
			if value, ok := strings.CutPrefix(a, name+"="); ok {
				return repositoryPath(value)
			}
			if a == name && i+1 < len(args) {
				return repositoryPath(args[i+1])
			}
		}
	}
	return ""
}

// repositoryPath returns a path such as acme/shop from a path, a path with a host, or an address.
func repositoryPath(text string) string {
	if strings.Contains(text, "://") || strings.Contains(text, "@") {
		return work.RemoteRepository(text)
	}
	if host, rest, ok := strings.Cut(text, "/"); ok && strings.Contains(host, ".") && strings.Contains(rest, "/") {
		text = rest
	}
	return work.CleanPath(text)
}

// readAPIResult adds the references in the results of tools such as create_pull_request, merge_request, push_files and
// git_commit.
func (s *workSearch) readAPIResult() {
	c := s.call
	writes := c.nameHas("create", "update", "merge", "open", "push", "commit", "edit", "delete", "submit", "accept", "add")
	isPullRequest := c.nameHas("pull", "merge") && c.nameHas("request") || c.nameHas("pr", "mr")
	reads := c.nameHas("get", "view", "read", "show") && !c.nameHas("list", "search", "files", "comments", "diff")
	switch {
	case isPullRequest && (writes || reads):
	case writes && c.nameHas("commit", "file", "files", "branch"):
	default:
		return
	}
	repository := c.repositoryArgument()
	v, ok := parseLenient(s.text)
	if !ok || v.kind != objectValue {
		s.readCommitText()
		return
	}
	if isPullRequest {
		s.readPullRequest(v, repository)
		if number, ok := c.args.get("pullNumber", "pull_number", "merge_request_iid", "mergeRequestIid", "number"); ok {
			s.add(work.PullRequestRef(repository, number.raw))
		}
		return
	}
	s.readCommitObject(v, repository)
}

func (s *workSearch) readPullRequest(v lenientValue, repository string) {
	for _, key := range []string{"html_url", "web_url", "url"} {
		address, ok := v.get(key)
		if !ok || address.kind != stringValue {
			continue
		}
		if ref, ok := work.ParsePullRequest(address.text()); ok {
			s.add(ref, true)
			repository = ref.Repository
			break
		}
	}
	if repository != "" {
		if number, ok := v.get("number", "iid"); ok {
			s.add(work.PullRequestRef(repository, number.raw))
		}
	}
	head, _ := v.get("head")
	branch, _ := head.get("ref")
	if branch.raw == "" {
		branch, _ = v.get("source_branch", "headRefName")
	}
	hash, _ := head.get("sha")
	if hash.raw == "" {
		hash, _ = v.get("sha", "headRefOid")
	}
	s.add(work.CommitRef(hash.text(), repository))
	s.add(work.BranchRef(branch.text(), repository))
}

func (s *workSearch) readCommitObject(v lenientValue, repository string) {
	c := s.call
	branch, _ := c.args.get("branch", "branch_name")
	commit, ok := v.get("commit", "object")
	if !ok {
		commit = v
	}
	if !c.nameHas("branch") { // except for a tool that makes a branch, because it returns an older commit
		hash, _ := commit.get("sha")
		if hash.raw == "" {
			hash, _ = commit.get("id")
		}
		if len(hash.raw) < 40 { // a different kind of id
			return
		}
		s.add(work.CommitRef(hash.text(), repository))
	}
	s.add(work.BranchRef(branch.text(), repository))
}

// readCommitText reads "[main 3f2a9c1] message" and a sentence with "hash 3f2a9c1".
func (s *workSearch) readCommitText() {
	if !s.call.nameHas("commit") {
		return
	}
	for line := range strings.Lines(s.text) {
		line = strings.TrimRight(line, "\r\n")
		s.readCommitLine(line)
		if _, after, ok := strings.Cut(line, " hash "); ok {
			word, _, _ := strings.Cut(after+" ", " ")
			s.add(work.CommitRef(strings.Trim(word, ".,"), ""))
		}
	}
}

func (c *toolCall) repositoryArgument() string {
	owner, _ := c.args.get("owner")
	name, _ := c.args.get("repo", "repository")
	if owner.raw != "" && name.raw != "" {
		return work.CleanPath(owner.text() + "/" + name.text())
	}
	if owner.raw == "" && name.raw != "" {
		return repositoryPath(name.text())
	}
	project, _ := c.args.get("project_id", "projectId", "id")
	return repositoryPath(strings.ReplaceAll(project.text(), "%2F", "/"))
}
