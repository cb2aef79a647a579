package detect

// What tests of the public face need to know of the inside: bounds, the identity of calls and
// results, and the outcome of a run by itself.
const (
	CheckpointSize  = checkpointSize
	CheckpointSteps = checkpointSteps
	MaxSignature    = maxSignature
)

var (
	CallKey   = callKey
	ResultSum = resultSum
)

// Verification reads the outcome of a run as Signals does.
func Verification(tool, args, text string) (kind string, passed, ok bool) {
	p := wording()
	call := p.lookAt(tool, args)
	kind, passed = verification(&call, p.classify(&call, text, 0), text)
	return kind, passed, kind != ""
}

// Holds says whether all of the words stand in raw.
func Holds(raw []byte, words []string) bool { return holds(raw, needlesOf(words)) }
