package wire

import (
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// Some servers give their calls no ids, and some agents write calls and results as plain text. Such
// a call is named here by the place of what answers it: the same in every request while the list is
// only extended. It names nothing outside of its request.
const unnamedMark = "~"

// unnamed is the name of what item i answers.
func unnamed(i int) string { return unnamedMark + strconv.Itoa(i) }

// UnnamedCall is the name of the nth call that item i makes, where the wire has none.
func UnnamedCall(i, n int) string { return unnamed(i + 1 + n) }

// Unnamed says whether a call's id was made here, because the wire has none.
func Unnamed(callID string) bool { return strings.HasPrefix(callID, unnamedMark) }

// wireID is the id as it stands on the wire: what is made here depends on the place and is no part
// of a content's hash.
func wireID(callID string) string {
	if Unnamed(callID) {
		return ""
	}
	return callID
}

// nameCalls names the calls of item i that have no id: servers without ids are answered in the
// order of the calls.
func nameCalls(calls []Call, i int) {
	for n := range calls {
		if calls[n].ID == "" {
			calls[n].ID = UnnamedCall(i, n)
		}
	}
}

// isNamed says whether item i holds a tool result that is found by the id of its call.
func (r *Request) isNamed(i int) bool {
	results := r.resultsOf(i)
	return len(results) > 0 && (r.Dialect != Chat || results[0].call != xxhash.Sum64(nil))
}

// EchoCall is the key of a call by what it asks for. A reply without ids has nothing else in common
// with the request behind it. The arguments may come back with other spaces.
func EchoCall(c *Call) string {
	sum := uint64(0)
	if args := []byte(c.Args); len(args) > 0 && args[0] == '{' && valid(args) {
		sum = hashValue(args, span{0, len(args)})
	} else {
		sum = xxhash.Sum64String(strings.TrimSpace(c.Args))
	}
	return hex16(mix(xxhash.Sum64String(c.Name), sum))
}
