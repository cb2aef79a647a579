package store

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"precept/bandit/feedback"
	"precept/internal/session"
	"precept/internal/work"
)

// WorkError means that no session can be found for feedback on a commit, a branch or a pull request.
type WorkError struct {
	Status int    // HTTP status
	Advice string // advice for the client
}

func (e *WorkError) Error() string { return e.Advice }

func errNoWork(kind work.Kind) error {
	return &WorkError{http.StatusNotFound, "the " + string(kind) + " is unknown: no stored session in this tenant has it in a tool result; send session_id or run_id instead"}
}

// parseWork returns the commit, branch or pull request in a post, as one group with one reference, or nil.
func parseWork(p *feedback.Post) ([][]work.Ref, error) {
	var ref work.Ref
	var ok bool
	advice := ""
	switch {
	case p.Commit != "":
		ref, ok = work.CommitRef(p.Commit, "")
		advice = "commit is not a hash of 7 to 64 hex digits; send the hash as git prints it"
	case p.Branch != "":
		ref, ok = work.BranchRef(p.Branch, "")
		advice = "branch is not a branch name; send the name without the remote, such as fix/login"
	case p.PullRequest != "":
		ref, ok = work.ParsePullRequest(p.PullRequest)
		advice = "pull_request is not a pull request address; send the URL, or repository and number such as acme/shop#12"
	default:
		return nil, nil
	}
	if !ok {
		return nil, &WorkError{http.StatusBadRequest, advice}
	}
	return [][]work.Ref{{ref}}, nil
}

// postToWork tries the reference groups in s.Works in order. It adds feedback to at most session.MaxEchoSessions
// sessions, namely those with tool results that contain a reference from the first group found. A run gets the feedback
// once. A retry is safe, because the entry keeps its id.
func (po *poster) postToWork(ctx context.Context, tenant string, s *subject, e feedback.Entry) (posted Posted, err error) {
	var list []session.Member
	for _, refs := range s.Works {
		list, err = po.sessionsWithWork(ctx, tenant, refs)
		if _, unknown := errors.AsType[*WorkError](err); !unknown {
			break
		}
	}
	if err != nil {
		return Posted{}, err
	}
	var limitErr error
	posted.Status, posted.Work = Ignored, &Owners{}
	for _, member := range list {
		p, err := po.join(ctx, tenant, s, member, e)
		if _, ok := LimitAdvice(err); ok {
			limitErr = err
			continue
		}
		if err != nil {
			return Posted{}, err
		}
		if p.Status != Joined {
			continue
		}
		if posted.Status == Ignored {
			posted.Status, posted.Session, posted.Run = Joined, p.Session, p.Run
		}
		if p.Run != "" {
			posted.Work.Runs = append(posted.Work.Runs, p.Run)
		} else {
			posted.Work.Sessions = append(posted.Work.Sessions, p.Session)
		}
	}
	if posted.Status == Ignored && limitErr != nil {
		return Posted{}, limitErr
	}
	return posted, nil
}

// sessionsWithWork returns the sessions with tool results that contain a reference, newest first. A session in a unit
// (a run or a parent session) is replaced by the unit. The error is a *WorkError if no session is found, or if a short
// hash matches several commits.
func (po *poster) sessionsWithWork(ctx context.Context, tenant string, refs []work.Ref) (list []session.Member, err error) {
	for _, ref := range refs {
		ids, err := po.sessionsWithEcho(ctx, tenant, session.TenantEchoKey(tenant, ref.Key()))
		if err != nil {
			return nil, err
		}
		var commits []string
		for _, id := range ids {
			var member session.Member
			mentions := false
			ok, err := po.sessions.withRecord(ctx, tenant, id, func(rec *session.Record) {
				hashes, ok := rec.MatchWork(ref)
				member, mentions = rec.Member(), ok
				commits = append(commits, hashes...)
			})
			if err == nil && ok && mentions && member.Unit != (session.ID{}) {
				if unit, ok, unitErr := po.sessions.member(ctx, tenant, member.Unit); ok || unitErr != nil {
					member, err = unit, unitErr
				}
			}
			if err != nil {
				return nil, err
			}
			if ok && mentions && len(list) < session.MaxEchoSessions && !slices.ContainsFunc(list, func(m session.Member) bool { return m.ID == member.ID }) {
				list = append(list, member)
			}
		}
		if n := countCommits(commits); ref.Kind == work.Commit && n > 1 {
			return nil, &WorkError{http.StatusConflict, fmt.Sprintf("the commit is ambiguous: the hash prefix matches %d commits; send more digits", n)}
		}
	}
	if len(list) == 0 {
		return nil, errNoWork(refs[0].Kind)
	}
	return list, nil
}

// sessionsWithEcho returns the sessions with an echo key. Sessions with undelivered keys come before those in the
// backend. Both groups are newest first.
func (po *poster) sessionsWithEcho(ctx context.Context, tenant string, key session.EchoKey) ([]session.ID, error) {
	return appendStored(ctx, po.changes.findAll(key), po.backend, tenant, key)
}

// countCommits returns the number of different commits. A hash and a prefix of the hash count as one commit.
func countCommits(hashes []string) (count int) {
	for i, h := range hashes {
		isPrefix := func(longer string) bool { return len(longer) > len(h) && strings.HasPrefix(longer, h) }
		if !slices.Contains(hashes[:i], h) && !slices.ContainsFunc(hashes, isPrefix) {
			count++
		}
	}
	return count
}
