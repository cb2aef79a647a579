package wire

import "strings"

// Shaped says whether the request prescribes JSON for its answer: response_format, text.format,
// output_format.
func (r *Request) Shaped() bool {
	v := r.format
	if inner := member(r.Body, v, "format"); !inner.empty() {
		v = inner
	}
	return strings.HasPrefix(text(r.Body, member(r.Body, v, "type")), "json")
}

// Forced says whether the answer must be a call of a tool.
func (r *Request) Forced() bool {
	how := text(r.Body, r.choice)
	if kindAt(r.Body, r.choice) == '{' {
		how = text(r.Body, member(r.Body, r.choice, "type"))
	}
	return how != "" && how != "auto" && how != "none" && how != "allowed_tools"
}
