package session

import (
	"hash/fnv"
	"slices"

	"precept/internal/label"
	"precept/internal/wire"
)

// SideDetector holds functions from package detect, which knows how agents word side requests.
type SideDetector struct {
	// SideKind returns the kind of housekeeping that the request asks for, or "" for an ordinary request.
	SideKind func(req *wire.Request) string
	// WorksWithTools reports whether agents with this User-Agent product always send tools. Their requests without
	// tools are side requests.
	WorksWithTools func(product string) bool
}

// SideReason reports whether and why the request is a side request. Side requests are forwarded unchanged, and are not
// in the experiment.
func (r *Record) SideReason(req *wire.Request, c Claim, s SideDetector) (reason label.Reason, side bool) {
	if req.NoGeneration {
		return label.SideWarmUp, true
	}
	if req.RequestsCompaction {
		return label.SideCompact, true
	}
	if s.SideKind != nil {
		if reason := s.SideKind(req); reason != "" {
			return label.Reason(reason), true
		}
	}
	if r.answersCall(req) {
		return "", false
	}
	if len(req.Tools) == 0 {
		if r.Agents.HasTools && slices.Contains(r.Agents.PromptsWithoutTools, req.SystemHash) && r.continues(req) {
			return "", false // an agent without tools continues
		}
		if r.Agents.HasTools || s.WorksWithTools != nil && s.WorksWithTools(c.Product) {
			return label.SideNoTools, true
		}
		return "", false
	}
	if r.Agents.HasTools && req.ToolsHash != r.Agents.ToolsHash && !r.isSameAgent(req) && !r.returnsToFormerAgent(req) {
		return label.SideTools, true
	}
	return "", false
}

// isSameAgent reports whether the request comes from the conversation's agent, although the tools have changed. The
// system prompt is the same, or a tool server that started late has added tools. A sub-agent or an agent that extracts
// memories has a different system prompt.
func (r *Record) isSameAgent(req *wire.Request) bool {
	system, continues := req.SystemHash == r.Agents.SystemHash, r.continues(req)
	names := shortNames(req.Tools)
	dropped := slices.ContainsFunc(r.Agents.ToolNames, func(n uint32) bool { return !containsSorted(names, n) })
	onlyAdded := len(r.Agents.ToolNames) > 0 && !dropped
	return system && continues || onlyAdded && (system || continues)
}

// maxAgents bounds the lists of system prompts in Agents.
const maxAgents = 8

func (r *Record) addAgent(req *wire.Request) {
	isKnown := r.Agents.HasTools && r.Agents.ToolsHash == req.ToolsHash
	switch {
	case len(req.Tools) > 0 && !isKnown:
		r.addTools(req)
	case len(req.Tools) == 0 && r.Agents.HasTools && req.SystemHash != r.Agents.SystemHash:
		r.Agents.PromptsWithoutTools = addAgentHash(r.Agents.PromptsWithoutTools, req.SystemHash)
	}
}

// addTools stores the tools of the first agent, or of a different agent that continues the conversation. From the same
// agent, it stores only a longer list, because the agent is expected to send the longer list again.
func (r *Record) addTools(req *wire.Request) {
	names := shortNames(req.Tools)
	switch {
	case !r.Agents.HasTools:
		r.Agents.SystemHash = req.SystemHash
	case r.answersCall(req) || r.returnsToFormerAgent(req):
		if req.SystemHash != r.Agents.SystemHash {
			r.Agents.PreviousPrompts = addAgentHash(r.Agents.PreviousPrompts, r.Agents.SystemHash) // the earlier agent may continue later
		}
		r.Agents.SystemHash = req.SystemHash
	case len(names) < len(r.Agents.ToolNames):
		return
	}
	r.Agents.HasTools, r.Agents.ToolsHash, r.Agents.ToolNames = true, req.ToolsHash, names
}

func addAgentHash(list []uint64, system uint64) []uint64 {
	if len(list) == maxAgents || slices.Contains(list, system) {
		return list
	}
	return append(list, system)
}

func (r *Record) returnsToFormerAgent(req *wire.Request) bool {
	return req.SystemHash != r.Agents.SystemHash && slices.Contains(r.Agents.PreviousPrompts, req.SystemHash) && r.continues(req)
}

const maxToolNames = 256

func shortNames(names []string) []uint32 {
	out := make([]uint32, 0, min(len(names), maxToolNames))
	for _, n := range names[:min(len(names), maxToolNames)] {
		h := fnv.New32a()
		_, _ = h.Write([]byte(n))
		out = append(out, h.Sum32())
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func haveCommonName(a, b []uint32) bool {
	return slices.ContainsFunc(a, func(n uint32) bool { return containsSorted(b, n) })
}

func containsSorted(sorted []uint32, n uint32) bool {
	_, ok := slices.BinarySearch(sorted, n)
	return ok
}
