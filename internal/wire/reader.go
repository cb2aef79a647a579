package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"precept/internal/label"
)

// ReplyReader assembles a Reply from a response that arrives in pieces. It never fails, and skips unknown input. Only
// one goroutine at a time may use a ReplyReader.
type ReplyReader struct {
	dialect       Dialect
	contentLength int64
	limit         int // maximum for keptBytes
	keptBytes     int // stored reply bytes, plus itemCost for each item
	mode          replyMode
	sse           sseReader
	json          jsonBody
	ended         bool
	reply         Reply
	tokens        tokens
	items         replyItems
	template      eventTemplate
	unpack        *unpacker    // nil without compression
	unread        label.Reason // see UnreadReason
}

type replyMode uint8

const (
	modeUnknown replyMode = iota
	modeSSE
	modeJSON
)

// NewReplyReader returns a reader that keeps at most limit bytes. contentLength is -1 if unknown. The reader
// distinguishes a stream from a JSON body by the first byte, because the content type is often wrong.
func NewReplyReader(d Dialect, contentLength int64, limit int) *ReplyReader {
	r := &ReplyReader{dialect: d, contentLength: contentLength, limit: max(limit, 0)}
	r.sse.maxBytes = r.limit + eventOverhead
	r.sse.handleEvent = r.readEvent
	r.json.max = r.sse.maxBytes
	r.tokens = tokens{-1, -1, -1, -1, -1, -1}
	return r
}

// SetEncoding makes the reader decode a Content-Encoding. Call SetEncoding before the first Write.
func (r *ReplyReader) SetEncoding(encoding string) {
	switch canonicalEncoding(encoding) {
	case "":
	case "gzip", "deflate", "br", "zstd":
		r.contentLength, r.unpack = -1, newUnpacker(encoding, r.read)
	default:
		r.unread = label.UnreadEncoding
	}
}

// UnreadReason returns why a part of the reply could not be decoded, or "" if every part was decoded.
func (r *ReplyReader) UnreadReason() label.Reason { return r.unread }

// Write reads the next bytes and keeps no reference to p.
func (r *ReplyReader) Write(p []byte) (int, error) {
	switch {
	case r.unread != "":
	case r.unpack == nil:
		r.read(p)
	default:
		r.unpack.Write(p)
		if r.unpack.ended {
			r.endUnpacking(r.unpack.err)
		}
	}
	return len(p), nil
}

func (r *ReplyReader) endUnpacking(err error) {
	switch {
	case r.unread != "", errors.Is(err, io.EOF):
	case errors.Is(err, errTooLong):
		r.unread = label.UnreadSize
	default:
		r.unread = label.UnreadCorrupt
	}
}

// Close releases the decoder. Call Close if Reply is not called.
func (r *ReplyReader) Close() {
	if r.unpack != nil {
		r.unpack.Close()
	}
}

func (r *ReplyReader) read(rest []byte) {
	if r.mode == modeUnknown {
		for len(rest) > 0 && strings.IndexByte("\xef\xbb\xbf \t\r\n", rest[0]) >= 0 {
			rest = rest[1:] // byte by byte, because a byte order mark can be split between two writes
		}
		switch {
		case len(rest) == 0:
			return
		case rest[0] == '{' || rest[0] == '[':
			r.mode = modeJSON
		default:
			r.mode = modeSSE
		}
	}
	if r.mode == modeSSE {
		r.sse.write(rest)
	} else {
		r.json.write(rest, r.contentLength)
		r.reply.Cut = r.reply.Cut || r.json.tooLong
	}
}

// jsonBody collects a reply that is not a stream.
type jsonBody struct {
	bytes   []byte
	max     int  // in bytes
	tooLong bool // longer than max, and discarded except for the end
	end     []byte
	last    byte // last byte other than white space
}

func (j *jsonBody) write(p []byte, size int64) {
	if s := bytes.TrimRight(p, " \t\r\n"); len(s) > 0 {
		j.last = s[len(s)-1]
	}
	if j.tooLong = j.tooLong || len(j.bytes)+len(p) > j.max; j.tooLong {
		j.end, j.bytes = appendEnd(appendEnd(j.end, j.bytes), p), nil
		return
	}
	if j.bytes == nil && int64(len(p)) < size && size <= int64(j.max) {
		j.bytes = make([]byte, 0, size)
	}
	j.bytes = append(j.bytes, p...)
}

func (j *jsonBody) shrink(limit int) {
	j.max = min(j.max, limit)
	if cap(j.bytes) > limit {
		j.bytes, j.tooLong = nil, true
	}
}

// Ended reports whether the regular end was read ([DONE], message_stop, response.completed). The connection may end
// later.
func (r *ReplyReader) Ended() bool { return r.ended }

// MemoryBytes returns the memory held by the reader.
func (r *ReplyReader) MemoryBytes() int {
	n := r.unpack.memoryBytes() + cap(r.json.bytes) + cap(r.json.end) + cap(r.sse.line) + cap(r.sse.lineEnd) + cap(r.sse.data) + cap(r.template.before) + cap(r.template.after)
	for _, s := range r.items.list {
		n += itemCost + s.fullCapacity + cap(s.text)
	}
	return n
}

// Dropped reports whether text was discarded because of Drop or a limit of 0.
func (r *ReplyReader) Dropped() bool { return r.reply.Cut && r.limit == 0 }

// Drop releases the kept bytes. Afterwards, the reader keeps only ids, the finish reason and the usage. From a long
// JSON body, it keeps only the usage, and from a compressed reply nothing.
func (r *ReplyReader) Drop() {
	if r.unpack != nil && !r.unpack.ended {
		r.unpack.Close()
		r.unread = label.UnreadBusy
	}
	r.reply.Cut, r.limit = true, 0
	r.json.shrink(droppedBody)
	r.sse.drop(eventOverhead)
	for _, s := range r.items.list {
		s.drop()
	}
}

const droppedBody = 16 << 10 // bytes; a shorter JSON body is read for the call ids even after Drop

const eventOverhead = 4096 // maximum bytes in an event in addition to the text

// Reply returns the reply so far. Call Reply once, at the end.
func (r *ReplyReader) Reply() *Reply {
	if r.unpack != nil && !r.unpack.ended {
		r.unpack.Close()
		r.endUnpacking(r.unpack.err)
	}
	switch r.mode {
	case modeSSE:
		r.sse.end()
	case modeJSON:
		r.finishJSON()
	case modeUnknown:
	}
	rep := &r.reply
	rep.Usage = r.tokens.usage(r.dialect)
	for _, s := range r.items.list {
		if s.itemID != "" {
			rep.ItemIDs = append(rep.ItemIDs, s.itemID)
			if s.isCall { // chatlas later sends the item's id as the call's id
				rep.otherKeys = appendKey(rep.otherKeys, "c:", s.itemID)
			}
		}
		if len(s.surrogate) > 0 { // an unpaired surrogate becomes U+FFFD
			r.unescape(s, s.surrogate)
		}
		content := s.takeText()
		if r.dialect == Chat && s.index < textItemIndex {
			if len(rep.otherKeys) < maxOtherKeys {
				rep.otherKeys = appendKey(rep.otherKeys, "t:", TextEchoHash(content))
			}
			continue
		}
		switch {
		case s.isCall && (s.id != "" || s.name != "" || content != ""):
			rep.Calls = append(rep.Calls, Call{ID: s.id, Name: s.name, Args: content})
		case s.isCall || content == "":
		case s.isHosted:
			rep.HostedArgs = append(rep.HostedArgs, content)
		default:
			rep.texts = append(rep.texts, content)
		}
	}
	rep.Text = strings.Join(rep.texts, "\n")
	rep.Complete = rep.Complete && rep.Error == ""
	if rep.Complete {
		r.unread = "" // after the last event, missing compressed bytes do not matter
	}
	rep.Cut = rep.Cut || r.unread != ""
	return rep
}

func (r *ReplyReader) finishJSON() {
	if r.json.tooLong {
		r.reply.Complete = r.json.last == '}'
		r.tokens.readLast(r.json.end)
		return
	}
	if b := bytes.TrimSpace(r.json.bytes); len(b) > 0 && b[0] == '{' && valid(b) {
		r.reply.Complete = true
		r.readObject(nil, b)
	}
	r.json.bytes = nil
}

func (r *ReplyReader) readEvent(name, data []byte, tooLong bool) {
	if r.ended {
		return
	}
	if tooLong {
		r.reply.Cut = true
		r.tokens.readLast(data)
		r.readLostEvent(name)
		return
	}
	data = bytes.TrimSpace(data)
	if string(data) == "[DONE]" {
		r.ended, r.reply.Complete = true, true
		return
	}
	if r.readByTemplate(name, data) || len(data) == 0 || data[0] != '{' || !valid(data) {
		return
	}
	r.template.changes = 0
	r.readObject(name, data)
	r.template.learn(name, data)
}

func (r *ReplyReader) readLostEvent(name []byte) { // an event that was too long to keep
	if status := finalStatus(name); status == "completed" || status == "incomplete" {
		r.reply.Finish, r.reply.Complete, r.ended = status, true, true
	}
}

func (r *ReplyReader) readObject(name, b []byte) {
	switch r.dialect {
	case Chat:
		r.readChat(b)
	case Responses:
		r.readResponses(name, b)
	case Messages:
		r.readMessages(name, b)
	case NoDialect:
	}
}

func (r *ReplyReader) setIDAndModel(b []byte, id, model span) {
	if !id.empty() {
		r.reply.ID = shortText(b, id)
	}
	if !model.empty() {
		r.reply.Model = shortText(b, model)
	}
}

// recordError records the provider's error, which can be a string, an object with a message, or another value.
func (r *ReplyReader) recordError(b []byte, v span) {
	switch firstByteAt(b, v) {
	case 0, 'n':
		return
	case '"':
		r.reply.Error = shortText(b, v)
	default:
		r.reply.Error = shortText(b, member(b, v, "message"))
	}
	if r.reply.Error == "" {
		r.reply.Error = "unknown error"
	}
}

// shortText returns the first 1,024 bytes of a string, so that a reply cannot fill the memory with ids, names, finish
// reasons and error messages.
func shortText(b []byte, v span) string {
	s := text(b, v)
	if len(s) > 1024 {
		s = strings.ToValidUTF8(s[:1024], "")
	}
	return s
}
