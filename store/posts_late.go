package store

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"precept/bandit/feedback"
	"precept/internal/guard"
	"precept/internal/label"
	"precept/internal/session"
	"precept/store/outbox"
)

const (
	outboxWriteLimit  = 5 * time.Second // longest post write to the outbox
	knownSessionLimit = postRetry       // longest search for a post's session
	downLimit         = time.Second     // longest first attempt on a backend that is down
	latePause         = time.Second     // pause after a backend failure
	lateLimit         = time.Second     // longest round for late posts
	lateBytes         = 1 << 20         // late post bytes read per round
	onePostBytes      = 1               // byte limit with which outbox.Posts returns one post
)

// latePosts holds posts that the backend failed to store. They wait in the outbox until the deliverer's goroutine
// delivers them, so that a restart loses none.
type latePosts struct {
	outbox     *outbox.Outbox // nil means no outbox; a client then gets the backend's error
	now        func() time.Time
	tombstones *tombstones

	skipBackendUntil atomic.Int64 // Unix nanoseconds; until then, posts go straight to the outbox

	mu      sync.Mutex // a leaf lock; guards queue and writing
	queue   []*queuedPost
	writing bool // a goroutine runs writeQueue; no other one starts, even if the disk hangs
	writes  sync.WaitGroup

	// Only the deliverer's goroutine uses the fields below.
	nextDelivery   time.Time
	lastTried      int64     // last tried post's number
	oldestReceived time.Time // when precept received the oldest waiting post; zero if unknown, or if no post waits
}

// LateMetrics counts late posts that were dropped, by reason.
type LateMetrics struct {
	Unknown atomic.Int64 // no session was found
	Full    atomic.Int64 // the session, or the tenant's parked feedback, was full
	Bad     atomic.Int64 // the post is invalid, delivery panicked, or the data directory is not writable
	Expired atomic.Int64 // the post waited too long
}

type latePost struct {
	Subject subject        `json:"subject"`
	Entry   feedback.Entry `json:"entry"`
}

func isPermanent(err error) bool {
	_, isFull := LimitAdvice(err)
	_, isWorkError := errors.AsType[*WorkError](err)
	return isFull || isWorkError || guard.IsPermanent(err) || errors.Is(err, ErrNoSession) || errors.Is(err, ErrNullBackend)
}

// saveToOutbox writes a post to the outbox. cause is the backend's error; nil means the backend was not tried, because
// it failed less than latePause ago.
func (po *poster) saveToOutbox(ctx context.Context, tenant string, s *subject, e *feedback.Entry, cause error) (Posted, error) {
	withSession := *s
	withSession.Fallbacks = slices.Concat(s.Fallbacks, po.knownSession(ctx, tenant, s, cause))
	if po.hasOptedOut(ctx, tenant, &withSession) {
		return Posted{Status: Ignored}, nil
	}
	document, err := json.Marshal(latePost{withSession, *e})
	if err != nil {
		return Posted{}, errors.Join(cause, err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), outboxWriteLimit)
	defer cancel()
	p := &queuedPost{post: outbox.Post{Tenant: tenant, At: po.late.now(), Document: document}, written: make(chan error, 1)}
	po.enqueue(p)
	select {
	case err = <-p.written:
	case <-ctx.Done():
		po.late.dequeue(p)
		err = ctx.Err()
	}
	if err != nil {
		return Posted{}, errors.Join(cause, err)
	}
	return Posted{Status: Parked, Delayed: true}, nil
}

// keepDirect keeps a post that the backend has accepted. If the backend loses the post, it is delivered again through
// the outbox, after the rows, because the backend might have lost the session as well.
func (po *poster) keepDirect(tenant string, s *subject, e *feedback.Entry) {
	if po.direct == nil {
		return
	}
	if document, err := json.Marshal(latePost{*s, *e}); err == nil { // encoding a plain struct never fails
		po.keepDocument(tenant, document)
	}
}

func (po *poster) keepDocument(tenant string, document []byte) {
	po.direct.add(tenant, len(document), func(context.Context) {
		po.enqueue(&queuedPost{post: outbox.Post{Tenant: tenant, At: po.late.now(), Document: document}, written: make(chan error, 1)})
	})
}

type queuedPost struct {
	post    outbox.Post
	written chan error
}

func (po *poster) enqueue(p *queuedPost) {
	l := po.late
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, p)
	if !l.writing {
		l.writing = true
		l.writes.Go(po.writeQueue)
	}
}

// dequeue removes a post when the request no longer waits, unless the write has begun.
func (l *latePosts) dequeue(p *queuedPost) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = slices.DeleteFunc(l.queue, func(q *queuedPost) bool { return q == p })
}

// writeQueue writes queued posts until the queue is empty. The posts share a write, because each write waits for the
// disk. If the shared write fails, the posts are written one by one.
func (po *poster) writeQueue() {
	l := po.late
	for {
		l.mu.Lock()
		list := l.queue
		l.queue = nil
		l.writing = len(list) > 0
		l.mu.Unlock()
		if len(list) == 0 {
			return
		}
		err := po.write(list)
		for i := range list {
			result := err
			if err != nil && len(list) > 1 {
				result = po.write(list[i : i+1])
			}
			list[i].written <- result
		}
	}
}

func (po *poster) write(list []*queuedPost) error {
	posts := make([]outbox.Post, len(list))
	for i := range list {
		posts[i] = list[i].post
	}
	return po.feedback.guard.RunErr(label.StepFeedback, func() error { return po.late.outbox.AddPosts(posts) })
}

// knownSession returns the session with the reply, request or sample that a post names, if known now. The outbox stores
// the session id with the post, so deleting the session also deletes the post.
func (po *poster) knownSession(ctx context.Context, tenant string, s *subject, cause error) []session.ID {
	if id, ok := po.changes.find(s.Key); ok {
		return []session.ID{id}
	}
	if cause == nil && po.state.backendDown.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), knownSessionLimit)
	defer cancel()
	ids, err := po.ratedSession(ctx, tenant, s) // a backend that fails to write can still answer reads
	if err != nil {
		return nil
	}
	return ids
}

func (po *poster) hasOptedOut(ctx context.Context, tenant string, s *subject) bool {
	return slices.ContainsFunc(slices.Concat(s.Candidates, s.Fallbacks), func(id session.ID) bool { return po.optOuts.allTurnsOptedOut(ctx, tenant, id) })
}

// deliverLate delivers late posts in the order received, within lateLimit, if the backend accepts writes. ready means
// that the backend has all outbox rows; before that, feedback on a commit could miss a session. The caller is the
// deliverer's goroutine.
func (po *poster) deliverLate(ctx context.Context, now time.Time, ready bool) {
	l := po.late
	if l.outbox == nil || l.outbox.PostCount() == 0 {
		l.oldestReceived = time.Time{}
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lateLimit)
	defer cancel()
	err := po.feedback.guard.RunErr(label.StepFeedback, func() error {
		if l.oldestReceived.IsZero() {
			first, err := l.outbox.Posts(0, onePostBytes)
			if err != nil || len(first) == 0 {
				return err
			}
			l.oldestReceived = first[0].At
		}
		if !ready || now.Before(l.nextDelivery) {
			return nil
		}
		return po.deliverRound(ctx)
	})
	if err != nil {
		l.nextDelivery = now.Add(latePause)
		po.feedback.onFailure(label.StepFeedback, err)
	}
}

// deliverRound delivers late posts, up to lateBytes. Posts that are stored, or can never be stored, leave the outbox.
// After a temporary failure, the next round begins with the next post, so that no post blocks the rest.
func (po *poster) deliverRound(ctx context.Context) error {
	l := po.late
	list, err := l.outbox.Posts(l.lastTried, lateBytes)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		l.lastTried, l.oldestReceived = 0, time.Time{}
		return nil
	}
	l.skipBackendUntil.Store(0)
	var done []int64
	for i := range list {
		err = po.deliverPost(ctx, &list[i])
		if ctx.Err() != nil && len(done) > 0 { // the round has used up its time
			err = nil
			break
		}
		l.lastTried = list[i].Number
		if err != nil && !isPermanent(err) {
			l.skipBackendUntil.Store(l.now().Add(latePause).UnixNano())
			break
		}
		po.countLate(err)
		if err == nil {
			po.keepDocument(list[i].Tenant, list[i].Document)
		}
		done, err = append(done, l.lastTried), nil
	}
	err = errors.Join(err, l.outbox.DropPosts(done))
	if l.outbox.PostCount() == 0 {
		l.lastTried, l.oldestReceived = 0, time.Time{}
	}
	return err
}

func (po *poster) deliverPost(ctx context.Context, p *outbox.Post) error {
	return po.feedback.guard.RunErr(label.StepFeedback, func() error {
		var late latePost
		if err := json.Unmarshal(p.Document, &late); err != nil {
			return errors.Join(session.ErrInvalid, err)
		}
		for _, id := range slices.Concat([]session.ID{{}}, late.Subject.Candidates, late.Subject.Fallbacks) {
			if po.late.tombstones.covers(p.Tenant, id.String(), late.Entry.At) {
				return nil
			}
		}
		_, err := po.postOnce(ctx, p.Tenant, &late.Subject, late.Entry)
		return err
	})
}

func (po *poster) countLate(err error) {
	t := &po.feedback.metrics.Late
	_, isFull := LimitAdvice(err)
	switch {
	case err == nil:
	case isFull:
		t.Full.Add(1)
	case guard.IsPermanent(err), errors.Is(err, ErrNullBackend):
		t.Bad.Add(1)
		po.feedback.onFailure(label.StepFeedback, err)
	default:
		t.Unknown.Add(1)
	}
}

// latePostNumbers returns the numbers of a tenant's late posts about matching sessions, or about all sessions if all is
// true. A post names the session directly, or through a reply, a request or a sample. Only posts numbered above after
// are read; last is the highest number.
//
// The caller is the deliverer's goroutine, without handoff.mu, because latePostNumbers calls the backend.
func (po *poster) latePostNumbers(ctx context.Context, after int64, tenant string, all bool, match func(session.ID) bool) (numbers []int64, last int64, err error) {
	box := po.late.outbox
	if box == nil || box.PostCount() == 0 {
		return nil, after, nil
	}
	for {
		list, err := box.Posts(after, lateBytes)
		if err != nil || len(list) == 0 {
			return numbers, after, err
		}
		for i := range list {
			after = list[i].Number
			var late latePost
			if list[i].Tenant != tenant || json.Unmarshal(list[i].Document, &late) != nil {
				continue
			}
			if all {
				numbers = append(numbers, after)
				continue
			}
			ids, err := po.ratedSession(ctx, tenant, &late.Subject)
			if err != nil {
				return numbers, after, err
			}
			ids = slices.Concat(late.Subject.Candidates, late.Subject.Fallbacks, ids)
			if slices.ContainsFunc(ids, match) {
				numbers = append(numbers, after)
			}
		}
	}
}

// ratedSession returns a list with the session that has the subject's reply, request or sample. The list is empty if
// the session is unknown, or if the subject is a commit.
func (po *poster) ratedSession(ctx context.Context, tenant string, s *subject) ([]session.ID, error) {
	if s.Sample != "" {
		id, ok, err := po.backend.SampleSession(ctx, tenant, s.Sample)
		if err != nil || !ok {
			return nil, err
		}
		return []session.ID{id}, nil
	}
	if s.Key == 0 {
		return nil, nil
	}
	if id, ok := po.changes.find(s.Key); ok {
		return []session.ID{id}, nil
	}
	found, err := po.backend.FindEcho(ctx, tenant, []session.EchoKey{s.Key})
	ids := found[s.Key]
	return ids[:min(len(ids), 1)], err // only the newest session
}
