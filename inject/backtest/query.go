package backtest

import (
	"encoding/json"

	"precept/detect"
	"precept/inject/lesson"
	"precept/internal/sample"
	"precept/internal/wire"
)

// maxMessageBytes is how many bytes of a message are searched. A longer message is searched at both ends, as in a live
// turn.
const maxMessageBytes = 64 << 10

// Queries returns the matcher's input for each turn, without tenant, role and skill.
func Queries(exchanges []sample.Exchange) []lesson.Query {
	var out []lesson.Query
	calls := map[string]wire.Call{}
	var tools []string
	for i := range exchanges {
		x := &exchanges[i]
		if q, ok := query(x, calls); ok {
			out = append(out, q)
		}
		for _, c := range x.Reply.Calls {
			calls[c.ID] = wire.Call{ID: c.ID, Name: c.Name, Args: c.Args}
			tools = append(tools, c.Name)
		}
	}
	for i := range out { // the offered tools are not stored
		out[i].Tools = tools
	}
	return out
}

// query returns the matcher's input for one exchange. ok is false if the exchange is unreadable, or if it has neither
// new words nor tool errors.
func query(x *sample.Exchange, calls map[string]wire.Call) (q lesson.Query, ok bool) {
	q = lesson.Query{Agent: x.Agent, Model: x.Model}
	d := wire.DialectNamed(x.Dialect)
	req, err := wire.Parse(d, requestBody(d, x))
	if err != nil {
		return q, false
	}
	for i := req.FirstNew(); i < req.Len(); i++ {
		if words := req.UserRequest(i); words != "" {
			q.Words = append(q.Words, keepBothEnds(words))
		}
	}
	for _, found := range req.NewResults() {
		r := found.Result
		call, ok := req.FindCall(r.CallID)
		if !ok {
			call = calls[r.CallID]
		}
		if v := detect.Classify(call.Name, call.Args, r.Text, r.IsError); v.Outcome == detect.Error {
			q.Errors = append(q.Errors, lesson.ErrorText{
				CallID: r.CallID, Tool: call.Name, Text: detect.Signature(r.Text), Kinds: detect.Kinds(r.Text, v),
			})
		}
	}
	return q, len(q.Words)+len(q.Errors) > 0
}

func keepBothEnds(s string) string {
	if len(s) <= maxMessageBytes {
		return s
	}
	return s[:maxMessageBytes/2] + "\n" + s[len(s)-maxMessageBytes/2:]
}

func requestBody(d wire.Dialect, x *sample.Exchange) []byte {
	key := "messages"
	if d == wire.Responses {
		key = "input"
	}
	items := []json.RawMessage{}
	for _, item := range x.New {
		if json.Valid(item) { // an invalid item was cut by the capture limit
			items = append(items, item)
		}
	}
	out, err := json.Marshal(map[string][]json.RawMessage{key: items})
	if err != nil { // valid items always encode
		return nil
	}
	return out
}
