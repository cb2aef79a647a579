package hooks

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

type gitlabPayload struct {
	Project      gitlabProject  `json:"project"`
	Ref          string         `json:"ref"`
	Commits      []pushedCommit `json:"commits"`
	MergeRequest struct {
		IID int `json:"iid"`
	} `json:"merge_request"`
	Object struct {
		IID          int             `json:"iid"`
		Action       string          `json:"action"`
		Title        string          `json:"title"`
		Description  string          `json:"description"`
		SourceBranch string          `json:"source_branch"`
		Source       json.RawMessage `json:"source"` // a merge request's source project; a string for a pipeline
		UpdatedAt    string          `json:"updated_at"`
		LastCommit   struct {
			ID string `json:"id"`
		} `json:"last_commit"`

		// Pipeline event fields.
		Ref        string `json:"ref"`
		Tag        bool   `json:"tag"`
		SHA        string `json:"sha"`
		Status     string `json:"status"`
		FinishedAt string `json:"finished_at"`
	} `json:"object_attributes"`
}

type gitlabProject struct {
	Path          string `json:"path_with_namespace"`
	DefaultBranch string `json:"default_branch"`
}

func parseGitLab(_ http.Header, body []byte) (events []Event, ignored string, err error) {
	var p gitlabPayload
	var head struct {
		Kind string `json:"object_kind"`
	}
	err = json.Unmarshal(body, &head)
	if err == nil && slices.Contains([]string{"merge_request", "pipeline", "push"}, head.Kind) {
		err = json.Unmarshal(body, &p)
	}
	if err != nil {
		return nil, "", fmt.Errorf("the payload is not a GitLab event: %w", err)
	}
	switch head.Kind {
	case "merge_request":
		return p.mergeRequestEvents()
	case "pipeline":
		return p.pipelineEvents()
	case "push":
		return pushReverts(p.Ref, p.Project.DefaultBranch, p.Project.Path, p.Commits)
	case "build":
		return nil, "precept rates pipelines, not individual jobs; select pipeline events in the webhook's settings", nil
	}
	return nil, strings.TrimSpace("the event "+head.Kind) + " does not show a work outcome", nil
}

// mergeRequestEvents returns the event for a merge request. If a merged request reverts an earlier request, a second
// event rates the earlier request.
func (p *gitlabPayload) mergeRequestEvents() ([]Event, string, error) {
	o, repository := &p.Object, p.Project.Path
	e := Event{Outcome: Closed, Repository: repository, At: parseTime(o.UpdatedAt)}
	switch o.Action {
	case "merge":
		e.Outcome = Merged
	case "close":
	default:
		return nil, "the merge request was neither merged nor closed", nil
	}
	var from gitlabProject
	_ = json.Unmarshal(o.Source, &from) // no project means no branch
	sha := o.LastCommit.ID
	if from.Path != repository && e.Outcome != Merged {
		sha = "" // anyone can open and close a merge request for a public commit
	}
	e.RefGroups = nonEmptyGroups(validRefs(pullRequestRef(repository, o.IID), commitRef(sha, repository), branchRef(o.SourceBranch, from.DefaultBranch, from.Path)))
	events := []Event{e}
	if n := revertedPullRequest(o.Title + "\n" + o.Description); e.Outcome == Merged && n > 0 && n != o.IID && strings.HasPrefix(o.Title, "Revert ") {
		events = append(events, Event{Outcome: Reverted, Repository: repository, RefGroups: nonEmptyGroups(validRefs(pullRequestRef(repository, n))), At: e.At})
	}
	return events, "", nil
}

func (p *gitlabPayload) pipelineEvents() ([]Event, string, error) {
	o, repository := &p.Object, p.Project.Path
	e := Event{Repository: repository, Check: "pipeline", At: parseTime(o.FinishedAt)}
	switch o.Status {
	case "success":
		e.Outcome = CheckPassed
	case "failed":
		e.Outcome = CheckFailed
	default:
		return nil, "the pipeline neither passed nor failed", nil
	}
	branchName := o.Ref
	if o.Tag {
		branchName = ""
	}
	e.RefGroups = nonEmptyGroups(validRefs(commitRef(o.SHA, repository)), validRefs(pullRequestRef(repository, p.MergeRequest.IID)), validRefs(branchRef(branchName, p.Project.DefaultBranch, repository)))
	return []Event{e}, "", nil
}
