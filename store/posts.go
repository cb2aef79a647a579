package store

import (
	"context"
	"errors"
	"time"

	"precept/bandit/feedback"
	"precept/internal/session"
)

// postLimit bounds one feedback's way into the backend, postAgain is how soon one that is away is
// asked again.
const (
	postLimit = 5 * time.Second
	postAgain = 100 * time.Millisecond
)

// parking is where a backend keeps feedback until what it speaks of lands, and finds what it names.
type parking interface {
	Park(ctx context.Context, tenant string, key session.EchoKey, e feedback.Entry) error
	FindEcho(ctx context.Context, tenant string, keys []session.EchoKey) (map[session.EchoKey][]session.ID, error)
	SampleSession(ctx context.Context, tenant, sampleID string) (session.ID, bool, error)
}

// poster takes in what people and programs post of sessions.
type poster struct {
	be       parking
	sessions *sessions
	feedback *feedbackWriter
	out      *optouts
	waiting  *waiting
	state    *state
}

// Status says what became of a feedback.
type Status string

// The statuses of DESIGN 11.
const (
	Joined  Status = "joined"
	Parked  Status = "parked"
	Ignored Status = "ignored" // nothing of what it speaks of may be kept
)

// Posted is the answer to one feedback.
type Posted struct {
	ID      string // the entry's, from Rate
	Session string // the session's name; "" while parked
	Run     string // the same of the run, where it is one that was rated
	Status  Status
}

// Rate takes a received post in, for whatever it names. Without the sample that it names the answer
// is ErrNoSession.
func (f *poster) Rate(ctx context.Context, tenant string, p feedback.Post) (Posted, error) {
	var ids, otherwise []session.ID
	var key session.EchoKey
	switch {
	case p.SessionID != "":
		ids = session.Candidates(tenant, p.SessionID)
		key = session.EchoKeyOf(tenant, "s:"+p.SessionID)
		otherwise = []session.ID{session.RunKey(tenant, p.SessionID)}
		if id, ok := session.ParseID(p.SessionID); ok { // the dashboard names it so
			otherwise = append(otherwise, id)
		}
	case p.RunID != "":
		ids = []session.ID{session.RunKey(tenant, p.RunID)}
		key = session.RunEcho(tenant, p.RunID)
	case p.RequestID != "":
		key = session.EchoKeyOf(tenant, "q:"+p.RequestID)
		if id, ok := session.OfRequest(p.RequestID); ok {
			ids = []session.ID{id}
		}
	case p.ResponseID != "":
		key = session.EchoKeyOf(tenant, "r:"+p.ResponseID)
	default:
		id, ok, err := f.ofSample(ctx, tenant, p.SampleID)
		if err == nil && !ok {
			err = ErrNoSession
		}
		if err != nil {
			return Posted{}, err
		}
		ids = []session.ID{id}
	}
	done, err := f.Post(ctx, tenant, ids, key, p.Entry, otherwise...)
	done.ID = p.ID
	return done, err
}

// Post takes one feedback in: joined to its session, or parked until what it speaks of lands. It is
// durable in the backend when Post returns without an error. park is the echo key of what the post
// names; otherwise is tried when nobody has that.
func (f *poster) Post(ctx context.Context, tenant string, candidates []session.ID, park session.EchoKey, e feedback.Entry, otherwise ...session.ID) (Posted, error) {
	ctx, cancel := context.WithTimeout(ctx, postLimit)
	defer cancel()
	e = f.out.cleanEntry(e)
	for {
		p, err := f.post(ctx, tenant, candidates, park, e, otherwise)
		if !errors.Is(err, session.ErrUnavailable) || f.state.down.Load() {
			return p, err
		}
		// It may be away for a moment only; whoever rates a session can wait for that.
		select {
		case <-ctx.Done():
			return p, err
		case <-time.After(postAgain):
		}
	}
}

func (f *poster) post(ctx context.Context, tenant string, candidates []session.ID, park session.EchoKey, e feedback.Entry, otherwise []session.ID) (Posted, error) {
	for _, id := range candidates {
		if len(candidates) > 1 && !f.sessions.live.has(id) {
			continue // one of many things that a name may mean: past memory, the key below knows
		}
		of, ok, err := f.sessions.Known(ctx, tenant, id)
		if err != nil {
			return Posted{}, err
		}
		if ok {
			return f.join(ctx, tenant, of, e)
		}
	}
	if p, ok, err := f.joinByKey(ctx, tenant, park, e); ok || err != nil {
		return p, err
	}
	for _, id := range otherwise {
		if of, ok, err := f.sessions.Known(ctx, tenant, id); ok || err != nil {
			if err != nil {
				return Posted{}, err
			}
			return f.join(ctx, tenant, of, e)
		}
	}
	if err := f.be.Park(ctx, tenant, park, e); err != nil {
		return Posted{}, err
	}
	// What it waits for may have landed between the look and the parking; nobody would look again.
	p, ok, err := f.joinByKey(ctx, tenant, park, e)
	if err != nil || !ok {
		return Posted{Status: Parked}, err
	}
	return p, nil // it waits there still; joined twice it counts once
}

// joinByKey joins a feedback to the session in which the key went by, if one is known.
func (f *poster) joinByKey(ctx context.Context, tenant string, key session.EchoKey, e feedback.Entry) (Posted, bool, error) {
	var ids []session.ID
	if id, ok := f.waiting.find(key); ok { // before the backend is asked: what is no longer here is there
		ids = []session.ID{id}
	} else {
		found, err := f.be.FindEcho(ctx, tenant, []session.EchoKey{key})
		if err != nil {
			return Posted{}, false, err
		}
		ids = found[key]
	}
	for _, id := range ids {
		of, ok, err := f.sessions.Known(ctx, tenant, id)
		if err != nil {
			return Posted{}, false, err
		}
		if ok {
			p, err := f.join(ctx, tenant, of, e)
			return p, true, err
		}
	}
	return Posted{}, false, nil
}

// join adds a feedback to a session, and lets its reward be looked at again.
func (f *poster) join(ctx context.Context, tenant string, of session.Member, e feedback.Entry) (Posted, error) {
	p := Posted{Session: of.Name, Run: of.Run, Status: Joined}
	if f.out.unheard(ctx, tenant, of.ID) {
		p.Status = Ignored
		return p, nil
	}
	// One after the other: what is refused here must not count for the unit.
	if err := f.feedback.tell(ctx, tenant, map[session.ID][]feedback.Entry{of.ID: {e}}); err != nil {
		return Posted{}, err
	}
	if of.Unit == (session.ID{}) {
		return p, nil
	}
	return p, f.feedback.Tell(ctx, tenant, map[session.ID][]feedback.Entry{of.Unit: {e.OfMember(of.ID.String())}})
}

// NoRoom says what a poster can do about feedback for which there was no room.
func NoRoom(err error) (advice string, ok bool) {
	if _, full := errors.AsType[session.FeedbackFull](err); full {
		return "this session or run has as much feedback as is kept of one (limits.feedback); to correct one of them, post its id again", true
	}
	if errors.Is(err, session.ErrParkingFull) {
		return "too much feedback waits for sessions and replies that have not gone by; post it again when they have", true
	}
	return "", false
}

// ofSample finds the session of a sample.
func (f *poster) ofSample(ctx context.Context, tenant, sampleID string) (session.ID, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, postLimit)
	defer cancel()
	return f.be.SampleSession(ctx, tenant, sampleID)
}
