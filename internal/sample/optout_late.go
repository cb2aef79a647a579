package sample

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"precept/internal/wire"
)

// An opt-out may be configured after content was stored. Hides, HiddenExchanges, VisibleExchanges and HidesSample apply
// the current opt-outs to stored content. They accept a nil OptOut, which hides nothing.

// Hides reports whether the tenant or the agent opted out.
func (o *OptOut) Hides(tenant, agent string) bool {
	return o != nil && (o.OptsOutTenant(tenant) || o.OptsOutAgent(agent))
}

// HasAgentPatterns reports whether any agent opted out, so that callers must know the agent of a session.
func (o *OptOut) HasAgentPatterns() bool { return o != nil && len(o.agents) > 0 }

// HasPathPatterns reports whether any path is opted out, so that callers must read the exchanges and samples.
func (o *OptOut) HasPathPatterns() bool { return o != nil && len(o.paths) > 0 }

// HiddenExchanges reports, for each exchange of a session in order, whether the exchange is hidden. The reason is its
// tenant or agent, a call that names an opted-out path, or a result of such a call.
func (o *OptOut) HiddenExchanges(list []Exchange) []bool {
	out := make([]bool, len(list))
	if o == nil {
		return out
	}
	calls := map[string]bool{} // ids of calls that name an opted-out path
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

// VisibleExchanges returns the exchanges of a session that are not hidden. An exchange may repeat the reply of the
// hidden exchange before it. The result then has a copy of the exchange without that reply. list stays unchanged.
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

// countRepeatedItems returns the number of items at the start of New that repeat output of the model.
func (e *Exchange) countRepeatedItems(previous *Reply) int {
	for i, item := range e.items(previous) {
		if len(item.Results) > 0 || item.Role == wire.RoleUser || item.Role == wire.RoleSystem || item.Role == wire.RoleTool {
			return i
		}
	}
	return len(e.New)
}

// HidesSample reports whether a sample has content of a hidden exchange. list holds the stored exchanges of the
// session. If an exchange of the sample was deleted from the store, the paths in its calls are unknown. Such a sample
// is hidden, unless filteredOnWrite is true: the current patterns were then applied to every exchange of the session
// before the exchange was stored.
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
	if len(ids) == 0 || len(ids) >= maxEventIDs { // the list of ids may be incomplete
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

// userTextKeys are the keys of Feedback.Details whose values are text of the user.
var userTextKeys = [...]string{"comment", "correction", "details"} //nolint:gochecknoglobals // an immutable table

// HasSessionFeedbackText reports whether a sample has text of the user from feedback on the whole session.
func (s *Sample) HasSessionFeedbackText() bool {
	if _, ok := s.Feedback.Details["turn"]; ok {
		return false
	}
	return slices.ContainsFunc(userTextKeys[:], func(name string) bool { return s.Feedback.Details[name] != nil })
}

// DropFeedbackText removes the user's text from the feedback of a sample, and keeps the score.
func (s *Sample) DropFeedbackText() {
	s.Feedback.Details = maps.Clone(s.Feedback.Details)
	for _, name := range userTextKeys {
		delete(s.Feedback.Details, name)
	}
}

// sampleNamesPath reports whether a text of a sample names an opted-out path.
func (o *OptOut) sampleNamesPath(m *Sample) bool {
	var text bytes.Buffer
	if err := json.NewEncoder(&text).Encode([]any{m.Input, m.Output, m.Feedback.Details}); err != nil {
		return true
	}
	return o.NamesPath(text.String())
}

// eventIDs returns the ids of the exchanges of a sample, which may be built or read from a store.
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
