package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"precept/bandit/feedback"
	"precept/internal/session"
	"precept/internal/work"
)

const (
	postLimit = 5 * time.Second        // longest time to store a post in the backend
	postRetry = 100 * time.Millisecond // pause while the backend is unavailable
)

// parkingStore is the part of a backend that holds parked feedback. Such feedback waits under an echo key (a hash of an
// id or text) until a session with the key is known.
type parkingStore interface {
	Park(ctx context.Context, tenant string, key session.EchoKey, e feedback.Entry) error
	ParkedEntry(ctx context.Context, tenant string, key session.EchoKey, id string) (feedback.Entry, bool, error)
	FindEcho(ctx context.Context, tenant string, keys []session.EchoKey) (map[session.EchoKey][]session.ID, error)
	SampleSession(ctx context.Context, tenant, sampleID string) (session.ID, bool, error)
}

// Status is the result status for posted feedback.
type Status string

// The statuses for posted feedback.
const (
	Joined  Status = "joined"  // stored on a session
	Parked  Status = "parked"  // the session is unknown, or the feedback waits in the outbox
	Ignored Status = "ignored" // the session opted out

	// Unanswered means that the feedback is not stored, because the post sets IfAnswered, but the session or run has no
	// successful reply.
	Unanswered Status = "unanswered"
)

// Posted is the result for one posted feedback entry.
type Posted struct {
	ID      string // entry id; only Rate sets it
	Session string // name; "" while parked
	Run     string // name, if a run was rated
	Status  Status
	Delayed bool    // Parked only: the backend did not answer, so nobody looked for the session
	Work    *Owners // if a commit, branch or pull request was rated: all its sessions and runs; Session or Run is the newest
}

// Owners names the sessions and runs with tool results that contain a commit, a branch or a pull request, newest first.
type Owners struct {
	Sessions []string `json:"sessions,omitempty"`
	Runs     []string `json:"runs,omitempty"`
}

// LimitAdvice returns advice for the client if err reports that the session, or the tenant's parked feedback, has
// reached the entry limit.
func LimitAdvice(err error) (advice string, ok bool) {
	if _, full := errors.AsType[session.FeedbackFull](err); full {
		return "the session or run already has as many feedback entries as limits.feedback allows; to correct an entry, post it again with the same id", true
	}
	if errors.Is(err, session.ErrParkingFull) {
		return "too much feedback is waiting for sessions and replies that precept has not stored yet; post the feedback again after the reply", true
	}
	return "", false
}

type poster struct {
	backend  parkingStore
	sessions *sessions
	feedback *feedbackWriter
	optOuts  *optOutFilter
	changes  *changeQueue
	state    *state
	undoer   *undoer
	late     *latePosts
	direct   *directWrites
}

// subject identifies the session that a post rates. The outbox stores a late post's subject as JSON.
type subject struct {
	Candidates []session.ID    `json:"candidates,omitempty"` // possible session ids, tried first
	Key        session.EchoKey `json:"key,omitempty"`        // finds the session if no candidate is known; unmatched feedback is parked under the key
	Fallbacks  []session.ID    `json:"otherwise,omitempty"`  // possible session ids, tried after Candidates and Key
	Sample     string          `json:"sample,omitempty"`     // id of a sample in the session
	// Works are groups of references to commits, branches and pull requests, tried in order. The subject is every
	// session with a tool result that contains a reference from the first group found in any session.
	Works [][]work.Ref `json:"works,omitempty"`
	// HasClientID means that the sender chose the entry id. If the post repeats a stored entry, the entry keeps the
	// stored time.
	HasClientID bool `json:"keyed,omitempty"`

	finishedErasures uint64 // number of erasures finished before the session's look-up
}

func (po *poster) rate(ctx context.Context, tenant string, p feedback.Post) (Posted, error) {
	subj, err := postSubject(tenant, &p)
	if err != nil {
		return Posted{}, err
	}
	if p.IfAnswered {
		if posted, unanswered := po.unansweredStatus(ctx, tenant, &subj); unanswered {
			posted.ID = p.Entry.ID
			return posted, nil
		}
	}
	posted, err := po.post(ctx, tenant, &subj, p.Entry)
	posted.ID = p.Entry.ID
	return posted, err
}

// unansweredStatus returns the status Unanswered if the subject is known and has no successful reply. Otherwise, or if
// the backend does not answer, ok is false.
func (po *poster) unansweredStatus(ctx context.Context, tenant string, s *subject) (posted Posted, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, postLimit)
	defer cancel()
	ids := slices.Concat(s.Candidates, s.Fallbacks)
	if id, found := po.changes.find(s.Key); found {
		ids = append(ids, id)
	} else if found, err := po.backend.FindEcho(ctx, tenant, []session.EchoKey{s.Key}); err == nil {
		ids = append(ids, found[s.Key]...)
	}
	for _, id := range ids {
		if member, known, err := po.sessions.member(ctx, tenant, id); known && err == nil {
			return Posted{Session: member.Name, Run: member.Run, Status: Unanswered}, !member.Answered
		}
	}
	return Posted{}, false
}

// An echo key's text begins with s: for a session name, q: for a request id, or r: for a response id.
func postSubject(tenant string, p *feedback.Post) (s subject, err error) {
	s.HasClientID = p.HasSenderID
	switch {
	case p.SessionID != "":
		s.Candidates = session.IDsByName(tenant, p.SessionID)
		s.Key = session.TenantEchoKey(tenant, "s:"+p.SessionID)
		s.Fallbacks = []session.ID{session.RunID(tenant, p.SessionID)}
		if id, ok := session.ParseID(p.SessionID); ok { // the dashboard posts ids
			s.Fallbacks = append(s.Fallbacks, id)
		}
	case p.RunID != "":
		s.Candidates = []session.ID{session.RunID(tenant, p.RunID)}
		s.Key = session.RunEchoKey(tenant, p.RunID)
	case p.RequestID != "":
		s.Key = session.TenantEchoKey(tenant, "q:"+p.RequestID)
		if id, ok := session.ParseRequestID(p.RequestID); ok {
			s.Candidates = []session.ID{id}
		}
	case p.ResponseID != "":
		s.Key = session.TenantEchoKey(tenant, "r:"+p.ResponseID)
	case p.SampleID != "":
		s.Sample = p.SampleID
	default:
		s.Works, err = parseWork(p)
	}
	return s, err
}

// post stores feedback in the backend or, if the backend does not answer, in the outbox.
func (po *poster) post(ctx context.Context, tenant string, s *subject, e feedback.Entry) (Posted, error) {
	e = po.optOuts.redactEntry(e)
	if po.late.outbox == nil {
		return po.postWithRetry(ctx, tenant, s, e, postLimit)
	}
	if po.late.now().UnixNano() < po.late.skipBackendUntil.Load() {
		return po.saveToOutbox(ctx, tenant, s, &e, nil)
	}
	limit := postLimit
	if po.state.backendDown.Load() {
		limit = downLimit
	}
	p, err := po.postWithRetry(ctx, tenant, s, e, limit)
	if err == nil && p.Status != Ignored {
		po.keepDirect(tenant, s, &e)
	}
	if err == nil || isPermanent(err) {
		return p, err
	}
	if ctx.Err() == nil { // otherwise the client is gone
		po.late.skipBackendUntil.Store(po.late.now().Add(latePause).UnixNano())
	}
	return po.saveToOutbox(ctx, tenant, s, &e, err)
}

// postWithRetry stores feedback in the backend. It retries until limit has passed or the backend is considered down.
func (po *poster) postWithRetry(ctx context.Context, tenant string, s *subject, e feedback.Entry, limit time.Duration) (Posted, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		p, err := po.postOnce(ctx, tenant, s, e)
		if !errors.Is(err, session.ErrUnavailable) || po.state.backendDown.Load() {
			return p, err
		}
		select {
		case <-ctx.Done():
			return p, err
		case <-time.After(postRetry):
		}
	}
}

// postOnce adds feedback to the subject's session, or parks the feedback.
func (po *poster) postOnce(ctx context.Context, tenant string, s *subject, e feedback.Entry) (Posted, error) {
	attempt := *s
	attempt.finishedErasures = po.undoer.tombstones.finishedErasures()
	s = &attempt
	if s.Works != nil {
		return po.postToWork(ctx, tenant, s, e)
	}
	if s.Sample != "" {
		id, ok, err := po.backend.SampleSession(ctx, tenant, s.Sample)
		if err == nil && !ok {
			err = ErrNoSession
		}
		if err != nil {
			return Posted{}, err
		}
		s = &subject{Candidates: []session.ID{id}, HasClientID: s.HasClientID, finishedErasures: s.finishedErasures}
	}
	// Parked feedback is read before the session. An entry that moves to the session between the two reads is then
	// found there.
	e, err := po.parkedOriginal(ctx, tenant, s, e)
	if err != nil {
		return Posted{}, err
	}
	for _, id := range s.Candidates {
		if len(s.Candidates) > 1 && !po.sessions.live.has(id) {
			continue // joinByKey needs one look-up for all candidates
		}
		member, ok, err := po.sessions.member(ctx, tenant, id)
		if err != nil {
			return Posted{}, err
		}
		if ok {
			return po.join(ctx, tenant, s, member, e)
		}
	}
	if p, ok, err := po.joinByKey(ctx, tenant, s, e); ok || err != nil {
		return p, err
	}
	for _, id := range s.Fallbacks {
		if member, ok, err := po.sessions.member(ctx, tenant, id); ok || err != nil {
			if err != nil {
				return Posted{}, err
			}
			return po.join(ctx, tenant, s, member, e)
		}
	}
	if err := po.backend.Park(ctx, tenant, s.Key, e); err != nil {
		return Posted{}, err
	}
	// A session with the key might have begun between look-up and parking, and the feedback would stay parked.
	p, ok, err := po.joinByKey(ctx, tenant, s, e)
	if err != nil || !ok {
		return Posted{Status: Parked}, err
	}
	return p, nil // the parked copy is harmless, because entries with the same id count once
}

func (po *poster) joinByKey(ctx context.Context, tenant string, s *subject, e feedback.Entry) (Posted, bool, error) {
	var ids []session.ID
	if id, ok := po.changes.find(s.Key); ok { // a key leaves memory only after the backend has the key
		ids = []session.ID{id}
	} else {
		found, err := po.backend.FindEcho(ctx, tenant, []session.EchoKey{s.Key})
		if err != nil {
			return Posted{}, false, err
		}
		ids = found[s.Key]
	}
	for _, id := range ids {
		member, ok, err := po.sessions.member(ctx, tenant, id)
		if err != nil {
			return Posted{}, false, err
		}
		if ok {
			p, err := po.join(ctx, tenant, s, member, e)
			return p, true, err
		}
	}
	return Posted{}, false, nil
}

// join adds feedback to a session and to the session's run or parent session. For an opted-out session the status is
// Ignored. If the session is deleted in the meantime, the error is ErrNoSession.
func (po *poster) join(ctx context.Context, tenant string, s *subject, member session.Member, e feedback.Entry) (Posted, error) {
	p := Posted{Session: member.Name, Run: member.Run, Status: Joined}
	if po.optOuts.allTurnsOptedOut(ctx, tenant, member.ID) {
		p.Status = Ignored
		return p, nil
	}
	if s.HasClientID {
		stored, ok, err := po.feedback.backend.FeedbackEntry(ctx, tenant, member.ID, e.ID)
		if err != nil {
			return Posted{}, err
		}
		e = originalEntry(e, stored, ok)
	}
	// The session is written first, so that refused feedback does not count for the run or parent session.
	err := po.feedback.add(ctx, tenant, map[session.ID][]feedback.Entry{member.ID: {e}})
	if po.undoer.undo(ctx, s.finishedErasures, tenant, member.ID) {
		return Posted{}, ErrNoSession
	}
	if err != nil {
		return Posted{}, err
	}
	if member.Unit == (session.ID{}) {
		return p, nil
	}
	err = po.feedback.addAndCount(ctx, tenant, map[session.ID][]feedback.Entry{member.Unit: {e.CopyForUnit(member.ID.String())}})
	po.undoer.undo(ctx, s.finishedErasures, tenant, member.Unit)
	return p, err
}

// parkedOriginal returns the parked entry if e repeats it, or else e.
func (po *poster) parkedOriginal(ctx context.Context, tenant string, s *subject, e feedback.Entry) (feedback.Entry, error) {
	if !s.HasClientID || s.Key == 0 {
		return e, nil
	}
	parked, ok, err := po.backend.ParkedEntry(ctx, tenant, s.Key, e.ID)
	return originalEntry(e, parked, ok), err
}

// originalEntry returns the stored entry if e repeats it, or else e. A repeated post keeps the time of the first post,
// and does not replace the rater's later feedback.
func originalEntry(e, stored feedback.Entry, ok bool) feedback.Entry {
	if ok && e.Repeats(&stored) {
		return stored
	}
	return e
}
