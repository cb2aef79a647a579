package detect

import "io"

// Constants of the package for the tests in package detect_test.
const (
	CheckpointSize  = checkpointSize
	CheckpointSteps = checkpointSteps
	MaxSignature    = maxSignature
)

// Hashes of calls and results. Calls, or results, with the same hash count as equal.
var (
	CallKey   = callIdentity
	ResultSum = hashResult
)

// Verification returns the kind and the outcome of a test, lint or build run. ok is false for another call, and for a
// run without a known outcome.
func Verification(tool, args, text string) (kind string, passed, ok bool) {
	p := wording()
	call := p.analyseCall(tool, args)
	kind, passed = verification(&call, p.classify(&call, text, 0), text)
	return kind, passed, kind != ""
}

// Holds reports whether raw holds all words.
func Holds(raw []byte, words []string) bool { return hasAll(raw, needlesOf(words)) }

// PanicAhead inspects the same line twice on two goroutines, as line 1 and as line 2. The inspection of line 2 panics.
// PanicAhead returns the recovered value.
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

// InspectOn is Inspect with n goroutines.
func InspectOn(n int, r io.Reader, emit func(Finding) error) error { return inspectOn(n, r, emit) }
