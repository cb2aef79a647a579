package detect

import (
	"encoding/binary"
	"slices"

	"precept/internal/wire"
)

// If the provider stores the conversation, a request contains only the new items. A checkpoint replaces the history. It
// has a version byte, and then the newest steps in checkpointSize bytes each. The session record stores the checkpoint
// between two requests.
const (
	checkpointVersion = 9
	checkpointSteps   = maxSteps
	checkpointSize    = 8 + 8 + 2 + 2 + 4 + 2 + 4 + 8 + 4 + 4 + 4 // identity, resultHash, code, batch, flags, locationHash, identityWithoutBudget, queryWords, toolHash, two message hashes
)

// flags returns pointers to the booleans that a checkpoint stores for a step, starting with the lowest bit. The caller
// passes two of them: failed, which means an error, and skipped, which means a pending or refused call.
func (s *step) flags(failed, skipped *bool) [17]*bool {
	return [...]*bool{
		&s.isUser, &s.turn.reportsChange, failed, skipped, &s.memo.traits.mayChange, &s.memo.traits.isRepeatable, &s.memo.isSilent, &s.hasWarning,
		&s.memo.waited, &s.memo.traits.isEdit, &s.memo.traits.isCheck,
		&s.memo.traits.isNote, &s.memo.traits.scrolls,
		&s.memo.onlyConfirms, &s.memo.isQuietPoll, &s.memo.showsPrompt, &s.memo.endsPrompt,
	}
}

// LoopsSince returns the loops in a request without history, and the checkpoint for the next request (next). checkpoint
// is what LoopsSince returned for the previous request, or nil. If a client sends a request again, the caller passes
// the same checkpoint again. warned and recall are as in Results.Loops.
func LoopsSince(
	checkpoint []byte, req *wire.Request, warned map[string]bool, recall func(callID string) (wire.Call, bool),
) (loops []Loop, next []byte) {
	old := readCheckpoint(checkpoint)
	h := &history{req: req, unreadEnd: req.Len(), visitsLeft: maxVisits, warnedCalls: warned, recall: recall}
	for h.readBatch() {
	}
	batch := uint16(1)
	if len(old) > 0 {
		batch = uint16(old[0].batch) + 1 //nolint:gosec // wraps around; only batches near each other are compared
	}
	h.steps = slices.DeleteFunc(h.steps, func(s *step) bool { return !s.isUser && s.call.result.tool == "" })
	for _, s := range h.steps {
		s.batch = int(batch)
	}
	count := len(h.steps)
	h.steps = append(h.steps, old...)
	loops = h.findLoops(count, func(s *step) bool { return !warned[s.callID] })
	return loops, writeCheckpoint(h.steps)
}

func writeCheckpoint(steps []*step) []byte {
	if len(steps) > checkpointSteps {
		steps = steps[:checkpointSteps]
	}
	out := make([]byte, 1, 1+len(steps)*checkpointSize)
	out[0] = checkpointVersion
	for _, s := range steps {
		var v Judgement
		var identity, resultHash uint64
		var withoutBudget, tool, message, withShortWords uint32
		if s.isUser {
			s.reportsChange()
		} else {
			v, identity, resultHash, withoutBudget, tool = s.judgement(), s.identity(), s.resultHash(), s.identityWithoutBudget(), s.toolHash()
		}
		if v.Outcome == Error {
			message = s.messageHash()
			if f := s.failureFingerprint(); !f.compareResult { // sameMessage compares a test only by message
				withShortWords = f.messageWithShortWords
			}
		}
		failed, skipped := v.Outcome == Error, v.Outcome == Pending || v.Outcome == Refusal
		var flags uint32
		for i, flag := range s.flags(&failed, &skipped) {
			if *flag {
				flags |= 1 << i
			}
		}
		out = binary.LittleEndian.AppendUint64(out, identity)
		out = binary.LittleEndian.AppendUint64(out, resultHash)
		out = binary.LittleEndian.AppendUint16(out, uint16(foldCode(v.Code))) //nolint:gosec // foldCode returns 16 bits
		out = binary.LittleEndian.AppendUint16(out, uint16(s.batch))          //nolint:gosec // LoopsSince numbers batches with 16 bits
		out = binary.LittleEndian.AppendUint32(out, flags)
		out = binary.LittleEndian.AppendUint16(out, uint16(s.memo.locationHash)) //nolint:gosec // a hash of 16 bits
		out = binary.LittleEndian.AppendUint32(out, withoutBudget)
		out = binary.LittleEndian.AppendUint64(out, s.memo.queryWords)
		out = binary.LittleEndian.AppendUint32(out, tool)
		out = binary.LittleEndian.AppendUint32(out, message)
		out = binary.LittleEndian.AppendUint32(out, withShortWords)
	}
	return out
}

// readCheckpoint returns a checkpoint's steps, or nil for invalid bytes or a different version.
func readCheckpoint(state []byte) []*step {
	if len(state) < 1 || state[0] != checkpointVersion || (len(state)-1)%checkpointSize != 0 {
		return nil
	}
	var steps []*step
	for b := state[1:]; len(b) > 0; b = b[checkpointSize:] {
		s := &step{
			batch: int(binary.LittleEndian.Uint16(b[18:])),
			turn:  userTurn{parsed: true},
			memo: stepMemo{
				identity: binary.LittleEndian.Uint64(b), hasIdentity: true,
				resultHash: binary.LittleEndian.Uint64(b[8:]), hasResultHash: true, hasEndsHash: true, // an endsHash of 0 means that the hash is unknown
				locationHash:          uint64(binary.LittleEndian.Uint16(b[24:])),
				identityWithoutBudget: binary.LittleEndian.Uint32(b[26:]), hasIdentityWithoutBudget: true,
				queryWords: binary.LittleEndian.Uint64(b[30:]),
				traits:     callTraits{computed: true}, hasJudgement: true,
				toolHash: binary.LittleEndian.Uint32(b[38:]),
				fingerprint: &callFingerprint{ // isVariation needs the words, which are unknown
					message: binary.LittleEndian.Uint32(b[42:]), messageWithShortWords: binary.LittleEndian.Uint32(b[46:]), failureComputed: true,
				},
			},
			call: &judgedCall{analysis: &toolCall{}, hasJudgement: true, judgement: Judgement{
				Outcome: OK,
				Code:    int(int16(binary.LittleEndian.Uint16(b[16:]))), //nolint:gosec // restores the sign
			}},
		}
		var failed, skipped bool
		for i, flag := range s.flags(&failed, &skipped) {
			*flag = binary.LittleEndian.Uint32(b[20:])&(1<<i) != 0
		}
		if failed {
			s.call.judgement.Outcome = Error
		} else if skipped {
			s.call.judgement.Outcome = Refusal
		}
		steps = append(steps, s)
		if len(steps) == checkpointSteps {
			break
		}
	}
	return steps
}
