package detect

import (
	"io"

	"precept/internal/wire"
)

// The tests in package detect_test use these constants.
const (
	CheckpointSize  = checkpointSize
	CheckpointSteps = checkpointSteps
	MaxSignature    = maxSignature
)

// CallIdentity returns the hash by which Loops compares calls.
func CallIdentity(tool, args string) uint64 { return callIdentity(tool, args) }

// ResultHash returns the hash by which Loops compares successful results.
func ResultHash(text string) uint64 { return hashResult(text, false) }

// EndLinesHash returns a hash of the result's first two and last four lines. The hash is 0 if EndLinesHash does not
// read the result, for example because it is too long.
func EndLinesHash(text string) uint64 { return compiledPhrases().endsHash(text) }

// CountFullReads searches for loops. It counts the earlier results that the search hashed in full, and the results in
// which the search looked for the lines about the failure.
func CountFullReads(req *wire.Request) (hashed, searchedForFailure int) {
	h := &history{req: req, firstNew: req.FirstNew(), unreadEnd: req.End(), visitsLeft: maxVisits}
	h.readBatch()
	h.answerStart = h.unreadEnd
	h.findLoops(len(h.steps), func(s *step) bool { return s.item >= h.firstNew })
	for _, s := range h.steps[1:] {
		if s.memo.hasResultHash {
			hashed++
		}
		if s.memo.fingerprint != nil && s.memo.fingerprint.failureComputed {
			searchedForFailure++
		}
	}
	return hashed, searchedForFailure
}

// Verification returns the kind of a verification (test, lint or build) and whether the verification passed. ok is
// false for other calls and for runs without a known outcome.
func Verification(tool, args, text string) (kind string, passed, ok bool) {
	p := compiledPhrases()
	call := p.analyseCall(tool, args)
	kind, passed = verification(&call, p.classify(&call, text, 0), text)
	return kind, passed, kind != ""
}

func ContainsAllWords(raw []byte, words []string) bool { return containsAll(raw, newNeedles(words)) }

// InspectWithPanic inspects the line in raw twice, on two goroutines. The second inspection panics. InspectWithPanic
// recovers the panic on the calling goroutine and returns the cause.
func InspectWithPanic(raw []byte, emit func(Finding) error) (cause any) {
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

func InspectOn(n int, r io.Reader, emit func(Finding) error) error { return inspectOn(n, r, emit) }
