package wire

// chat reads a chunk of a chat completion, or a whole completion.
func (r *ReplyReader) chat(b []byte) {
	var id, model, choices, usage, groq, fault span
	locate(b, span{0, len(b)}, field{"id", &id}, field{"model", &model}, field{"choices", &choices},
		field{"usage", &usage}, field{"x_groq", &groq}, field{"error", &fault})
	if r.rep.ID == "" {
		r.rep.ID = short(b, id)
	}
	if r.rep.Model == "" {
		r.rep.Model = short(b, model)
	}
	for c := range elements(b, choices) {
		r.choice(b, c)
	}
	r.tokens.read(b, usage)
	r.tokens.read(b, member(b, groq, "usage"))
	r.recordError(b, fault)
}

// choice reads a piece of a choice, or a whole choice.
func (r *ReplyReader) choice(b []byte, v span) {
	if kindAt(b, v) != '{' {
		return
	}
	var nth, delta, message, finish, usage span
	locate(b, v, field{"index", &nth}, field{"delta", &delta}, field{"message", &message}, field{"finish_reason", &finish},
		field{"usage", &usage})
	index, whole := number(b, nth, 0), delta.empty()
	if whole {
		delta = message
	}
	r.rep.Choices = max(r.rep.Choices, index+1)
	if index != 0 {
		r.otherChoice(b, index, delta)
		return
	}
	if f := short(b, finish); f != "" {
		r.rep.Finish, r.rep.Complete = f, true
	}
	r.tokens.read(b, usage) // Moonshot
	r.delta(b, delta, whole)
}

// textItem is the index of the text among the items of a chat reply. Calls count from zero, and the
// texts of further choices have lower indices.
const textItem = -1

// otherChoice reads a piece of a choice after the first. A client may continue with any choice, so
// otherChoice keeps the text and the call ids by which a later request with the choice is recognised.
func (r *ReplyReader) otherChoice(b []byte, index int, v span) {
	if index < 0 {
		return
	}
	var content, calls span
	locate(b, v, field{"content", &content}, field{"tool_calls", &calls})
	if kindAt(b, content) == '"' && content.end-content.start > 2 {
		r.add(r.itemAt(textItem-index), b, content)
	}
	for c := range elements(b, calls) {
		if len(r.rep.others) < maxOthers {
			r.rep.others = appendKey(r.rep.others, "c:", short(b, member(b, c, "id")))
		}
	}
}

// maxOthers bounds the number of call ids of further choices.
const maxOthers = 64

// delta reads a piece of the first choice; whole reports that the piece is the whole choice.
func (r *ReplyReader) delta(b []byte, v span, whole bool) {
	var content, calls, legacy, refusal, audio span
	locate(b, v, field{"content", &content}, field{"tool_calls", &calls}, field{"function_call", &legacy},
		field{"refusal", &refusal}, field{"audio", &audio})
	r.content(b, content)
	r.content(b, refusal)
	if id := short(b, member(b, audio, "id")); id != "" {
		r.itemAt(textItem).itemID = id
	}
	for c := range elements(b, calls) {
		r.callDelta(b, c, whole)
	}
	if !legacy.empty() {
		s := r.callItem(0, "")
		r.namedCall(s, b, legacy, "arguments")
		s.id = s.name // function_call has no id; see chatCalls
	}
}

// content reads a piece of the text: a string, or the list of parts that some servers send.
func (r *ReplyReader) content(b []byte, v span) {
	switch kindAt(b, v) {
	case '"':
		if v.end-v.start > 2 {
			r.add(r.itemAt(textItem), b, v)
		}
	case '[':
		for e := range elements(b, v) {
			if p := partAt(b, e); p.kind == textPart {
				r.content(b, p.text)
			}
		}
	}
}

// callDelta reads a piece of a tool call, or a whole call.
func (r *ReplyReader) callDelta(b []byte, v span, whole bool) {
	if kindAt(b, v) != '{' {
		return
	}
	var nth, own, function, custom span
	locate(b, v, field{"index", &nth}, field{"id", &own}, field{"function", &function}, field{"custom", &custom})
	index, id := number(b, nth, -1), short(b, own)
	args := member(b, function, "arguments")
	named := kindAt(b, member(b, function, "name")) == '"' && (whole || args.end-args.start > len(`""`))
	s := r.callItem(index, id)
	if named && id == "" && s.id == "" && s.name != "" && (whole || s.isWholeValue()) {
		s = r.newCall(index)
	}
	if s.id == "" {
		s.id = id
	}
	r.namedCall(s, b, function, "arguments")
	r.namedCall(s, b, custom, "input")
}

// callItem returns the call to which a piece belongs. Some servers send no index, or index 0 for
// every call. Then a new id starts a new call. Without ids, a name after complete arguments starts
// a new call.
func (r *ReplyReader) callItem(index int, id string) *replyItem {
	s := r.items.current
	if index >= 0 {
		s = r.items.at[index]
	}
	if s == nil || id != "" && s.id != "" && s.id != id {
		s = r.newCall(index)
	}
	r.items.current = s
	return s
}

// newCall adds a call with an index; a negative index means the next free one.
func (r *ReplyReader) newCall(index int) *replyItem {
	if index < 0 {
		index = len(r.items.list)
	}
	r.items.current = r.newItem(index)
	r.items.current.isCall = true
	return r.items.current
}

// namedCall reads {name, arguments} or {name, input}.
func (r *ReplyReader) namedCall(s *replyItem, b []byte, v span, key string) {
	var name, args span
	locate(b, v, field{"name", &name}, field{key, &args})
	if s.name == "" {
		s.name = short(b, name)
	}
	r.add(s, b, args)
}
