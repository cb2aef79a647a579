package proxy

import (
	"errors"
	"io"
	"strconv"
	"time"

	"precept/internal/label"
	"precept/internal/sample"
	"precept/internal/wire"
)

// watch is what is seen of the reply while it flows by.
type watch struct {
	decision
	status   int
	first    time.Time // of the response's headers
	reader   *wire.ReplyReader
	want     int64 // Content-Length, -1 unknown
	seen     int64
	copied   int64 // bytes charged to capture_total_bytes
	settled  bool  // what the reply said is indexed
	ended    bool  // the threader knows that the request is over
	reply    *wire.Reply
	overflow bool // the copies of all streams in flight together are too many
}

// answered notes how the upstream answers.
func (w *watch) answered(status int, length int64) {
	w.status, w.first, w.want = status, w.opts.Now(), length
	if status >= 400 || length == 0 {
		w.over()
	}
	if w.ses != nil || w.found.Shows {
		w.reader = wire.NewReplyReader(w.dialect, length, int(w.set.cfg.Limits.CaptureBytes))
	}
}

// take reads on in the reply. It says whether the reply has ended with this.
func (w *watch) take(b []byte, err error) (end bool) {
	if w.reader == nil || w.settled {
		return false
	}
	if len(b) > 0 {
		w.seen += int64(len(b))
		if !w.guard(label.StepCapture, func() { _, _ = w.reader.Write(b) }) {
			w.reader = nil
			return false
		}
		w.account()
	}
	return w.reader.Ended() || errors.Is(err, io.EOF) || (w.want > 0 && w.seen == w.want)
}

// account charges for what the copy of the reply holds. The one that goes beyond what all of them
// may hold together is let go; how the reply ends is still seen.
func (w *watch) account() {
	n := int64(w.reader.Held()) - w.copied
	if n == 0 {
		return
	}
	w.copied += n
	if w.inFlight.copies.Add(n) <= int64(w.set.cfg.Limits.CaptureTotalBytes) || w.overflow || n < 0 {
		return
	}
	w.overflow = true
	w.reader.Drop()
	w.account()
	w.opts.Store.Tally.CopiesCut.Add(1)
}

// over tells the threader once that the request has ended. It must do so before the client can
// know: its retry, which may come at once, is only taken for one of a request that is not under
// way.
func (w *watch) over() {
	if w.ses != nil && !w.ended {
		w.ended = true
		w.resolver.Ended(&w.found, w.whole() && w.status < 300)
	}
}

// whole says whether a complete reply went by.
func (w *watch) whole() bool { return w.reply != nil && w.reply.Complete }

// outcome says how the turn ended, in the words of an exchange.
func (w *watch) outcome() string {
	switch {
	case w.status >= 400:
		return sample.Failed
	case w.whole():
		return sample.Complete
	case w.left():
		return sample.Aborted
	}
	return sample.Incomplete
}

// failure is the error.type of OpenTelemetry's conventions; "" for a turn that ended well.
func (w *watch) failure() string {
	switch outcome := w.outcome(); {
	case w.status >= 400:
		return strconv.Itoa(w.status)
	case w.status == 0 && !w.left():
		return "request" // it could not be read, or was refused
	case w.ses == nil && w.status != 0, outcome == sample.Complete: // of the one nobody read the reply
		return ""
	default:
		return outcome
	}
}
