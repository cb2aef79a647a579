package wire

import "strings"

func (r *ReplyReader) readResponses(name, b []byte) {
	var kind, response, item, nth, delta, args, input, message, fault span
	findMembers(b, span{0, len(b)}, field{"type", &kind}, field{"response", &response}, field{"item", &item},
		field{"output_index", &nth}, field{"delta", &delta}, field{"arguments", &args}, field{"input", &input},
		field{"message", &message}, field{"error", &fault})
	index := integerAt(b, nth, 0)
	if t := textBytes(b, kind); len(t) > 0 {
		name = t
	}
	switch string(name) {
	case "":
		r.recordError(b, fault)
		switch {
		case r.mode != modeJSON:
		case r.reply.Error == "":
			r.readWholeResponse(b, span{0, len(b)}, "completed")
		default:
			r.readWholeResponse(b, span{0, len(b)}, "failed")
		}
	case "response.output_item.added":
		r.readOutputItem(b, item, index, false)
	case "response.output_item.done":
		r.readOutputItem(b, item, index, true)
	case "response.output_text.delta":
		if s := r.itemAt(index); !s.isComplete {
			r.addText(s, b, delta)
		}
	case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
		if s := r.itemAt(index); !s.isComplete {
			r.addArgs(s, b, delta)
		}
	case "response.function_call_arguments.done":
		r.setArgs(b, index, args)
	case "response.custom_tool_call_input.done":
		r.setArgs(b, index, input)
	case "error":
		r.recordError(b, message)
		r.recordError(b, fault)
	default:
		r.readWholeResponse(b, response, finalStatus(name))
	}
}

func finalStatus(name []byte) string {
	switch string(name) {
	case "response.completed", "response.done":
		return "completed"
	case "response.incomplete":
		return "incomplete"
	case "response.failed":
		return "failed"
	case "response.cancelled":
		return "cancelled"
	}
	return ""
}

func (r *ReplyReader) setArgs(b []byte, index int, v span) {
	if s := r.itemAt(index); !s.isComplete && (firstByteAt(b, v) == '"' || isArgsValue(b, v)) {
		s.isCall = true
		r.setText(s, argsText(b, v))
	}
}

// readWholeResponse reads a response object. If status is not empty, the object is the final one. The object's own
// status takes precedence.
func (r *ReplyReader) readWholeResponse(b []byte, v span, status string) {
	if firstByteAt(b, v) != '{' {
		return
	}
	var id, model, ownStatus, output, usage, fault span
	findMembers(b, v, field{"id", &id}, field{"model", &model}, field{"status", &ownStatus}, field{"output", &output},
		field{"usage", &usage}, field{"error", &fault})
	r.setIDAndModel(b, id, model)
	r.tokens.read(b, usage)
	if status == "" {
		return
	}
	if s := shortText(b, ownStatus); s != "" {
		status = s
	}
	r.recordError(b, fault)
	if status == "failed" && r.reply.Error == "" {
		r.reply.Error = "response failed"
	}
	r.reply.Finish, r.reply.Complete, r.ended = status, true, true
	if firstByteAt(b, output) == '[' && !r.allDone() {
		r.dropItems()
		i := 0
		for e := range elements(b, output) {
			r.readOutputItem(b, e, i, true)
			i++
		}
	}
}

func (r *ReplyReader) allDone() bool {
	for _, s := range r.items.list {
		if !s.isComplete {
			return false
		}
	}
	return len(r.items.list) > 0
}

func (r *ReplyReader) dropItems() {
	for _, s := range r.items.list {
		r.keptBytes -= s.len() + itemCost
	}
	r.items.list, r.items.byIndex = nil, nil
}

func (r *ReplyReader) readOutputItem(b []byte, v span, index int, done bool) {
	if firstByteAt(b, v) != '{' {
		return
	}
	f := responsesItemAt(b, v)
	s := r.itemAt(index)
	s.itemID = shortText(b, f.id)
	kind := text(b, f.kind)
	if c, ok := f.call(b, kind); ok {
		s.isCall, s.id, s.name = true, c.ID, c.Name
		if done {
			r.setText(s, c.Args)
		}
	} else if done && kind == "message" {
		r.setText(s, answerText(b, contentParts(b, f.content)))
	} else if done && strings.HasSuffix(kind, "_call") {
		s.isHosted = true
		r.setText(s, f.hostedArgs(b, v))
	}
	s.isComplete = s.isComplete || done
}
