package session

import (
	"slices"
	"strings"
	"time"
	"unicode"

	"precept/internal/wire"
)

// look is a request in which quotations are looked for.
type look struct {
	bare, shaped, forced bool // it offers no tools, and wants JSON; it wants a call of its tools
	names                []uint32
	now                  time.Time
	texts                []spoken
}

// spoken is a text of the request.
type spoken struct {
	role wire.Role
	text string
}

// read takes the texts, as far as they are searched.
func (w *look) read(req *wire.Request) {
	room := quoteText
	for i := 0; i < req.Len() && room > 0; i++ {
		it := req.Item(i)
		text := it.Text[:min(len(it.Text), room)]
		room -= len(text)
		if text != "" {
			w.texts = append(w.texts, spoken{it.Role, text})
		}
	}
}

// about says whether the request is about the conversation. One of its texts shows what was asked
// and what was answered there; of a conversation without tools, and in a request that has tools of
// its own, it must show them as a dialogue. What wants JSON and has no tools judges or sorts by one
// of the two.
func (w *look) about(x *fingerprint) bool {
	asked, said := false, false
	for _, s := range w.texts {
		a, inA := earliest(x.asked[:], s.text, 0)
		b, inB := latest(x.said, s.text)
		if inA && inB && apart(a, b) {
			dialogue := speakerLabel(s.text, a.at) != "" && speakerLabel(s.text, a.at) == speakerLabel(s.text, b.at)
			if w.bare && (x.tooled || dialogue) || !w.bare && dialogue && (w.forced || closes(s.text, b)) {
				return true
			}
		}
		if x.tooled && w.shaped && (shows(s.text, x.asked[:]) || shows(s.text, x.said)) {
			return true
		}
		if (w.shaped || w.forced) && w.now.Sub(x.soon) < quoteSoon && shows(s.text, x.beside) {
			return true
		}
		asked = asked || inA && s.role == wire.RoleUser
		said = said || inB && s.role == wire.RoleAssistant
	}
	return w.bare && x.tooled && asked && said
}

// match is where a part of a conversation stands in a text.
type match struct {
	part
	at int
}

// earliest finds the first of the parts that stands in the text, and is so long.
func earliest(parts []part, text string, least int) (match, bool) {
	for _, p := range parts {
		if at := strings.Index(text, p.text); at >= 0 && len(p.text) > 0 && len(p.text) >= least {
			return match{p, at}, true
		}
	}
	return match{}, false
}

// shows says that a text shows one of the parts, long enough to be known by itself.
func shows(text string, parts []part) bool {
	_, ok := earliest(parts, text, quoteAlone)
	return ok
}

// latest finds the newest of them, where it stands last.
func latest(parts []part, text string) (match, bool) {
	for _, p := range slices.Backward(parts) {
		if at := strings.LastIndex(text, p.text); at >= 0 && p.text != "" {
			return match{p, at}, true
		}
	}
	return match{}, false
}

// apart says that the two are not one: who repeats a question answers nothing.
func apart(a, b match) bool {
	return a.at+len(a.text) <= b.at || b.at+len(b.text) <= a.at
}

// closes says that what was answered ends the text, but for what closes a quotation: a few bytes,
// and no sentence that says what to do.
func closes(text string, b match) bool {
	end := b.at + b.rest + b.rest/8 // escapes make it longer
	if b.rest == 0 || len(text) > end+quoteBehind {
		return false
	}
	return len(text) <= end || len(strings.Fields(text[end:])) < quoteWords
}

// speakerLabel is the form of what names a speaker before a place in a text ("user: ", "<input>\n",
// "== Human ==\n\n", `{"role": "user", "content": "`), without its letters; "" where nothing does.
func speakerLabel(text string, at int) string {
	before := text[max(0, at-64):at]
	end := strings.LastIndexFunc(before, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) })
	if end < 0 {
		return ""
	}
	form := strings.Map(func(r rune) rune {
		if strings.ContainsRune(":>]=|\"", r) {
			return r
		}
		return -1
	}, before[end:])
	var b strings.Builder
	for i := range len(form) {
		if i == 0 || form[i] != form[i-1] {
			b.WriteByte(form[i])
		}
	}
	return b.String()
}
