package distill_test

import (
	"context"
	"strings"
	"testing"

	"precept/distill"
	"precept/inject/lesson"
)

type panickingJudge struct{}

func (panickingJudge) Name() string { return "panicking" }

func (panickingJudge) Judge(context.Context, *distill.Session, []*lesson.Lesson) (distill.Judgement, error) {
	panic("The secret of this session.")
}

// The judge panics with words from the session as the value. The reported error must not contain these words.
func TestJudgePanicFailsSessionAndHidesText(t *testing.T) {
	f := newFixture(t)
	id := f.addSession("one", user("The secret of this session."), call("bash", `{"command":"make"}`, "ok"))
	f.addSession("two", user("Another one."), call("bash", `{"command":"make"}`, "ok"))
	errors := map[string]string{}
	sum := f.runDistiller(func(o *distill.Options) {
		o.Judge = panickingJudge{}
		o.OnFailure = func(session string, err error) { errors[session] = err.Error() }
	})
	checkEqual(t, "Failed", sum.Failed, 2)
	if text := errors[id.String()]; !strings.HasPrefix(text, "panic: string") {
		t.Errorf(`reported error = %q, want prefix "panic: string"`, text)
	} else if strings.Contains(text, "secret") {
		t.Errorf(`reported error = %q, want no "secret"`, text)
	}
}
