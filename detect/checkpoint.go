package detect

import (
	"encoding/binary"
	"slices"

	"precept/wire"
)

// Requests that continue a conversation which the provider keeps hold only what is new. The
// detector then carries the last answered calls itself: a few bytes each, in the session's record.
const (
	deltaVersion = 1
	deltaSteps   = 64
	deltaSize    = 8 + 8 + 2 + 2 + 2 // key, sum, code, batch, flags
)

// flags are what is carried of a step in one bit each, the lowest first; skipped is pending or
// refused.
func (s *step) flags(failed, skipped *bool) [8]*bool {
	return [...]*bool{&s.person, &s.reopens, failed, skipped, &s.changing, &s.repeats, &s.silent, &s.warned}
}

// LoopsDelta is Loops for requests that do not hold their history: state is what the last call
// returned (nil at first), next what to keep. A retry must be given the state of its first attempt.
// mem knows the calls of the replies.
func LoopsDelta(
	state []byte, req *wire.Request, warned map[string]bool, mem func(callID string) (wire.Call, bool),
) (loops []Loop, next []byte) {
	old := readDelta(state)
	w := &walker{req: req, next: req.Len(), visits: maxVisits, warned: warned, mem: mem}
	for w.fill() {
	}
	batch := uint16(1)
	if len(old) > 0 {
		batch = uint16(old[0].batch) + 1 //nolint:gosec // wraps around, and only neighbours are compared
	}
	w.steps = slices.DeleteFunc(w.steps, func(s *step) bool { return !s.person && s.tool == "" })
	for _, s := range w.steps {
		s.batch = int(batch)
	}
	fresh := len(w.steps)
	w.steps = append(w.steps, old...)
	loops = w.judgeNew(fresh, maxLoops, func(s *step) bool { return !warned[s.callID] })
	return loops, writeDelta(w.steps)
}

// writeDelta keeps the newest steps, newest first.
func writeDelta(steps []*step) []byte {
	if len(steps) > deltaSteps {
		steps = steps[:deltaSteps]
	}
	out := make([]byte, 1, 1+len(steps)*deltaSize)
	out[0] = deltaVersion
	for _, s := range steps {
		var v Judgement
		var key, sum uint64
		if s.person {
			s.opens()
		} else {
			v, key, sum = s.outcome(), s.identity(), s.result()
		}
		failed, skipped := v.Outcome == Error, v.Outcome == Pending || v.Outcome == Refusal
		var flags uint16
		for i, flag := range s.flags(&failed, &skipped) {
			if *flag {
				flags |= 1 << i
			}
		}
		out = binary.LittleEndian.AppendUint64(out, key)
		out = binary.LittleEndian.AppendUint64(out, sum)
		out = binary.LittleEndian.AppendUint16(out, uint16(v.Code))  //nolint:gosec // small
		out = binary.LittleEndian.AppendUint16(out, uint16(s.batch)) //nolint:gosec // see LoopsDelta
		out = binary.LittleEndian.AppendUint16(out, flags)
	}
	return out
}

// readDelta reads what writeDelta wrote; anything else is no memory at all.
func readDelta(state []byte) []*step {
	if len(state) < 1 || state[0] != deltaVersion || (len(state)-1)%deltaSize != 0 {
		return nil
	}
	var steps []*step
	for b := state[1:]; len(b) > 0; b = b[deltaSize:] {
		s := &step{
			key: binary.LittleEndian.Uint64(b), keyed: true,
			sum: binary.LittleEndian.Uint64(b[8:]), summed: true,
			batch: int(binary.LittleEndian.Uint16(b[18:])),
			heard: true, placed: true, weighed: true,
			judgedCall: &judgedCall{looked: true, ruled: true, judgement: Judgement{
				Outcome: OK,
				Code:    int(int16(binary.LittleEndian.Uint16(b[16:]))), //nolint:gosec // as written
			}},
		}
		var failed, skipped bool
		for i, flag := range s.flags(&failed, &skipped) {
			*flag = binary.LittleEndian.Uint16(b[20:])&(1<<i) != 0
		}
		if failed {
			s.judgement.Outcome = Error
		} else if skipped {
			s.judgement.Outcome = Refusal
		}
		steps = append(steps, s)
		if len(steps) == deltaSteps {
			break
		}
	}
	return steps
}
