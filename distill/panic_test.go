package distill_test

import (
	"context"
	"strings"
	"testing"

	"precept/distill"
	"precept/inject/lesson"
)

// clumsy panics, with what it was reading in its hands.
type clumsy struct{}

func (clumsy) Name() string { return "clumsy" }

func (clumsy) Judge(context.Context, *distill.Session, []*lesson.Lesson) (distill.Judgement, error) {
	panic("The secret of this session.")
}

// A panic of the judge affects the current session, and no content of the session is reported.
func TestJudgePanicSkipsOneSessionWithoutDetails(t *testing.T) {
	b := newBench(t)
	id := b.session("one", user("The secret of this session."), call("bash", `{"command":"make"}`, "ok"))
	b.session("two", user("Another one."), call("bash", `{"command":"make"}`, "ok"))
	told := map[string]string{}
	sum := b.distil(func(o *distill.Options) {
		o.Judge = clumsy{}
		o.Failed = func(session string, err error) { told[session] = err.Error() }
	})
	equal(t, "failed", sum.Failed, 2)
	if said := told[id.String()]; !strings.HasPrefix(said, "panic: string") || strings.Contains(said, "secret") {
		t.Errorf("of the session is told %q", said)
	}
}
