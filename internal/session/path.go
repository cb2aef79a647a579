package session

import (
	"net/url"
	"strings"
)

// PathForm is what a client says in the path, when a base URL is all that it can set:
// /p/agent=coder,run=ci-42,session=one,role=reviewer,upstream=x/v1/...
type PathForm struct {
	Agent, Run, Session, Role, Skill, Upstream string
}

// ParsePath splits the escaped path into what it says and the path without the /p/ segment. A path
// that is not of this form is returned as it is, with false: /p/... without a known key may be an
// upstream's own.
func ParsePath(path string) (PathForm, string, bool) {
	var f PathForm
	after, ok := strings.CutPrefix(path, "/p/")
	if !ok {
		return f, path, false
	}
	segment, rest, slash := strings.Cut(after, "/")
	if !strings.Contains(segment, "=") { // some clients escape the signs as well
		segment = unescape(segment)
	}
	known := false
	for pair := range strings.SplitSeq(segment, ",") {
		key, value, _ := strings.Cut(pair, "=")
		known = f.set(key, value) || known
	}
	if !known {
		return PathForm{}, path, false
	}
	if !slash {
		return f, "/", true
	}
	return f, "/" + rest, true
}

// set takes one pair; of two with the same key the first holds.
func (f *PathForm) set(key, value string) bool {
	field, ok := map[string]*string{
		"agent": &f.Agent, "run": &f.Run, "session": &f.Session, "role": &f.Role, "skill": &f.Skill, "upstream": &f.Upstream,
	}[strings.ToLower(unescape(key))]
	if ok && *field == "" {
		*field = strings.Clone(Bounded(unescape(value))) // a session must not hold the path that it was cut out of
	}
	return ok
}

// unescape decodes %xx; what cannot be decoded is taken literally.
func unescape(s string) string {
	if d, err := url.PathUnescape(s); err == nil {
		return d
	}
	return s
}
