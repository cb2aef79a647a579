package proxy

import (
	"net/http"
	"strings"

	"precept/redact"
	"precept/session"
	"precept/store"
)

// await notes, when a turn begins, whether anything of it may be kept: no, or not known before the
// recorder has looked for paths that opted out. The caller has the record's lock.
func (d *decision) await(rec *session.Record) {
	if d.learn {
		rec.Await(d.turn)
	} else {
		rec.Judged(d.turn, true)
		rec.Asked = rec.Asked || d.claim.LearnOff
	}
}

// optedOut says that a turn of the session did: its past has keys of that, which nobody keeps.
func (f *finder) optedOut() bool {
	f.ses.Lock()
	defer f.ses.Unlock()
	return len(f.ses.OptedOut) > 0
}

// offer hands the turn to the recorder. One for which there is no room is judged all the same: the
// session's row depends on it.
func (t *turn) offer(o store.Turn) {
	t.offered = true
	if !t.p.opts.Store.Offer(o) {
		_ = t.p.opts.Store.OptedOut(o.Exchange, o.Answered)
	}
}

// unoffered settles what the recorder will not judge: a request beside the conversation, one that
// is not captured, and one with which something went wrong, of which nothing is kept to be safe.
func (t *turn) unoffered() {
	if !t.learn || t.offered {
		return
	}
	main, captured := t.side == "", t.set.cfg.Limits.CaptureBytes > 0
	t.ses.Lock()
	keep := main && !captured || !main && len(t.ses.OptedOut) == 0
	if main {
		t.ses.Judged(t.turn, !keep)
	}
	t.ses.Unlock()
	t.p.opts.Store.LetGo(t.w.id, keep)
}

// heard says whether feedback of a client may be kept: not where nothing of its traffic may.
func (s *settings) heard(r *http.Request, who *identity) bool {
	return !session.Identify(r.Header, "", nil).LearnOff && s.learns(who, "")
}

// cleanName takes out of an agent's name what must not reach a disk: it stands in records, counters
// and samples. Most names are too short for a key and have no @.
func (s *settings) cleanName(agent string) string {
	const shortestKey = 16
	if len(agent) < shortestKey && !strings.Contains(agent, "@") {
		return agent
	}
	return redact.New(s.cfg.Learning.AnonymizePII).Text(agent)
}
