package detect

import "io"

// Unexported names for tests of package detect_test: bounds, identities of calls and results, and
// the outcome of a run.
const (
	CheckpointSize  = checkpointSize
	CheckpointSteps = checkpointSteps
	MaxSignature    = maxSignature
)

var (
	CallKey   = callIdentity
	ResultSum = hashResult
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

// PanicAhead inspects two lines, panics in the inspection of the second, and returns the recovered panic.
func PanicAhead(raw []byte, emit func(Finding) error) (cause any) {
	p := startInspectors(2, emit)
	defer p.close()
	inspect := p.judge
	p.judge = func(l *inspectedLine) {
		if l.start == 2 {
			panic("broken line")
		}
		inspect(l)
	}
	defer func() { cause = recover() }()
	_, _ = p.add(raw, 1), p.add(raw, 2)
	_ = p.drain()
	return nil
}

// InspectOn is Inspect on n goroutines, or in turn for n = 1.
func InspectOn(n int, r io.Reader, emit func(Finding) error) error { return inspectOn(n, r, emit) }
