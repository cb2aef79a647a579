package sample

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"precept/internal/wire"
)

// The operator can configure an opt-out after content was stored. The following methods hide such content. A nil OptOut
// hides nothing.

// Hides reports whether the tenant or the agent opted out.
func (o *OptOut) Hides(tenant, agent string) bool {
	return o != nil && (o.OptsOutTenant(tenant) || o.OptsOutAgent(agent))
}

// HasAgentPatterns reports whether there are agent patterns. If so, callers must know a session's agent.
func (o *OptOut) HasAgentPatterns() bool { return o != nil && len(o.agents) > 0 }

// HasPathPatterns reports whether there are path patterns. If so, callers must read the exchanges and samples.
func (o *OptOut) HasPathPatterns() bool { return o != nil && len(o.paths) > 0 }

// HiddenExchanges reports which exchanges are hidden. These are the exchanges of an opted-out tenant or agent, the
// exchanges with a call that names an opted-out path, and the exchanges with such a call's result. list must be in turn
// order.
func (o *OptOut) HiddenExchanges(list []Exchange) []bool {
	out := make([]bool, len(list))
	if o == nil {
		return out
	}
	calls := map[string]bool{} // calls that name an opted-out path
	var before *Reply
	for i := range list {
		x := &list[i]
		out[i] = o.Hides(x.Tenant, x.Agent) || o.ExchangeNamesPath(x)
		if len(calls) > 0 || out[i] && o.HasPathPatterns() {
			for _, item := range x.items(before) {
				out[i] = out[i] || slices.ContainsFunc(item.Results, func(r wire.Result) bool { return calls[r.CallID] })
				for _, c := range item.Calls {
					if o.NamesPath(c.Args) {
						calls[c.ID] = true
					}
				}
			}
		}
		for _, c := range x.calls() {
			if o.NamesPath(c.Args) {
				calls[c.ID] = true
			}
		}
		before = &x.Reply
	}
	return out
}

// VisibleExchanges returns the exchanges that are not hidden. If an exchange repeats a hidden exchange's reply, the
// result has a copy without that reply. list stays unchanged.
func (o *OptOut) VisibleExchanges(list []Exchange) []Exchange {
	hidden := o.HiddenExchanges(list)
	if !slices.Contains(hidden, true) {
		return list
	}
	out := make([]Exchange, 0, len(list))
	for i := range list {
		if hidden[i] {
			continue
		}
		x := list[i]
		if i > 0 && hidden[i-1] {
			n := x.countRepeatedItems(&list[i-1].Reply)
			x.New, x.FirstNew = x.New[n:], x.FirstNew+n
		}
		out = append(out, x)
	}
	return out
}

func (e *Exchange) countRepeatedItems(previous *Reply) int {
	for i, item := range e.items(previous) {
		if len(item.Results) > 0 || item.Role == wire.RoleUser || item.Role == wire.RoleSystem || item.Role == wire.RoleTool {
			return i
		}
	}
	return len(e.New)
}

// HidesSample reports whether a sample has content from a hidden exchange in list. If an exchange was deleted, its
// paths are unknown, and the sample is hidden. If filteredOnWrite is true, such a sample is not hidden, because the
// current patterns were applied before each exchange was stored.
func (o *OptOut) HidesSample(m *Sample, list []Exchange, filteredOnWrite bool) bool {
	if !o.HasPathPatterns() {
		return false
	}
	hidden, stored := map[string]bool{}, map[string]bool{}
	for i, h := range o.HiddenExchanges(list) {
		stored[list[i].ID] = true
		if h {
			hidden[list[i].ID] = true
		}
	}
	ids := m.eventIDs()
	if len(ids) == 0 || len(ids) >= maxEventIDs { // the list of ids can be incomplete
		if len(hidden) > 0 || o.sampleNamesPath(m) {
			return true
		}
	}
	if slices.ContainsFunc(ids, func(id string) bool { return hidden[id] }) {
		return true
	}
	if len(list) > 0 && !slices.ContainsFunc(ids, func(id string) bool { return !stored[id] }) {
		return false
	}
	return !filteredOnWrite || o.sampleNamesPath(m)
}

var userTextKeys = [...]string{"comment", "correction", "details"} //nolint:gochecknoglobals // an immutable table

// HasSessionFeedbackText reports whether a sample has the user's text from feedback on the whole session.
func (s *Sample) HasSessionFeedbackText() bool {
	if _, ok := s.Feedback.Details["turn"]; ok {
		return false
	}
	return slices.ContainsFunc(userTextKeys[:], func(name string) bool { return s.Feedback.Details[name] != nil })
}

// DropFeedbackText removes the user's text from a sample's feedback, and keeps the score.
func (s *Sample) DropFeedbackText() {
	s.Feedback.Details = maps.Clone(s.Feedback.Details)
	for _, name := range userTextKeys {
		delete(s.Feedback.Details, name)
	}
}

func (o *OptOut) sampleNamesPath(m *Sample) bool {
	var text bytes.Buffer
	if err := json.NewEncoder(&text).Encode([]any{m.Input, m.Output, m.Feedback.Details}); err != nil {
		return true
	}
	return o.NamesPath(text.String())
}

func (s *Sample) eventIDs() (ids []string) {
	switch list := s.Meta["source_event_ids"].(type) {
	case []string:
		return list
	case []any:
		for _, v := range list {
			if id, ok := v.(string); ok {
				ids = append(ids, id)
			}
		}
	}
	return ids
}
