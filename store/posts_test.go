package store

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"precept/bandit/feedback"
	"precept/detect"
	"precept/internal/session"
)

const replyKey session.EchoKey = 0xabcdef

// note says that the key went by in the session.
func (r *rig) note(key session.EchoKey, id session.ID) {
	r.Note(session.Echo{Tenant: us, Key: key, ID: id, At: r.clk.now()})
}

// post posts by a key alone, as feedback on a reply's id does.
func (r *rig) post(tenant string, key session.EchoKey, e feedback.Entry) Posted {
	r.t.Helper()
	got, err := r.Post(r.ctx(), tenant, nil, key, e)
	if err != nil {
		r.t.Fatal(err)
	}
	return got
}

// reward closes everything and returns the session's reward.
func (r *rig) reward(id session.ID) float64 {
	r.t.Helper()
	r.age()
	a := r.applied(id)
	if !a.Told {
		return -1
	}
	return a.Reward
}

func TestEarlyFeedbackIsParked(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	same(t, "status", r.post(us, replyKey, score("a", 1, .7)), Posted{Status: Parked})
	same(t, "status of a repetition", r.post(us, replyKey, score("a", 1, .7)), Posted{Status: Parked})
	id := r.begin(us, "s", picked(true))
	r.note(replyKey, id)
	r.record()
	same(t, "reward", r.reward(id), .7)
	same(t, "told", r.counter("", "told"), 1)
}

// Who floods a session is told, and nothing is read again for that.
func TestAFullSetIsNotLookedAtAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.begin(us, "s", picked(true))
	r.note(replyKey, id)
	r.record()
	list := make([]feedback.Entry, session.MostFeedback+2)
	for i := range list {
		list[i] = score(fmt.Sprint(i), 1, .7)
	}
	same(t, "nobody waits for an answer", r.Tell(r.ctx(), us, map[session.ID][]feedback.Entry{id: list}), nil)
	same(t, "touched by news", len(r.Touched()), 1)
	same(t, "left out", r.Tally.FeedbackLeft.Load(), 2)
	if _, err := r.Post(r.ctx(), us, nil, replyKey, score("more", 1, .7)); !errors.Is(err, session.FeedbackFull(1)) {
		t.Errorf("a full set: %v", err)
	}
	same(t, "touched by what changed nothing", len(r.Touched()), 0)
}

// What went by is found at every moment of its way: held until its exchange is judged, waiting, in
// the spool alone, in the backend.
func TestFeedbackFindsAKeyOnItsWay(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.begin(us, "s", picked(true))
	joined := Posted{Session: "s", Status: Joined}
	r.Hold("req", session.Echo{Tenant: us, Key: replyKey, ID: id, At: r.clk.now()})
	same(t, "held", r.post(us, replyKey, score("a", 1, .7)), joined)
	r.LetGo("req", true)
	same(t, "waiting", r.post(us, replyKey, score("a", 2, .7)), joined)
	for range 3 {
		r.recorder.record(r.clk.now(), false)
		same(t, "in the spool", r.post(us, replyKey, score("a", 3, .7)), joined)
	}
	r.record()
	same(t, "in the backend", r.post(us, replyKey, score("a", 4, .7)), joined)
	r.recorder.record(r.clk.now(), false)
	same(t, "keys on their way", r.moving.n+len(r.moving.flushes), 0)
}

// Its exchange may land after a restart, in a store that is given work by other feedback meanwhile.
func TestParkedFeedbackSurvivesARestart(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for i := range 5 {
		r.post(us, replyKey+session.EchoKey(i), score("a", 1, float64(i)/10))
	}
	r = r.again(nil)
	for i := range 5 { // each in a batch of its own
		id := r.begin(us, fmt.Sprint("s", i), picked(true))
		r.note(replyKey+session.EchoKey(i), id)
		r.record()
	}
	r.age()
	for i := range 5 {
		a := r.applied(session.KeyOf(us, session.SpaceName, fmt.Sprint("s", i)))
		if !a.Told || a.Reward != float64(i)/10 {
			t.Errorf("feedback %d did not join: %+v", i, a)
		}
	}
}

// What another replica has parked joins here, too.
func TestParkedByAnotherReplica(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	first := r.begin(us, "first", picked(true))
	if err := r.be.Park(r.ctx(), us, replyKey+1, score("a", 1, 1)); err != nil {
		t.Fatal(err)
	}
	r.note(replyKey+1, first)
	r.record()
	if err := r.be.Park(r.ctx(), us, replyKey, score("b", 1, .3)); err != nil {
		t.Fatal(err)
	}
	id := r.begin(us, "s", picked(true))
	r.note(replyKey, id)
	r.record()
	same(t, "reward", r.reward(id), .3)
}

func TestJoiningIsRetried(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.post(us, replyKey, score("a", 1, .7))
	id := r.begin(us, "s", picked(true))
	r.note(replyKey, id)
	r.be.failNext("join", 2, errDown)
	r.record()
	sameList(t, "failures", r.failed(), []string{"unpark"})
	for range 2 {
		r.clk.add(2 * time.Second)
		r.record()
	}
	same(t, "reward", r.reward(id), .7)
}

// The exchange lands between the look-up and the parking: nobody would look again.
func TestParkingRace(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.begin(us, "s", picked(true))
	looks := 0
	r.be.hook = func(op string) {
		if op != "echo" {
			return
		}
		if looks++; looks == 1 {
			r.note(replyKey, id)
		}
	}
	same(t, "status", r.post(us, replyKey, score("a", 1, 1)), Posted{Session: "s", Status: Joined})
	r.be.hook = nil
	r.record()
	r.age()
	same(t, "counted", r.counter("", "told"), 1)
}

// Feedback finds its session before the turn is over, and when the echo is not in the database yet.
func TestFeedbackBeforeTheTurnIsOver(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	ses := r.Add(&session.Record{
		Identity:   session.Identity{ID: session.KeyOf(us, session.SpaceName, "s"), Tenant: us, Name: "s", Started: r.clk.now(), Seen: r.clk.now()},
		Assignment: picked(true),
	})
	r.note(replyKey, ses.Identity.ID)
	same(t, "status", r.post(us, replyKey, score("a", 1, 1)), Posted{Session: "s", Status: Joined})
	same(t, "another tenant's view", r.post("other", replyKey, score("a", 1, 1)), Posted{Status: Parked})
	r.Release(ses, Decided)
	r.record()
	same(t, "reward", r.reward(ses.Identity.ID), 1)
}

func TestPostCandidates(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.played("s", picked(true))
	list := session.Candidates(us, "s")
	got, err := r.Post(r.ctx(), us, list, replyKey, score("a", 1, 1))
	if err != nil || got != (Posted{Session: "s", Status: Joined}) {
		t.Errorf("among many: %+v %v", got, err)
	}
	got, err = r.Post(r.ctx(), "other", []session.ID{id}, replyKey, score("b", 1, 1))
	if err != nil || got.Status != Parked {
		t.Errorf("another tenant's session: %+v %v", got, err)
	}
	r = r.again(nil)
	if got, err = r.Post(r.ctx(), us, []session.ID{id}, replyKey, score("c", 2, 0)); err != nil || got.Session != "s" {
		t.Errorf("from the database: %+v %v", got, err)
	}
	for _, op := range []string{"session", "feedback"} {
		r.be.failNext(op, 1, errDown)
		if got, err = r.Post(r.ctx(), us, []session.ID{id}, replyKey, score("d", 3, 0)); err == nil {
			t.Errorf("%s is down: %+v", op, got)
		}
		r = r.again(nil)
	}
	r.be.failNext("echo", 1, errDown)
	if got, err = r.Post(r.ctx(), us, nil, replyKey, score("d", 3, 0)); err == nil {
		t.Errorf("echoes are down: %+v", got)
	}
}

// Whatever a post names, it reaches the session, also when that has left memory; of another tenant
// it names nothing.
func TestRate(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.played("s", picked(true))
	r.note(session.EchoKeyOf(us, "r:resp_1"), id)
	r.age()
	list, err := r.be.NewestSamples(r.ctx(), us, session.Stretch{Most: 10})
	if err != nil || len(list.List) != 1 {
		t.Fatal(len(list.List), err)
	}
	for range 2 {
		for n, p := range []feedback.Post{
			{SessionID: id.String()},
			{RequestID: "req_" + id.String() + "0123456789abcdef"},
			{ResponseID: "resp_1"},
			{SampleID: list.List[0].Sample.ID},
		} {
			p.Entry = score(fmt.Sprint("f", n), 1, 1)
			if got, err := r.Rate(r.ctx(), us, p); err != nil || got != (Posted{ID: p.ID, Session: "s", Status: Joined}) {
				t.Errorf("%+v: %+v %v", p, got, err)
			}
			got, err := r.Rate(r.ctx(), "other", p)
			if p.SampleID != "" && !errors.Is(err, ErrNoSession) || p.SampleID == "" && (err != nil || got.Status != Parked) {
				t.Errorf("%+v of another tenant: %+v %v", p, got, err)
			}
		}
		r = r.again(nil)
	}
	if got, err := r.Rate(r.ctx(), us, feedback.Post{RunID: "later", Entry: score("r", 1, 1)}); err != nil || got.Status != Parked {
		t.Errorf("a run that is to come: %+v %v", got, err)
	}
}

func TestTheTrafficSpeaks(t *testing.T) {
	t.Parallel()
	pass := detect.Signal{Feeling: detect.Approval, Tier: 2, Rule: "tests"}
	fail := detect.Signal{Feeling: detect.Rejection, Tier: 2, Rule: "tests"}
	refusal := detect.Signal{Feeling: detect.Rejection, Tier: 3, Rule: "refused"}
	words := detect.Signal{Feeling: detect.Approval, Tier: 3, Rule: "praise", Sentiment: true}
	thanks := detect.Signal{Feeling: detect.Thanks, Tier: 3, Rule: "thanks", Sentiment: true}
	for name, c := range map[string]struct {
		turn      int
		signals   []detect.Signal
		sentiment bool
		want      float64 // -1: nothing was said
	}{
		"nothing":                            {2, nil, true, -1},
		"a test run":                         {2, []detect.Signal{pass}, false, 1},
		"the last one counts":                {2, []detect.Signal{pass, fail}, false, 0},
		"also when it went well":             {2, []detect.Signal{fail, pass}, false, 1},
		"a refusal":                          {2, []detect.Signal{refusal}, false, 0},
		"a test outranks it":                 {2, []detect.Signal{refusal, pass}, false, 1},
		"words, where they do not count":     {2, []detect.Signal{words}, false, -1},
		"words, where they do":               {2, []detect.Signal{words}, true, 1},
		"the first turn's words are no echo": {1, []detect.Signal{words}, true, -1},
		"thanks are approval":                {2, []detect.Signal{thanks}, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(o *Options) { o.Sentiment = c.sentiment })
			id := r.begin(us, "s", picked(true))
			r.Offer(Turn{Exchange: exchange(us, "s", c.turn, r.clk.now()), Size: 10, Signals: c.signals})
			r.record()
			same(t, "reward", r.reward(id), c.want)
		})
	}
}

// What the traffic said is kept while the backend does not take it.
func TestTheTrafficIsHeardLater(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.begin(us, "s", picked(true))
	r.Offer(Turn{Exchange: exchange(us, "s", 2, r.clk.now()), Size: 10, Signals: []detect.Signal{{Feeling: detect.Approval, Tier: 2, Rule: "tests"}}})
	r.be.failNext("feedback", 2, errDown)
	for range 3 {
		r.record()
		r.clk.add(2 * time.Second)
	}
	sameList(t, "failures", r.failed(), []string{"implicit", "implicit"})
	same(t, "reward", r.reward(id), 1)
}

// The keys that wait are bounded by number, in each place where they wait. Beyond that feedback on
// one is parked until it is in the backend; and what has left makes room.
func TestWaitingKeysAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.begin(us, "s", picked(true))
	r.record()
	gone := session.ID{1}
	full := make([]session.Echo, maxEchoes)
	for i := range full {
		full[i] = session.Echo{Tenant: us, Key: session.EchoKey(i + 1), ID: gone, At: r.clk.now()}
	}
	held := session.EchoKey(maxEchoes + 1)
	hold := func() { r.Hold("late", session.Echo{Tenant: us, Key: held, ID: id, At: r.clk.now()}) }
	r.Hold("early", full...)
	hold()
	same(t, "beside those that are held", r.post(us, held, score("a", 1, 1)).Status, Parked)
	r.waiting.forget(func(k session.Echo) bool { return k.ID == gone })
	hold()
	same(t, "when those are forgotten", r.post(us, held, score("b", 1, 1)).Status, Joined)

	r.be.failNext("write", 1_000, errDown)
	r.Note(full...)
	r.recorder.record(r.clk.now(), false)
	moving := held + 1
	r.note(moving, id)
	r.recorder.record(r.clk.now(), false)
	same(t, "behind those on their way", r.post(us, moving, score("c", 1, 1)).Status, Parked)
}
