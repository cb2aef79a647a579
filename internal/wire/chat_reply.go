package wire

// chat reads a chunk of a chat completion, or a whole one.
func (r *ReplyReader) chat(b []byte) {
	var id, model, choices, usage, fault span
	locate(b, span{0, len(b)}, field{"id", &id}, field{"model", &model}, field{"choices", &choices},
		field{"usage", &usage}, field{"error", &fault})
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
	r.fail(b, fault)
}

func (r *ReplyReader) choice(b []byte, v span) {
	if kindAt(b, v) != '{' {
		return
	}
	var nth, delta, message, finish span
	locate(b, v, field{"index", &nth}, field{"delta", &delta}, field{"message", &message}, field{"finish_reason", &finish})
	index, whole := number(b, nth, 0), delta.empty()
	if whole {
		delta = message
	}
	r.rep.Choices = max(r.rep.Choices, index+1)
	if index != 0 {
		r.other(b, index, delta)
		return
	}
	if f := short(b, finish); f != "" {
		r.rep.Finish, r.rep.Complete = f, true
	}
	r.delta(b, delta, whole)
}

// textSlot is the index of the text among the slots of a chat reply; calls count from zero, and the
// texts of further choices stand below it.
const textSlot = -1

// other takes a piece of a choice that is not the first. A client may go on with any of them, so it
// must be known again.
func (r *ReplyReader) other(b []byte, index int, v span) {
	if index < 0 {
		return
	}
	var content, calls span
	locate(b, v, field{"content", &content}, field{"tool_calls", &calls})
	if kindAt(b, content) == '"' && content.end-content.start > 2 {
		r.add(r.slotAt(textSlot-index), b, content)
	}
	for c := range elements(b, calls) {
		if len(r.rep.others) < maxOthers {
			r.rep.others = appendKey(r.rep.others, "c:", short(b, member(b, c, "id")))
		}
	}
}

// maxOthers bounds what is kept of further choices.
const maxOthers = 64

// delta takes a piece of the first choice; whole says that it is all of it.
func (r *ReplyReader) delta(b []byte, v span, whole bool) {
	var content, calls, legacy, refusal, audio span
	locate(b, v, field{"content", &content}, field{"tool_calls", &calls}, field{"function_call", &legacy},
		field{"refusal", &refusal}, field{"audio", &audio})
	r.content(b, content)
	r.content(b, refusal)
	if id := short(b, member(b, audio, "id")); id != "" {
		r.slotAt(textSlot).itemID = id
	}
	for c := range elements(b, calls) {
		r.callDelta(b, c, whole)
	}
	if !legacy.empty() {
		s := r.callSlot(0, "")
		r.namedCall(s, b, legacy, "arguments")
		s.id = s.name // see chatCalls
	}
}

// content takes a piece of the text: a string, or parts as some servers send them.
func (r *ReplyReader) content(b []byte, v span) {
	switch kindAt(b, v) {
	case '"':
		if v.end-v.start > 2 {
			r.add(r.slotAt(textSlot), b, v)
		}
	case '[':
		for e := range elements(b, v) {
			if p := partAt(b, e); p.kind == textPart {
				r.content(b, p.text)
			}
		}
	}
}

// callDelta takes a piece of a tool call, or a whole one.
func (r *ReplyReader) callDelta(b []byte, v span, whole bool) {
	if kindAt(b, v) != '{' {
		return
	}
	var nth, own, function, custom span
	locate(b, v, field{"index", &nth}, field{"id", &own}, field{"function", &function}, field{"custom", &custom})
	index, id := number(b, nth, -1), short(b, own)
	args := member(b, function, "arguments")
	named := kindAt(b, member(b, function, "name")) == '"' && (whole || args.end-args.start > len(`""`))
	s := r.callSlot(index, id)
	if named && id == "" && s.id == "" && s.name != "" && (whole || s.whole()) {
		s = r.newCall(index)
	}
	if s.id == "" {
		s.id = id
	}
	r.namedCall(s, b, function, "arguments")
	r.namedCall(s, b, custom, "input")
}

// callSlot finds the call that a piece belongs to. Some servers give no index, some give every call
// the index 0: then another id says that another call begins, or where they give no ids either, a
// name behind arguments that are whole.
func (r *ReplyReader) callSlot(index int, id string) *slot {
	s := r.cur
	if index >= 0 {
		s = r.at[index]
	}
	if s == nil || id != "" && s.id != "" && s.id != id {
		s = r.newCall(index)
	}
	r.cur = s
	return s
}

func (r *ReplyReader) newCall(index int) *slot {
	if index < 0 {
		index = len(r.slots)
	}
	r.cur = r.newSlot(index)
	r.cur.isCall = true
	return r.cur
}

// namedCall takes {name, arguments} or {name, input}.
func (r *ReplyReader) namedCall(s *slot, b []byte, v span, with string) {
	var name, args span
	locate(b, v, field{"name", &name}, field{with, &args})
	if s.name == "" {
		s.name = short(b, name)
	}
	r.add(s, b, args)
}
