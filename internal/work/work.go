// Package work defines references to what an agent's work produced: commits, branches and pull requests.
//
// A session keeps the references from its tool results (package detect). Feedback from a person, CI or a webhook names
// a reference, and is stored for the sessions that have this reference. All spellings of a pull request, such as its
// URL and acme/shop#12, give one reference.
package work

import (
	"net/url"
	"strconv"
	"strings"
)

// Kind is the kind of object that a reference names.
type Kind string

// Reference kinds.
const (
	Commit      Kind = "commit"
	Branch      Kind = "branch"
	PullRequest Kind = "pull_request" // GitHub pull request, GitLab merge request
)

// Bounds in bytes.
const (
	minHash = 7   // for a commit
	maxHash = 64  // for a SHA-256
	maxName = 256 // for a branch, and for a repository's path
)

// Ref is a reference to a commit, a branch or a pull request. Refs to the same object are equal, unless a commit hash
// is shortened or a repository is unknown.
type Ref struct {
	Kind       Kind
	Repository string // path in lower case, such as acme/shop; "" if unknown
	Name       string // hash in lower case, branch, or pull request number
}

// CommitRef returns the Ref for a hash of at least 7 hex digits.
func CommitRef(hash, repository string) (ref Ref, ok bool) {
	if len(hash) < minHash || len(hash) > maxHash || strings.Trim(hash, "0123456789abcdefABCDEF") != "" || strings.Trim(hash, "0") == "" {
		return Ref{}, false
	}
	return Ref{Kind: Commit, Repository: repository, Name: strings.ToLower(hash)}, true
}

// BranchRef returns the Ref for a branch. ok is false if git does not accept the name.
func BranchRef(name, repository string) (ref Ref, ok bool) {
	name = strings.TrimPrefix(name, "refs/heads/")
	bad := func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(`~^:?*[\`, r) }
	if name == "" || len(name) > maxName || name == "HEAD" || name == "@" || name[0] == '-' || strings.Contains(name, "..") ||
		strings.Contains(name, "//") || strings.Trim(name, "/") != name || strings.ContainsFunc(name, bad) {
		return Ref{}, false
	}
	return Ref{Kind: Branch, Repository: repository, Name: name}, true
}

// PullRequestRef returns the Ref for a positive number in a repository.
func PullRequestRef(repository, number string) (ref Ref, ok bool) {
	n, err := strconv.ParseUint(number, 10, 63)
	if err != nil || n == 0 || repository == "" {
		return Ref{}, false
	}
	return Ref{Kind: PullRequest, Repository: repository, Name: strconv.FormatUint(n, 10)}, true
}

// ParsePullRequest reads a pull or merge request URL, or a repository with a number:
// https://github.com/acme/shop/pull/12, acme/shop#12, acme/shop!12. A URL may continue after the number.
func ParsePullRequest(text string) (ref Ref, ok bool) {
	text = strings.TrimSpace(text)
	if len(text) > 2*maxName {
		return Ref{}, false
	}
	if !strings.Contains(text, "://") {
		path, number, found := strings.Cut(text, "#")
		if !found {
			path, number, found = strings.Cut(text, "!")
		}
		if !found || strings.Count(path, "/") < 1 {
			return Ref{}, false
		}
		return PullRequestRef(CleanPath(path), number)
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return Ref{}, false
	}
	path := strings.TrimPrefix(u.Path, "/api/v3") // GitHub Enterprise
	segments := strings.Split(strings.Trim(path, "/"), "/")
	for i := len(segments) - 2; i >= 2; i-- {
		switch segments[i] {
		case "pull", "pulls", "merge_requests", "pull-requests":
			at := segments[:i]
			if at[0] == "repos" && len(at) == 3 { // https://api.github.com/repos/acme/shop/pulls/12
				at = at[1:]
			}
			if at[len(at)-1] == "-" {
				at = at[:len(at)-1]
			}
			return PullRequestRef(CleanPath(strings.Join(at, "/")), segments[i+1])
		}
	}
	return Ref{}, false
}

// RemoteRepository returns the repository path in a git remote, such as git@github.com:acme/shop.git,
// https://user@github.com/acme/shop or ssh://git@host:22/acme/shop, and "" for a local directory.
func RemoteRepository(remote string) string {
	remote = strings.TrimSpace(remote)
	if len(remote) > 2*maxName {
		return ""
	}
	if strings.Contains(remote, "://") {
		u, err := url.Parse(remote)
		if err != nil || u.Host == "" {
			return ""
		}
		return CleanPath(u.Path)
	}
	host, path, ok := strings.Cut(remote, ":")
	if !ok || host == "" || strings.ContainsAny(host, `/\`) || len(host) == 1 { // local path, possibly with a drive letter
		return ""
	}
	return CleanPath(path)
}

// CleanPath returns a repository path in Ref.Repository's form, or "" if the path has fewer than two segments.
func CleanPath(path string) string {
	path = strings.ToLower(strings.Trim(strings.TrimSuffix(strings.Trim(path, "/"), ".git"), "/"))
	if !strings.Contains(path, "/") || len(path) > maxName || strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' }) {
		return ""
	}
	return path
}

// Key returns a reference's index key. A full commit hash and its shortened forms share a key. Branches with the same
// name in several repositories also share a key; session.Record.MatchWork distinguishes these branches.
func (r Ref) Key() string {
	switch r.Kind {
	case Commit:
		return "w:c:" + r.Name[:minHash]
	case PullRequest:
		return "w:p:" + r.Repository + "#" + r.Name
	default:
		return "w:b:" + r.Name
	}
}
