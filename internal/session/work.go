package session

import (
	"slices"
	"strings"

	"precept/internal/work"
)

const maxWork = 64

// MaxEchoSessions is how many sessions a store keeps for an echo key. The store keeps the newest sessions. Feedback on
// a commit, a branch or a pull request reaches at most these sessions.
const MaxEchoSessions = 20

// Work is a commit, a branch or a pull request in a tool result. Branch and repository names are stored as hashes,
// because they may hold personal data.
type Work struct {
	Turn       int     `json:"turn"` // turn with the tool results; if the turn opted out, the work is not stored
	Key        EchoKey `json:"key"`
	Commit     string  `json:"commit,omitempty"`     // hash as shown, full or short
	Repository EchoKey `json:"repository,omitempty"` // 0 if unknown
}

func newWork(tenant string, turn int, ref work.Ref) Work {
	w := Work{Turn: turn, Key: TenantEchoKey(tenant, ref.Key())}
	if ref.Kind == work.Commit {
		w.Commit = strings.Clone(ref.Name) // the name may be a slice of a whole tool result
	}
	if ref.Repository != "" {
		w.Repository = TenantEchoKey(tenant, "w:r:"+ref.Repository)
	}
	return w
}

// AddWork adds the references in a turn's tool results, and returns the echo keys of new references.
func (r *Record) AddWork(turn int, refs []work.Ref) (keys []EchoKey) {
	for _, ref := range refs {
		w := newWork(r.Identity.Tenant, turn, ref)
		if slices.ContainsFunc(r.Thread.Work, func(old Work) bool {
			return old.Key == w.Key && strings.HasPrefix(old.Commit, w.Commit) && (old.Repository == w.Repository || w.Repository == 0) && !r.IsHidden(old.Turn)
		}) {
			continue
		}
		r.Thread.Work = append(r.Thread.Work, w)
		r.Thread.Work = r.Thread.Work[max(0, len(r.Thread.Work)-maxWork):]
		r.State.Dirty = true
		keys = append(keys, w.Key)
	}
	return keys
}

// MatchWork reports whether the session has the reference, in a turn that did not opt out. hashes are a commit's
// matching hashes, full or short. A branch stored without a repository matches, unless the session has worked only in
// other repositories.
func (r *Record) MatchWork(ref work.Ref) (hashes []string, ok bool) {
	q := newWork(r.Identity.Tenant, 0, ref)
	inRepository, inOtherRepository := false, false
	for _, w := range r.Thread.Work {
		if slices.Contains(r.OptOut.Turns, w.Turn) {
			continue
		}
		other := q.Repository != 0 && w.Repository != 0 && w.Repository != q.Repository
		inRepository, inOtherRepository = inRepository || w.Repository == q.Repository, inOtherRepository || other
		if w.Key != q.Key || other || !strings.HasPrefix(w.Commit, q.Commit) && !strings.HasPrefix(q.Commit, w.Commit) {
			continue
		}
		ok = ok || w.Repository != 0 || q.Repository == 0 || ref.Kind != work.Branch
		hashes = append(hashes, w.Commit)
	}
	if ok || len(hashes) > 0 && (inRepository || !inOtherRepository) {
		return hashes, true
	}
	return nil, false
}
