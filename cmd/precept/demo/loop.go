package demo

import (
	"context"
	"fmt"
	"strings"
)

// For one ticket in loopTicketInterval, an additional agent repeats a failing call. It stops when a loop warning is
// inserted, or after maxLoopCalls calls.
const (
	loopTicketInterval = 400
	maxLoopCalls       = 6
	loopTicketPrefix   = "PIPELINE-"
	loopError          = "Exit code 2\nmake: *** No rule to make target 'build'.  Stop."
)

// StoppedLoops returns how many agents a loop warning stopped, and how many equal calls the first of these agents had
// made.
func (f *Fleet) StoppedLoops() (stoppedAgents, calls int64) {
	return f.loops.stoppedAgents.Load(), f.loops.calls.Load()
}

func (f *Fleet) runLoopingAgent(ctx context.Context, n int) error {
	t := f.World.ticket(n)
	list := []message{
		{Role: "system", Content: "You run the builds."},
		userMessage(fmt.Sprintf("Get %s%06d to build: make build.", loopTicketPrefix, n)),
	}
	for calls := int64(0); ; calls++ {
		id, m, err := f.chat(ctx, t.agent, t.model, list, "run")
		if err != nil {
			return err
		}
		if len(m.ToolCalls) == 0 {
			if succeeded(m) {
				f.loops.calls.CompareAndSwap(0, calls)
				f.loops.stoppedAgents.Add(1)
			}
			return f.rate(ctx, id, succeeded(m))
		}
		list = append(list, m, message{Role: "tool", ToolCallID: m.ToolCalls[0].ID, Content: loopError})
	}
}

// loopReply repeats the call until the request contains a loop warning or maxLoopCalls results.
func loopReply(body string, n uint64) message {
	switch {
	case strings.Contains(body, "[LOOP DETECTED]"):
		return message{Role: "assistant", Content: "RESULT: success, the target is called all"}
	case strings.Count(body, `"role":"tool"`) >= maxLoopCalls:
		return message{Role: "assistant", Content: "RESULT: failure, make build fails each time"}
	}
	return toolCall("run", `{"command":"make build"}`, n)
}
