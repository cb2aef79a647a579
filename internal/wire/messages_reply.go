package wire

import "bytes"

func (r *ReplyReader) readMessages(name, b []byte) {
	var kind, nth, message, block, delta, usage, fault span
	findMembers(b, span{0, len(b)}, field{"type", &kind}, field{"index", &nth}, field{"message", &message},
		field{"content_block", &block}, field{"delta", &delta}, field{"usage", &usage}, field{"error", &fault})
	index := integerAt(b, nth, 0)
	if t := textBytes(b, kind); len(t) > 0 {
		name = t
	}
	switch string(name) {
	case "message":
		r.readWholeMessage(b, span{0, len(b)})
	case "message_start":
		r.readWholeMessage(b, message)
	case "content_block_start":
		r.readBlock(b, block, index)
	case "content_block_delta":
		r.readBlockDelta(b, delta, index)
	case "message_delta":
		r.tokens.read(b, usage)
		r.readStopReason(b, member(b, delta, "stop_reason"))
	case "message_stop":
		r.ended, r.reply.Complete = true, true
	default:
		r.recordError(b, fault)
	}
}

func (r *ReplyReader) readStopReason(b []byte, reason span) {
	if s := shortText(b, reason); s != "" {
		r.reply.Finish, r.reply.Complete = s, true
	}
}

func (r *ReplyReader) readWholeMessage(b []byte, v span) {
	var id, model, reason, usage, content span
	findMembers(b, v, field{"id", &id}, field{"model", &model}, field{"stop_reason", &reason},
		field{"usage", &usage}, field{"content", &content})
	r.setIDAndModel(b, id, model)
	r.readStopReason(b, reason)
	r.tokens.read(b, usage)
	i := 0
	for e := range elements(b, content) {
		r.readBlock(b, e, i)
		i++
	}
}

// readBlock reads the beginning of a content block, or all of it. Thinking is not kept.
func (r *ReplyReader) readBlock(b []byte, v span, index int) {
	switch p := partAt(b, v); p.kind {
	case textPart:
		r.setText(r.itemAt(index), text(b, p.text))
	case callPart:
		c := blockCall(b, v)
		s := r.itemAt(index)
		s.isCall, s.id, s.name = true, c.ID, c.Name
		r.setText(s, c.Args)
		s.isComplete = true // unless deltas with the input follow
	case otherPart:
		if id := shortText(b, p.id); id != "" {
			r.itemAt(index).itemID = id
		}
		if bytes.HasSuffix(textBytes(b, member(b, v, "type")), []byte("_tool_use")) {
			s := r.itemAt(index)
			s.isHosted, s.isComplete = true, true // unless deltas with the input follow
			r.setText(s, string(member(b, v, "input").of(b)))
		}
	case resultPart:
	}
}

func (r *ReplyReader) readBlockDelta(b []byte, v span, index int) {
	switch string(textBytes(b, member(b, v, "type"))) {
	case "text_delta":
		r.addText(r.itemAt(index), b, member(b, v, "text"))
	case "input_json_delta":
		piece := member(b, v, "partial_json")
		if firstByteAt(b, piece) != '"' || piece.end-piece.start == 2 {
			return // the first piece is often empty, and a call without arguments has no further piece
		}
		s := r.callAt(index)
		if s == nil {
			return
		}
		if s.isComplete {
			r.setText(s, "")
			s.isComplete = false
		}
		r.addText(s, b, piece)
	}
}

func (r *ReplyReader) callAt(index int) *replyItem {
	if s := r.items.byIndex[index]; s != nil && (s.isCall || s.isHosted) {
		return s
	}
	return nil
}
