package wire

func (r *ReplyReader) readChat(b []byte) {
	var id, model, choices, usage, groq, fault span
	findMembers(b, span{0, len(b)}, field{"id", &id}, field{"model", &model}, field{"choices", &choices},
		field{"usage", &usage}, field{"x_groq", &groq}, field{"error", &fault})
	if r.reply.ID == "" {
		r.reply.ID = shortText(b, id)
	}
	if r.reply.Model == "" {
		r.reply.Model = shortText(b, model)
	}
	for c := range elements(b, choices) {
		r.readChoice(b, c)
	}
	r.tokens.read(b, usage)
	r.tokens.read(b, member(b, groq, "usage"))
	r.recordError(b, fault)
}

func (r *ReplyReader) readChoice(b []byte, v span) {
	if firstByteAt(b, v) != '{' {
		return
	}
	var nth, delta, message, finish, usage span
	findMembers(b, v, field{"index", &nth}, field{"delta", &delta}, field{"message", &message}, field{"finish_reason", &finish},
		field{"usage", &usage})
	index, whole := integerAt(b, nth, 0), delta.empty()
	if whole {
		delta = message
	}
	r.reply.Choices = max(r.reply.Choices, index+1)
	if index != 0 {
		r.readOtherChoice(b, index, delta)
		return
	}
	if f := shortText(b, finish); f != "" {
		r.reply.Finish, r.reply.Complete = f, true
	}
	r.tokens.read(b, usage) // Moonshot
	r.readDelta(b, delta, whole)
}

// textItemIndex is the replyItem index for the first choice's text. Calls have higher indices, and texts in later
// choices have lower indices.
const textItemIndex = -1

// readOtherChoice keeps the text and call ids from a choice after the first. They identify the next request if the
// client continues with this choice.
func (r *ReplyReader) readOtherChoice(b []byte, index int, v span) {
	if index < 0 {
		return
	}
	var content, calls span
	findMembers(b, v, field{"content", &content}, field{"tool_calls", &calls})
	if firstByteAt(b, content) == '"' && content.end-content.start > 2 {
		r.addText(r.itemAt(textItemIndex-index), b, content)
	}
	for c := range elements(b, calls) {
		if len(r.reply.otherKeys) < maxOtherKeys {
			r.reply.otherKeys = appendKey(r.reply.otherKeys, "c:", shortText(b, member(b, c, "id")))
		}
	}
}

const maxOtherKeys = 64

func (r *ReplyReader) readDelta(b []byte, v span, isComplete bool) {
	var content, calls, legacy, refusal, audio span
	findMembers(b, v, field{"content", &content}, field{"tool_calls", &calls}, field{"function_call", &legacy},
		field{"refusal", &refusal}, field{"audio", &audio})
	r.readContent(b, content)
	r.readContent(b, refusal)
	if id := shortText(b, member(b, audio, "id")); id != "" {
		r.itemAt(textItemIndex).itemID = id
	}
	for c := range elements(b, calls) {
		r.readCallDelta(b, c, isComplete)
	}
	if !legacy.empty() {
		s := r.callItem(0, "")
		r.readNamedCall(s, b, legacy, "arguments")
		s.id = s.name // see chatCalls
	}
}

func (r *ReplyReader) readContent(b []byte, v span) {
	switch firstByteAt(b, v) {
	case '"':
		if v.end-v.start > 2 {
			r.addText(r.itemAt(textItemIndex), b, v)
		}
	case '[':
		for e := range elements(b, v) {
			if p := partAt(b, e); p.kind == textPart {
				r.readContent(b, p.text)
			}
		}
	}
}

// readCallDelta reads a fragment of a tool call. If the call has no id, a name after complete arguments starts a new
// call.
func (r *ReplyReader) readCallDelta(b []byte, v span, isComplete bool) {
	if firstByteAt(b, v) != '{' {
		return
	}
	var nth, ownID, function, custom span
	findMembers(b, v, field{"index", &nth}, field{"id", &ownID}, field{"function", &function}, field{"custom", &custom})
	index, id := integerAt(b, nth, -1), shortText(b, ownID)
	args := member(b, function, "arguments")
	named := firstByteAt(b, member(b, function, "name")) == '"' && (isComplete || isArgsValue(b, args) || args.end-args.start > len(`""`))
	s := r.callItem(index, id)
	if named && id == "" && s.id == "" && s.name != "" && (isComplete || s.isWholeValue()) {
		s = r.newCall(index)
	}
	if s.id == "" {
		s.id = id
	}
	r.readNamedCall(s, b, function, "arguments")
	r.readNamedCall(s, b, custom, "input")
}

// callItem returns the call to which a fragment belongs. A new id starts a new call, because some servers send no
// index, or always index 0.
func (r *ReplyReader) callItem(index int, id string) *replyItem {
	s := r.items.current
	if index >= 0 {
		s = r.items.byIndex[index]
	}
	if s == nil || id != "" && s.id != "" && s.id != id {
		s = r.newCall(index)
	}
	r.items.current = s
	return s
}

func (r *ReplyReader) newCall(index int) *replyItem {
	if index < 0 {
		index = len(r.items.list)
	}
	r.items.current = r.newItem(index)
	r.items.current.isCall = true
	return r.items.current
}

func (r *ReplyReader) readNamedCall(s *replyItem, b []byte, v span, key string) {
	var name, args span
	findMembers(b, v, field{"name", &name}, field{key, &args})
	if s.name == "" {
		s.name = shortText(b, name)
	}
	r.addArgs(s, b, args)
}
