package proxy

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"precept/detect"
	"precept/inject/writ"
	"precept/internal/label"
)

// turn is one request on a rewritten path and its reply. It belongs to the goroutine that serves
// the request. Its parts stand on each other, and none knows of those above: request reads what was
// asked, sender says whose turn it is (a finder has found that), decision says what is inserted,
// watch sees the reply, exchange is what is kept. The turn itself observes the forwarding.
type turn struct {
	exchange
	forward  *forwarding // nil when the request's buffers were given back
	commands *commandQueue
	writs    []writ.Command // what the reply asks precept to do
}

// response implements observer.
func (t *turn) response(res *http.Response) {
	if t.forward != nil && t.forward.rejected {
		t.rejected()
	}
	if t.ses != nil || t.found.Side != "" {
		res.Header.Set("Precept-Session", t.found.Name)
	}
	if t.out.identity && t.set.cfg.DebugHeaders {
		t.debug(res.Header)
	}
	t.answered(res.StatusCode, res.ContentLength)
	t.releaseRequest()
}

// debug tells a session's arm, for those who asked for it.
func (t *turn) debug(h http.Header) {
	h.Set("Precept-Lessons", strings.Join(t.plan.Injected, ","))
	h.Set("Precept-Withheld", strings.Join(t.plan.Withheld, ","))
	if t.skip != "" {
		h.Set("Precept-Skip", t.skip)
	}
}

// see implements observer. An agent may answer the last piece before we run again, and its next
// request must find what it echoes.
func (t *turn) see(b []byte, err error) {
	if t.take(b, err) {
		t.settle()
		t.publish()
	}
}

// settle indexes what the reply said, once.
func (t *turn) settle() {
	if t.settled {
		return
	}
	t.settled = true
	t.guard(label.StepSettle, func() {
		t.reply = t.reader.Reply()
		t.note(t.resolver.Replied(&t.query, &t.found, t.reply, t.status < 300))
		if t.ses != nil && t.found.Side == "" && t.status < 300 {
			t.writs = t.commands.find(&t.exchange)
		}
	})
	t.over()
}

// publish lets other replicas know what was decided, before the client has the whole answer; and
// how far a session has come that goes from one to the other, or that the turn opted out. One that
// stays is written in its own time.
func (t *turn) publish() {
	if !t.opts.Store.Shared() {
		return
	}
	if t.query.Claim.LearnOff && t.ses != nil && t.found.Side == "" {
		t.guard(label.StepPublish, func() { t.opts.Store.PublishOptOut(t.ses, t.found.Waited) })
		return
	}
	if t.kept == nil || !t.gathered || !t.query.Learn || !t.decided() && !t.found.Moved && len(t.writs) == 0 {
		return
	}
	t.guard(label.StepPublish, func() {
		t.complete(t.opts.Now())
		t.opts.Store.Publish(t.ses, t.found.Unit, t.kept, t.answers, t.found.Waited)
	})
}

// failed implements observer.
func (t *turn) failed(w http.ResponseWriter, r *http.Request, err error) {
	own := t.w.body.fault(spoken(t.r)) // a read that fails cancels the request as well
	if own == nil {
		if errors.Is(r.Context().Err(), context.Canceled) {
			panic(http.ErrAbortHandler) // the client is gone; there is nobody to answer
		}
		code, text := statusOf(err)
		own = refusal(spoken(t.r), code, text)
		t.log().Debug("the upstream gave no answer", "upstream", t.target.name, "status", code, "why", text)
	}
	t.status = own.status
	t.over()
	if t.ses != nil || t.found.Side != "" {
		w.Header().Set("Precept-Session", t.found.Name)
	}
	own.write(w)
}

// releaseRequest gives the request's buffers back once there is an answer, when nothing of it will
// be sent again. It takes out before what is kept of it.
func (t *turn) releaseRequest() {
	f := t.forward
	if f == nil {
		return
	}
	t.forward = nil
	t.guard(label.StepGather, func() {
		defer t.found.Thread.LetGo()
		t.gather()
	})
	f.giveBack(t.pool, t.body, t.unpacked, t.spliced)
	t.charge.release(0)
	t.body, t.unpacked, t.spliced, t.plain, t.req, t.query.Request, t.out.body, t.out.original = nil, nil, nil, nil, nil, nil, nil, nil
	t.plan.Edits, t.results = nil, detect.Results{}
}

// finish runs when the client has its answer, or is gone. It gives everything back.
func (t *turn) finish() {
	t.releaseRequest()
	if t.reader != nil && !t.settled {
		t.settle() // a cut reply: what was read of it still went by
	}
	t.guard(label.StepWrit, func() { t.commands.put(&t.exchange, t.writs) })
	t.guard(label.StepRecord, t.record)
	t.inFlight.copies.Add(-t.copied)
}
