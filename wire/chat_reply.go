package wire

// chat reads a chunk of a chat completion, or a whole one.
func (r *ReplyReader) chat(b []byte) {
	for k, v := range members(b, 0) {
		switch string(k) {
		case "id":
			if r.rep.ID == "" {
				r.rep.ID = short(b, v)
			}
		case "model":
			if r.rep.Model == "" {
				r.rep.Model = short(b, v)
			}
		case "choices":
			if kindAt(b, v) == '[' {
				for c := range elements(b, v.start) {
					r.choice(b, c)
				}
			}
		case "usage":
			r.tokens.read(b, v)
		case "error":
			r.fail(b, v)
		}
	}
}

func (r *ReplyReader) choice(b []byte, v span) {
	if kindAt(b, v) != '{' {
		return
	}
	var delta, finish span
	index, whole := 0, false
	for k, m := range members(b, v.start) {
		switch string(k) {
		case "index":
			index = number(b, m, 0)
		case "delta", "message":
			delta, whole = m, string(k) == "message"
		case "finish_reason":
			finish = m
		}
	}
	if index+1 > r.rep.Choices {
		r.rep.Choices = index + 1
	}
	if index != 0 {
		r.other(b, index, delta)
		return
	}
	if f := short(b, finish); f != "" {
		r.rep.Finish, r.rep.Complete = f, true
	}
	if kindAt(b, delta) == '{' {
		r.delta(b, delta, whole)
	}
}

// textSlot is the index of the text among the slots of a chat reply; calls count from zero, and the
// texts of further choices stand below it.
const textSlot = -1

// other takes a piece of a choice that is not the first. A client may go on with any of them, so it
// must be known again.
func (r *ReplyReader) other(b []byte, index int, v span) {
	if index < 0 || kindAt(b, v) != '{' {
		return
	}
	for k, m := range members(b, v.start) {
		switch string(k) {
		case "content":
			if kindAt(b, m) == '"' && m.end-m.start > 2 {
				r.add(r.slotAt(textSlot-index), b, m)
			}
		case "tool_calls":
			if kindAt(b, m) != '[' {
				continue
			}
			for c := range elements(b, m.start) {
				if kindAt(b, c) == '{' && len(r.rep.others) < maxOthers {
					r.rep.others = appendKey(r.rep.others, "c:", short(b, member(b, c, "id")))
				}
			}
		}
	}
}

// maxOthers bounds what is kept of further choices.
const maxOthers = 64

// delta takes a piece of the first choice; whole says that it is all of it.
func (r *ReplyReader) delta(b []byte, v span, whole bool) {
	for k, m := range members(b, v.start) {
		switch string(k) {
		case "content":
			r.content(b, m)
		case "tool_calls":
			if kindAt(b, m) == '[' {
				for c := range elements(b, m.start) {
					r.callDelta(b, c, whole)
				}
			}
		case "function_call":
			s := r.callSlot(0, "")
			r.namedCall(s, b, m, "arguments")
			s.id = s.name // see chatCalls
		}
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
		for e := range elements(b, v.start) {
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
	var function, custom span
	index, id := -1, ""
	for k, m := range members(b, v.start) {
		switch string(k) {
		case "index":
			index = number(b, m, -1)
		case "id":
			id = short(b, m)
		case "function":
			function = m
		case "custom":
			custom = m
		}
	}
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
func (r *ReplyReader) namedCall(s *slot, b []byte, v span, args string) {
	if kindAt(b, v) != '{' {
		return
	}
	for k, m := range members(b, v.start) {
		switch string(k) {
		case "name":
			if s.name == "" {
				s.name = short(b, m)
			}
		case args:
			r.add(s, b, m)
		}
	}
}
