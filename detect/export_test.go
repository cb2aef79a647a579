package detect

// Unexported names for tests of package detect_test: bounds, identities of calls and results, and
// the outcome of a run.
const (
	CheckpointSize  = checkpointSize
	CheckpointSteps = checkpointSteps
	MaxSignature    = maxSignature
)

var (
	CallKey   = callKey
	ResultSum = resultSum
)

// Verification returns the outcome of a run as Signals reads the outcome.
func Verification(tool, args, text string) (kind string, passed, ok bool) {
	p := wording()
	call := p.analyseCall(tool, args)
	kind, passed = verification(&call, p.classify(&call, text, 0), text)
	return kind, passed, kind != ""
}

// Holds reports whether raw holds all words.
func Holds(raw []byte, words []string) bool { return hasAll(raw, needlesOf(words)) }
