package detect

import (
	"io"
	"runtime"
	"slices"

	"precept/internal/wire"
)

// Finding is a tool result, a loop or the user's opinion in a transcript. `precept inspect --json` prints findings as
// JSON.
type Finding struct {
	Source string `json:"source"`
	ID     string `json:"id"`
	Index  int    `json:"index"` // item index in the conversation, from 0
	Kind   string `json:"kind"`  // tool_result | loop | user
	Label  string `json:"label,omitempty"`

	Rule string `json:"-"` // rule that decided; only the text output shows it
	Tool string `json:"-"` // tool name if the finding is a result or a loop
}

// Finding kinds.
const (
	KindResult = "tool_result"
	KindLoop   = "loop"
	KindUser   = "user"
)

// Inspect reads transcripts, as ReadTranscripts does. It calls emit with each finding, in the order of the transcript.
// The calls never overlap, but can come from different goroutines.
func Inspect(r io.Reader, emit func(Finding) error) error {
	return inspectOn(min(runtime.GOMAXPROCS(0), maxInspectors), r, emit)
}

// inspectOn inspects transcripts on n goroutines. If n is 1, the caller's goroutine reads and inspects.
func inspectOn(n int, r io.Reader, emit func(Finding) error) error {
	var pool *inspectors
	if n > 1 {
		pool = startInspectors(n, emit)
		defer pool.close()
	}
	return readTranscripts(r, func(t Transcript) error {
		return inspectList(t.Request, func(f Finding, _ func() Explanation) error {
			f.Source, f.ID = t.Source, t.ID
			return emit(f)
		})
	}, pool)
}

// inspectList emits one conversation's findings in the order in which a proxy would find them.
func inspectList(req *wire.Request, emit func(f Finding, explain func() Explanation) error) error {
	t := inspection{req: req, emit: emit, firstBatch: map[uint64]int{}, seenPrefixes: map[uint64]bool{}, visitsLeft: maxVisits}
	old := map[Judgement]*judgedCall{}
	for from := 0; from < req.Len(); {
		to := from
		for to < req.Len() && req.Role(to) == wire.RoleAssistant {
			to++
		}
		for to < req.Len() && req.Role(to) != wire.RoleAssistant {
			to++
		}
		judgedCount := len(t.steps)
		t.readBatch(to)
		t.findLoops(t.steps[judgedCount:])
		for i := from; i < to; i++ {
			t.bytesSinceForget += len(req.Raw(i))
			if err := t.emitItem(i); err != nil {
				return err
			}
		}
		for _, s := range t.steps[judgedCount:] {
			s.dropText(req, old)
		}
		if t.bytesSinceForget > maxDecodedBytes {
			req.Forget()
			t.bytesSinceForget = 0
		}
		from = to
	}
	return nil
}

// visitsPerStep is the average number of earlier steps that may be read per step. It keeps the cost linear.
const visitsPerStep = 64

// maxDecodedBytes is the maximum raw size of the items that are kept in decoded form.
const maxDecodedBytes = 1 << 20

type inspection struct {
	req              *wire.Request
	emit             func(Finding, func() Explanation) error
	steps            []*step         // the oldest first
	emittedSteps     int             // number of steps that emitItem has passed
	loops            []Loop          // found but not emitted, oldest first
	finder           loopFinder      // drops the second loop if equal calls are in one answer
	firstBatch       map[uint64]int  // first batch with a call; by step.identity and step.identityWithoutBudget
	seenPrefixes     map[uint64]bool // step.hashPrefix of all results
	batchNumber      int
	visitsLeft       int    // earlier steps that may still be read
	bytesSinceForget int    // size of the items read since decoded items were last dropped
	answer           string // newest assistant text
}

func (in *inspection) readBatch(end int) { // end is the index after the batch's last item
	h := history{req: in.req, firstNew: in.req.Len(), unreadEnd: end, batchNumber: in.batchNumber}
	h.readBatch()
	in.batchNumber = h.batchNumber
	in.visitsLeft += visitsPerStep * len(h.steps)
	for _, s := range slices.Backward(h.steps) {
		in.steps = append(in.steps, s)
	}
}

func (in *inspection) findLoops(steps []*step) {
	mayLoop := func(s *step) bool {
		repeats := s.hasCall || !s.isUser && (s.judgement().Outcome == Error || in.seenPrefixes[s.hashPrefix()])
		for _, key := range []uint64{s.identity(), uint64(s.identityWithoutBudget())} {
			batch, ok := in.firstBatch[key]
			if !ok {
				batch, in.firstBatch[key] = s.batch, s.batch
			}
			repeats = repeats || key != 0 && batch != s.batch
		}
		if !s.isUser {
			in.seenPrefixes[s.hashPrefix()] = true
		}
		return repeats
	}
	before := len(in.steps) - len(steps)
	for i, s := range steps {
		loop, ok := in.finder.find(s, mayLoop, func(back int) *step {
			if in.visitsLeft--; in.visitsLeft < 0 || back > before+i {
				return nil
			}
			return in.steps[before+i-back]
		})
		if ok {
			in.loops = append(in.loops, loop)
		}
	}
}

func (in *inspection) emitItem(i int) error {
	if in.req.Role(i) == wire.RoleAssistant {
		in.answer = newestAnswer(in.req.Item(i), in.answer)
	}
	for ; in.emittedSteps < len(in.steps) && in.steps[in.emittedSteps].item == i; in.emittedSteps++ {
		s := in.steps[in.emittedSteps]
		if s.isUser {
			continue
		}
		v := s.judgement()
		if err := in.emit(Finding{
			Index: i, Kind: KindResult, Label: string(v.Outcome), Rule: v.Rule, Tool: s.call.result.tool,
		}, func() Explanation { return explainResult(s) }); err != nil {
			return err
		}
	}
	for ; len(in.loops) > 0 && in.loops[0].Index == i; in.loops = in.loops[1:] {
		l := in.loops[0]
		if err := in.emit(Finding{Index: i, Kind: KindLoop, Rule: l.Rule, Tool: l.Tool}, func() Explanation { return in.explainLoop(l) }); err != nil {
			return err
		}
	}
	return in.emitOpinion(i)
}

func (in *inspection) emitOpinion(i int) error {
	if in.req.Role(i) != wire.RoleUser {
		return nil
	}
	it := in.req.Item(i)
	if it.ResultInferred() || it.UserText == "" && (it.Text == "" || len(it.Results) > 0) {
		return nil
	}
	opinion := ClassifyTurn(it.Text, it.UserText, in.answer)
	answer := in.answer
	return in.emit(Finding{Index: i, Kind: KindUser, Label: string(opinion.Feeling), Rule: opinion.Rule},
		func() Explanation { return explainTurn(it.Text, it.UserText, answer, opinion) })
}

func (in *inspection) explainLoop(l Loop) Explanation {
	var newest *step
	for _, s := range slices.Backward(in.steps) {
		switch {
		case s.isUser:
		case newest == nil:
			if s.item == l.Index && s.callID == l.CallID && s.call.result.args == l.Args {
				newest = s
			}
		case s.batch != newest.batch && (sameCall(newest, s) || newest.identityWithoutBudget() != 0 && s.identityWithoutBudget() == newest.identityWithoutBudget()):
			e := explainResult(newest)
			e.EarlierItem = &s.item
			return e
		}
	}
	if newest == nil {
		return Explanation{Args: cutRunes(l.Args, maxExplainedBytes)}
	}
	return explainResult(newest)
}
