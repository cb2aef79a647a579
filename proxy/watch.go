package proxy

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"precept/detect"
	"precept/sample"
	"precept/session"
	"precept/wire"
)

// watch is what a turn sees of the reply while it flows by.
type watch struct {
	status   int
	first    time.Time // of the response's headers
	reader   *wire.ReplyReader
	want     int64 // Content-Length, -1 unknown
	events   bool  // a stream of events: many small pieces
	seen     int64
	held     int64 // bytes charged to capture_total_bytes
	settled  bool
	over     bool // the threader knows that the request has ended
	reply    *wire.Reply
	overflow bool // the copies of all streams in flight together are too many
	body     limitedBody
}

// response is ReverseProxy's hook: the reply's headers are here.
func (t *turn) response(res *http.Response) error {
	if err := checkResponse(res, t.r); err != nil {
		return err
	}
	if res.StatusCode == http.StatusNotFound && t.forward != nil {
		t.target.warnUnknown(func() *slog.Logger { return t.p.log(t.w) }, t.r.URL.EscapedPath(), t.forward.url.EscapedPath())
	}
	t.watch.status, t.watch.first, t.watch.want = res.StatusCode, t.p.opts.Now(), res.ContentLength
	t.watch.events = strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream")
	if t.ses != nil || t.side != "" {
		res.Header.Set("Precept-Session", t.sessionName())
	}
	if t.forward != nil && t.set.cfg.DebugHeaders {
		t.debug(res.Header)
	}
	if res.StatusCode >= 400 || res.ContentLength == 0 {
		t.over()
	}
	if t.ses != nil || t.quotes {
		t.watch.reader = wire.NewReplyReader(t.dialect, res.ContentLength, int(t.set.cfg.Limits.CaptureBytes))
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		t.watch.body.watch(t, res.Body, t.set.cfg.Limits.StreamIdleTimeout)
		res.Body = &t.watch.body
	}
	t.releaseRequest()
	return nil
}

// strange says what is wrong with a response that no client can be given: one that switches
// protocols although nobody asked for it, or with a status that is none.
func checkResponse(res *http.Response, r *http.Request) error {
	switch {
	case res.StatusCode < 100 || res.StatusCode > 999:
		return badResponse("the upstream answered with a status that is none")
	case res.StatusCode == http.StatusSwitchingProtocols && r.Header.Get("Upgrade") == "":
		return badResponse("the upstream switched protocols, which nobody asked for")
	}
	return nil
}

// debug tells a session's arm, for those who asked for it.
func (t *turn) debug(h http.Header) {
	h.Set("Precept-Lessons", strings.Join(t.plan.Injected, ","))
	h.Set("Precept-Withheld", strings.Join(t.plan.Withheld, ","))
	if t.skip != "" {
		h.Set("Precept-Skip", t.skip)
	}
}

// see takes note of bytes before the client gets them: an agent may answer the last one before we
// run again, and its next request must find what it echoes.
func (t *turn) see(b []byte, err error) {
	w := &t.watch
	if w.reader == nil || w.settled {
		return
	}
	if len(b) > 0 {
		w.seen += int64(len(b))
		if !t.guard("capture", func() { _, _ = w.reader.Write(b) }) {
			w.reader = nil
			return
		}
		t.charge()
	}
	if w.reader.Ended() || errors.Is(err, io.EOF) || (w.want > 0 && w.seen == w.want) {
		t.settle()
		t.publish()
	}
}

// charge accounts for what the copy of the reply holds. The one that goes beyond what all of them
// may hold together is let go; how the reply ends is still seen.
func (t *turn) charge() {
	w := &t.watch
	n := int64(w.reader.Held()) - w.held
	if n == 0 {
		return
	}
	w.held += n
	if t.p.copies.Add(n) <= int64(t.set.cfg.Limits.CaptureTotalBytes) || w.overflow || n < 0 {
		return
	}
	w.overflow = true
	w.reader.Drop()
	t.charge()
	t.p.opts.Store.Tally.CopiesCut.Add(1)
}

// settle indexes what the reply said, once.
func (t *turn) settle() {
	w := &t.watch
	if w.settled {
		return
	}
	w.settled = true
	t.guard("settle", func() {
		w.reply = w.reader.Reply()
		if t.ses == nil {
			t.p.quotes.AnsweredBeside(t.who.scope(), t.about, w.reply, t.p.opts.Now())
			t.p.threads.Summed(t.found, t.about, w.reply)
			return
		}
		keys := t.p.threads.Replied(t.found, w.reply, t.side == "")
		if t.echoed() {
			t.note(t.ses.ID, keys...)
		}
		if t.side == "" && w.reply.ID != "" {
			t.note(t.ses.ID, session.EchoKeyOf(t.who.tenant, 0, "r:"+w.reply.ID))
		}
		if t.side == "" && w.status < 300 {
			t.ses.Lock()
			t.ses.Done(w.reply)
			t.ses.Unlock()
			t.p.quotes.Answered(t.who.scope(), t.ses.ID, w.reply)
			t.unit.change(func(u *session.Record) { u.Spend(w.reply.Usage) })
			t.findCommands()
		}
	})
	t.over()
}

// over tells the threader once that the request has ended. It must do so before the client can
// know: its retry, which may come at once, is only taken for one of a request that is not under
// way.
func (t *turn) over() {
	if w := &t.watch; t.ses != nil && !w.over {
		w.over = true
		t.p.threads.Ended(t.found, t.whole(), t.p.opts.Now())
	}
}

// whole says whether a complete reply went by.
func (t *turn) whole() bool {
	w := &t.watch
	return w.reply != nil && w.reply.Complete && w.status < 300
}

// failed is ReverseProxy's hook for an upstream that gave no answer.
func (t *turn) failed(w http.ResponseWriter, r *http.Request, err error) {
	own := t.w.body.fault(spoken(t.r)) // a read that fails cancels the request as well
	if own == nil {
		if errors.Is(r.Context().Err(), context.Canceled) {
			panic(http.ErrAbortHandler) // the client is gone; there is nobody to answer
		}
		code, text := statusOf(err)
		own = refusal(spoken(t.r), code, text)
		t.p.log(t.w).Debug("the upstream gave no answer", "upstream", t.target.name, "status", code, "why", text)
	}
	t.watch.status = own.status
	t.over()
	if t.ses != nil || t.side != "" {
		w.Header().Set("Precept-Session", t.sessionName())
	}
	t.p.fail(own, w, r)
}

// releaseRequest gives the request's buffers back once there is an answer, when nothing of it will
// be sent again. It takes out before what is kept of it.
func (t *turn) releaseRequest() {
	f := t.forward
	if f == nil {
		return
	}
	t.forward = nil
	t.guard("gather", func() {
		defer t.found.LetGo()
		t.gather()
	})
	f.giveBack(&t.p.pool, t.body, t.unpacked, t.out)
	t.p.inFlight.release(&t.request, 0)
	t.body, t.unpacked, t.out, t.plain, t.req, f.body, f.original = nil, nil, nil, nil, nil, nil, nil
	t.plan.Edits, t.results = nil, detect.Results{}
}

// finish runs when the client has its answer, or is gone. It gives everything back.
func (t *turn) finish() {
	t.releaseRequest()
	if t.watch.reader != nil && !t.watch.settled {
		t.settle() // a cut reply: what was read of it still went by
	}
	t.guard("writ", t.queueCommands)
	t.guard("record", t.record)
	t.p.copies.Add(-t.watch.held)
}

// outcome says how the turn ended, in the words of an exchange.
func (t *turn) outcome() string {
	w := &t.watch
	switch {
	case w.status >= 400:
		return sample.Failed
	case w.reply != nil && w.reply.Complete:
		return sample.Complete
	case t.r.Context().Err() != nil:
		return sample.Aborted
	}
	return sample.Incomplete
}
