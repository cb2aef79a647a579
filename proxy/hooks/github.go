package hooks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"precept/internal/work"
)

type githubPayload struct {
	Action      string            `json:"action"`
	Repository  githubRepository  `json:"repository"`
	PullRequest githubPullRequest `json:"pull_request"`
	CheckRun    githubCheck       `json:"check_run"`
	CheckSuite  githubCheck       `json:"check_suite"`
	Workflow    githubCheck       `json:"workflow_run"`

	// Status event fields.
	SHA       string `json:"sha"`
	State     string `json:"state"`
	Context   string `json:"context"`
	UpdatedAt string `json:"updated_at"`
	Branches  []struct {
		Name string `json:"name"`
	} `json:"branches"`

	// Push event fields.
	Ref     string         `json:"ref"`
	Commits []pushedCommit `json:"commits"`
}

type githubRepository struct {
	FullName      string `json:"full_name"`
	DefaultBranch string `json:"default_branch"`
}

type githubPullRequest struct {
	Number    int    `json:"number"`
	Title     string `json:"title"`
	Body      string `json:"body"`
	Merged    bool   `json:"merged"`
	ClosedAt  string `json:"closed_at"`
	UpdatedAt string `json:"updated_at"`
	Head      struct {
		Ref        string           `json:"ref"`
		SHA        string           `json:"sha"`
		Repository githubRepository `json:"repo"` // null for a deleted fork
	} `json:"head"`
}

type githubCheck struct {
	Name        string `json:"name"`
	Conclusion  string `json:"conclusion"`
	HeadSHA     string `json:"head_sha"`
	HeadBranch  string `json:"head_branch"`
	CompletedAt string `json:"completed_at"`
	UpdatedAt   string `json:"updated_at"`

	HeadRepository githubRepository `json:"head_repository"` // in a workflow run

	App struct {
		Slug string `json:"slug"`
	} `json:"app"`
	Suite struct {
		HeadBranch string `json:"head_branch"`
	} `json:"check_suite"`
	PullRequests []struct {
		Number int `json:"number"`
	} `json:"pull_requests"`
}

func parseGitHub(h http.Header, body []byte) (events []Event, ignored string, err error) {
	if bytes.HasPrefix(body, []byte("payload=")) { // content type application/x-www-form-urlencoded
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return nil, "", fmt.Errorf("the form cannot be decoded: %w", err)
		}
		body = []byte(form.Get("payload"))
	}
	var p githubPayload
	event := h.Get("X-GitHub-Event")
	isSupported := slices.Contains([]string{"pull_request", "check_run", "check_suite", "workflow_run", "status", "push"}, event)
	if !isSupported { // in other events, fields with these names may have other types
		var object map[string]json.RawMessage
		err = json.Unmarshal(body, &object)
	} else {
		err = json.Unmarshal(body, &p)
	}
	if err != nil {
		return nil, "", fmt.Errorf("the payload is not a GitHub event: %w", err)
	}
	switch {
	case event == "pull_request" && p.Action == "closed":
		return p.closedEvents(), "", nil
	case event == "check_run" && p.Action == "completed":
		p.CheckRun.HeadBranch = p.CheckRun.Suite.HeadBranch
		return p.checkEvents(&p.CheckRun)
	case event == "check_suite" && p.Action == "completed":
		p.CheckSuite.Name = "suite " + p.CheckSuite.App.Slug
		return p.checkEvents(&p.CheckSuite)
	case event == "workflow_run" && p.Action == "completed":
		p.Workflow.Name = "workflow " + p.Workflow.Name
		return p.checkEvents(&p.Workflow)
	case event == "status":
		c := githubCheck{Name: "status " + p.Context, Conclusion: p.State, HeadSHA: p.SHA, UpdatedAt: p.UpdatedAt}
		if len(p.Branches) == 1 {
			c.HeadBranch = p.Branches[0].Name
		}
		return p.checkEvents(&c)
	case event == "push":
		return pushReverts(p.Ref, p.Repository.DefaultBranch, p.Repository.FullName, p.Commits)
	}
	return nil, strings.TrimSpace("the event "+event+" "+p.Action) + " does not show a work outcome", nil
}

// closedEvents returns the event for a closed pull request. If a merged pull request reverts an earlier pull
// request, a second event rates the earlier pull request.
func (p *githubPayload) closedEvents() []Event {
	pr, repository := &p.PullRequest, p.Repository.FullName
	e := Event{Outcome: Closed, Repository: repository, At: parseTime(pr.ClosedAt, pr.UpdatedAt)}
	if pr.Merged {
		e.Outcome = Merged
	}
	from, sha := pr.Head.Repository, pr.Head.SHA
	if from.FullName != repository && !pr.Merged {
		sha = "" // anyone can open and close a pull request for a public commit
	}
	e.RefGroups = nonEmptyGroups(validRefs(pullRequestRef(repository, pr.Number), commitRef(sha, repository), branchRef(pr.Head.Ref, from.DefaultBranch, from.FullName)))
	events := []Event{e}
	if n := revertedPullRequest(pr.Title + "\n" + pr.Body); pr.Merged && n > 0 && n != pr.Number && strings.HasPrefix(pr.Title, "Revert ") {
		events = append(events, Event{Outcome: Reverted, Repository: repository, RefGroups: nonEmptyGroups(validRefs(pullRequestRef(repository, n))), At: e.At})
	}
	return events
}

// checkEvents returns the event for a completed check. The event rates the sessions that worked on the commit. If
// no session did, the event rates the sessions that worked on the pull requests and, last, on the branch.
func (p *githubPayload) checkEvents(c *githubCheck) ([]Event, string, error) {
	e := Event{Repository: p.Repository.FullName, Check: c.Name, At: parseTime(c.CompletedAt, c.UpdatedAt)}
	switch c.Conclusion {
	case "success":
		e.Outcome = CheckPassed
	case "failure", "timed_out", "startup_failure", "error":
		e.Outcome = CheckFailed
	default:
		return nil, "the check neither passed nor failed", nil
	}
	var pullRequests []work.Ref
	for _, pr := range c.PullRequests {
		pullRequests = append(pullRequests, validRefs(pullRequestRef(e.Repository, pr.Number))...)
	}
	branchRepository := e.Repository
	if c.HeadRepository.FullName != "" {
		branchRepository = c.HeadRepository.FullName // the fork may have a branch with the same name as a branch here
	}
	e.RefGroups = nonEmptyGroups(
		validRefs(commitRef(c.HeadSHA, e.Repository)), pullRequests, validRefs(branchRef(c.HeadBranch, p.Repository.DefaultBranch, branchRepository)))
	return []Event{e}, "", nil
}
