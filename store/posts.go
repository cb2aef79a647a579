package store

import (
	"context"
	"errors"
	"time"

	"precept/bandit/feedback"
	"precept/internal/session"
	"precept/internal/work"
)

const (
	postLimit = 5 * time.Second        // maximum time for storing a post
	postAgain = 100 * time.Millisecond // pause before a retry on an unavailable backend
)

// parking is the part of a backend that holds feedback for sessions that are not known yet, and
// finds sessions by echo key or sample id.
type parking interface {
	Park(ctx context.Context, tenant string, key session.EchoKey, e feedback.Entry) error
	FindEcho(ctx context.Context, tenant string, keys []session.EchoKey) (map[session.EchoKey][]session.ID, error)
	SampleSession(ctx context.Context, tenant, sampleID string) (session.ID, bool, error)
}

// Status is the outcome of posting feedback.
type Status string

// The statuses of a posted feedback.
const (
	Joined  Status = "joined"
	Parked  Status = "parked"
	Ignored Status = "ignored" // the session opted out
)

// Posted is the answer to one feedback.
type Posted struct {
	ID      string // id of the entry, set by rate
	Session string // name of the session; "" while parked
	Run     string // name of the run, if a run was rated
	Status  Status
	Work    *Owners // of a commit, a branch or a pull request: all of them; Session or Run is the newest
}

// Owners are the names of the sessions and runs that showed a commit, a branch or a pull request,
// newest first.
type Owners struct {
	Sessions []string `json:"sessions,omitempty"`
	Runs     []string `json:"runs,omitempty"`
}

// NoRoom returns advice for the client if err reports that the session or the parking is full.
func NoRoom(err error) (advice string, ok bool) {
	if _, full := errors.AsType[session.FeedbackFull](err); full {
		return "this session or run has as much feedback as is kept of one (limits.feedback); to correct one of them, post its id again", true
	}
	if errors.Is(err, session.ErrParkingFull) {
		return "too much feedback waits for sessions and replies that have not gone by; post it again when they have", true
	}
	return "", false
}

// poster stores posted feedback.
type poster struct {
	be       parking
	sessions *sessions
	feedback *feedbackWriter
	out      *optouts
	waiting  *waiting
	state    *state
	late     *latePosts
}

// subject identifies the session that a post rates. A late post keeps its subject as JSON.
type subject struct {
	Candidates []session.ID    `json:"candidates,omitempty"` // possible ids of the session, tried first
	Key        session.EchoKey `json:"key,omitempty"`        // finds the session if no candidate is known; unmatched feedback is parked under the key
	Otherwise  []session.ID    `json:"otherwise,omitempty"`  // ids tried after candidates and key
	Sample     string          `json:"sample,omitempty"`     // id of a sample of the session
	// Works are groups of commits, branches and pull requests: the subject is every session that
	// showed a reference of the first known group.
	Works [][]work.Ref `json:"works,omitempty"`
}

// rate stores a post for the session, run, request, response, sample, commit, branch or pull request that
// the post names.
func (f *poster) rate(ctx context.Context, tenant string, p feedback.Post) (Posted, error) {
	of, err := subjectOf(tenant, &p)
	if err != nil {
		return Posted{}, err
	}
	done, err := f.post(ctx, tenant, &of, p.Entry)
	done.ID = p.Entry.ID
	return done, err
}

// subjectOf returns the subject of a post.
func subjectOf(tenant string, p *feedback.Post) (of subject, err error) {
	switch {
	case p.SessionID != "":
		of.Candidates = session.Candidates(tenant, p.SessionID)
		of.Key = session.EchoKeyOf(tenant, "s:"+p.SessionID)
		of.Otherwise = []session.ID{session.RunKey(tenant, p.SessionID)}
		if id, ok := session.ParseID(p.SessionID); ok { // the dashboard posts ids
			of.Otherwise = append(of.Otherwise, id)
		}
	case p.RunID != "":
		of.Candidates = []session.ID{session.RunKey(tenant, p.RunID)}
		of.Key = session.RunEcho(tenant, p.RunID)
	case p.RequestID != "":
		of.Key = session.EchoKeyOf(tenant, "q:"+p.RequestID)
		if id, ok := session.OfRequest(p.RequestID); ok {
			of.Candidates = []session.ID{id}
		}
	case p.ResponseID != "":
		of.Key = session.EchoKeyOf(tenant, "r:"+p.ResponseID)
	case p.SampleID != "":
		of.Sample = p.SampleID
	default:
		of.Works, err = parseWork(p)
	}
	return of, err
}

// post stores feedback in the backend, or in the outbox if the backend does not take it.
func (f *poster) post(ctx context.Context, tenant string, of *subject, e feedback.Entry) (Posted, error) {
	e = f.out.cleanEntry(e)
	if f.late.outbox == nil {
		return f.attempt(ctx, tenant, of, e, postLimit)
	}
	if f.late.now().UnixNano() < f.late.skip.Load() {
		return f.keep(ctx, tenant, of, &e, nil)
	}
	limit := postLimit
	if f.state.down.Load() {
		limit = downLimit
	}
	p, err := f.attempt(ctx, tenant, of, e, limit)
	if err == nil || refusal(err) {
		return p, err
	}
	if ctx.Err() == nil { // else the client left, which says nothing about the backend
		f.late.skip.Store(f.late.now().Add(latePause).UnixNano())
	}
	return f.keep(ctx, tenant, of, &e, err)
}

// attempt stores feedback in the backend. While the backend is unavailable for a moment, attempt
// retries within the limit.
func (f *poster) attempt(ctx context.Context, tenant string, of *subject, e feedback.Entry, limit time.Duration) (Posted, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		p, err := f.postOnce(ctx, tenant, of, e)
		if !errors.Is(err, session.ErrUnavailable) || f.state.down.Load() {
			return p, err
		}
		select {
		case <-ctx.Done():
			return p, err
		case <-time.After(postAgain):
		}
	}
}

func (f *poster) postOnce(ctx context.Context, tenant string, of *subject, e feedback.Entry) (Posted, error) {
	if of.Works != nil {
		return f.postToWork(ctx, tenant, of.Works, e)
	}
	if of.Sample != "" {
		id, ok, err := f.be.SampleSession(ctx, tenant, of.Sample)
		if err == nil && !ok {
			err = ErrNoSession
		}
		if err != nil {
			return Posted{}, err
		}
		of = &subject{Candidates: []session.ID{id}}
	}
	for _, id := range of.Candidates {
		if len(of.Candidates) > 1 && !f.sessions.live.has(id) {
			continue // a backend look-up per candidate would be slow; joinByKey needs one look-up
		}
		member, ok, err := f.sessions.member(ctx, tenant, id)
		if err != nil {
			return Posted{}, err
		}
		if ok {
			return f.join(ctx, tenant, member, e)
		}
	}
	if p, ok, err := f.joinByKey(ctx, tenant, of.Key, e); ok || err != nil {
		return p, err
	}
	for _, id := range of.Otherwise {
		if member, ok, err := f.sessions.member(ctx, tenant, id); ok || err != nil {
			if err != nil {
				return Posted{}, err
			}
			return f.join(ctx, tenant, member, e)
		}
	}
	if err := f.be.Park(ctx, tenant, of.Key, e); err != nil {
		return Posted{}, err
	}
	// The key may have occurred between the look-up and the parking. Without a second look-up the
	// feedback would stay parked.
	p, ok, err := f.joinByKey(ctx, tenant, of.Key, e)
	if err != nil || !ok {
		return Posted{Status: Parked}, err
	}
	return p, nil // The parked copy has the same entry id, so it does not count again.
}

// joinByKey joins feedback to the session of an echo key, if there is one.
func (f *poster) joinByKey(ctx context.Context, tenant string, key session.EchoKey, e feedback.Entry) (Posted, bool, error) {
	var ids []session.ID
	if id, ok := f.waiting.find(key); ok { // Search memory before the backend: a key is removed from memory only after the backend has it.
		ids = []session.ID{id}
	} else {
		found, err := f.be.FindEcho(ctx, tenant, []session.EchoKey{key})
		if err != nil {
			return Posted{}, false, err
		}
		ids = found[key]
	}
	for _, id := range ids {
		member, ok, err := f.sessions.member(ctx, tenant, id)
		if err != nil {
			return Posted{}, false, err
		}
		if ok {
			p, err := f.join(ctx, tenant, member, e)
			return p, true, err
		}
	}
	return Posted{}, false, nil
}

// join adds feedback to a session and to the session's unit.
func (f *poster) join(ctx context.Context, tenant string, of session.Member, e feedback.Entry) (Posted, error) {
	p := Posted{Session: of.Name, Run: of.Run, Status: Joined}
	if f.out.isSilent(ctx, tenant, of.ID) {
		p.Status = Ignored
		return p, nil
	}
	// The session first: feedback that the session refuses must not count for the unit.
	if err := f.feedback.add(ctx, tenant, map[session.ID][]feedback.Entry{of.ID: {e}}); err != nil {
		return Posted{}, err
	}
	if of.Unit == (session.ID{}) {
		return p, nil
	}
	return p, f.feedback.post(ctx, tenant, map[session.ID][]feedback.Entry{of.Unit: {e.OfMember(of.ID.String())}})
}
