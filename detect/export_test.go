package detect

import "io"

// Bounds for tests of package detect_test.
const (
	CheckpointSize  = checkpointSize
	CheckpointSteps = checkpointSteps
	MaxSignature    = maxSignature
)

// Identities of calls and results.
var (
	CallKey   = callIdentity
	ResultSum = hashResult
)

// Verification returns the outcome of a test, lint or build run; ok is false for other calls and for runs
// without a known outcome.
func Verification(tool, args, text string) (kind string, passed, ok bool) {
	p := wording()
	call := p.analyseCall(tool, args)
	kind, passed = verification(&call, p.classify(&call, text, 0), text)
	return kind, passed, kind != ""
}

// Holds reports whether raw holds all words.
func Holds(raw []byte, words []string) bool { return hasAll(raw, needlesOf(words)) }

// PanicAhead inspects two lines on two goroutines, of which the second line causes a panic, and returns the
// recovered panic.
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
