package proxy

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"precept/detect"
	"precept/inject/writ"
	"precept/internal/label"
	"precept/internal/sample"
	"precept/internal/wire"
)

type reply struct {
	status    int // status of the reply, or of precept's answer in place of a reply; 0 before either
	headersAt time.Time
	reader    *wire.ReplyReader // nil means the reply is forwarded unread
	length    int64             // Content-Length; -1 means unknown
	received  int64
	complete  bool           // the last byte was received
	copied    int64          // bytes charged to limits.capture_total_bytes
	parsed    *wire.Reply    // set by resolveReply
	commands  []writ.Command // /lesson commands in the reply
}

func (r *reply) isComplete() bool { return r.parsed != nil && r.parsed.Complete }

// onResponse implements observer.
func (t *turn) onResponse(res *http.Response, acceptedOriginal bool) {
	if acceptedOriginal {
		t.recordRejection()
	}
	t.showSession(res.Header)
	if t.settings.cfg.DebugHeaders {
		res.Header.Set("Precept-Lessons", strings.Join(t.plan.insert.Injected, ","))
		res.Header.Set("Precept-Withheld", strings.Join(t.plan.insert.Withheld, ","))
		if cut := t.plan.insert.CutSlugs; len(cut) > 0 {
			res.Header.Set("Precept-Cut", strings.Join(cut, ","))
		}
		if t.skip != "" {
			res.Header.Set("Precept-Skip", t.skip)
		}
	}
	t.reply.status, t.reply.headersAt, t.reply.length = res.StatusCode, t.p.opts.Now(), res.ContentLength
	if t.session.Session != nil || t.session.QuotesSession {
		t.reply.reader = wire.NewReplyReader(t.in.dialect, res.ContentLength, int(t.settings.cfg.Limits.CaptureBytes))
		t.reply.reader.SetEncoding(res.Header.Get("Content-Encoding")) // some servers compress although Accept-Encoding forbids it
	}
	t.release()
	if res.StatusCode >= 400 || res.ContentLength == 0 {
		t.end()
	}
}

// onFailure implements observer.
func (t *turn) onFailure(h http.Header, status int) {
	t.reply.status = status
	t.release()
	t.end()
	t.showSession(h)
}

// showSession adds the session name to the headers, so that the client can send feedback on the session.
func (t *turn) showSession(h http.Header) {
	if t.session.Session != nil || t.session.Side != "" {
		h.Set("Precept-Session", t.session.Name)
	}
}

// onBody implements observer. The resolver gets the reply before the client gets the last part, because the next
// request may follow immediately, and must find the session.
func (t *turn) onBody(b []byte, err error) {
	r := &t.reply
	if r.reader == nil || t.phase >= phaseResolved {
		return
	}
	if len(b) > 0 {
		r.received += int64(len(b))
		if !t.runStep(label.StepCapture, func() { _, _ = r.reader.Write(b) }) {
			r.reader.Close()
			r.reader = nil
			return
		}
		t.chargeCopy()
	}
	r.complete = errors.Is(err, io.EOF) || r.length > 0 && r.received == r.length
	if r.complete || r.reader.Ended() {
		t.resolveReply()
		t.publish()
	}
}

// chargeCopy charges the copy of the reply to limits.capture_total_bytes. Beyond the limit, the copy is cut.
func (t *turn) chargeCopy() {
	r := &t.reply
	n := int64(r.reader.MemoryBytes()) - r.copied
	if n == 0 {
		return
	}
	r.copied += n
	all := t.p.inFlight.replyCopyBytes.Add(n)
	if n < 0 || all <= int64(t.settings.cfg.Limits.CaptureTotalBytes) || r.reader.Dropped() {
		return
	}
	r.reader.Drop()
	t.chargeCopy()
	t.p.opts.Tally.CopiesCut.Add(1)
}

// release copies the request into the draft and returns the buffers to the pool, once the headers have arrived or the
// request has failed.
func (t *turn) release() {
	if !t.advanceTo(phaseReleased) {
		return
	}
	ok := t.runStep(label.StepReadCapture, func() {
		defer t.session.Thread.Release()
		t.copyRequest()
	})
	if !ok {
		t.discard()
	}
	b := &t.in.body
	t.forwarder.attempts.recycle(&t.p.pool, b.received, b.unpacked, t.out.spliced)
	b.charge.release(0)
	b.received, b.unpacked, b.plain = nil, nil, nil
	t.in.req, t.query.Request = nil, nil
	t.out.body, t.out.spliced, t.out.original = nil, nil, nil
	t.plan.insert.Edits, t.plan.results = nil, detect.Results{}
}

// resolveReply passes the reply to the resolver, so that the next request finds the session. It also looks for /lesson
// commands.
func (t *turn) resolveReply() {
	if t.phase >= phaseResolved {
		return
	}
	t.runStep(label.StepSettle, func() {
		t.reply.parsed = t.reply.reader.Reply()
		if why := t.reply.reader.UnreadReason(); why != "" && t.reply.complete { // an undecodable reply is complete at the last byte
			t.reply.parsed.Complete = true
			t.p.opts.Metrics.unreadReplies.WithLabelValues(string(why)).Inc()
		}
		ok := t.reply.status < 300
		t.holdKeys(t.p.resolver.RecordReply(&t.query, &t.session, t.reply.parsed, ok))
		if ok && t.isMain() {
			t.reply.commands = t.findCommands()
		}
	})
	t.end()
	t.advanceTo(phaseResolved)
}

// end records that the request has ended, before the client has the whole response. A retry may follow immediately, and
// is recognised only after the first request's end.
func (t *turn) end() {
	if t.advanceTo(phaseEnded) && t.session.Session != nil {
		if s := t.reply.status; s == http.StatusUnauthorized || s == http.StatusForbidden {
			t.p.resolver.RecordRefusal(&t.session)
		}
		t.p.resolver.RecordEnd(&t.session, t.reply.isComplete() && t.reply.status < 300)
	}
}

func (t *turn) outcome() string {
	switch {
	case t.reply.status >= 400:
		return sample.Failed
	case t.reply.isComplete():
		return sample.Complete
	case t.clientGone():
		return sample.Aborted
	}
	return sample.Incomplete
}
