package lesson

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Format returns the text of a lesson's file. It has the original bytes, except in the lines of edited fields. A lesson
// without Raw is new, and is written in the learning/v1 form. Format returns an error if the file cannot express the
// lesson.
func Format(l *Lesson) ([]byte, error) {
	if len(l.Raw) == 0 {
		return formatNew(l)
	}
	orig, faults := parse(l.Path, l.Raw)
	if len(faults) > 0 {
		return nil, fmt.Errorf("the lesson text has faults, so it cannot be edited: %w", faults)
	}
	head := strings.TrimSuffix(l.Raw, orig.Body)
	for _, e := range diff(orig, l, orig.Form) {
		var err error
		if head, err = applyField(head, e); err != nil {
			return nil, err
		}
	}
	// A quarantined lesson's file can still name an active state, so diff may find no change of the state. Write
	// l.State; otherwise an approval would put the old state into effect.
	if got, faults := parse(l.Path, head+l.Body); len(faults) == 0 && got.State != l.State && got.State != Quarantined {
		var err error
		if head, err = applyField(head, field{path: []string{"metadata", "precept", "state"}, val: stateNode(l)}); err != nil {
			return nil, err
		}
	}
	out := head + l.Body
	return []byte(out), verify(l, out, orig.State.IsActive())
}

// Edit applies change to a copy of l, and returns the copy with up-to-date derived fields (Raw, ContentHash, State).
func Edit(l *Lesson, change func(*Lesson)) (*Lesson, error) {
	c := l.Clone()
	change(c)
	raw, err := Format(c)
	if err != nil {
		return nil, err
	}
	out, err := Parse(c.Path, raw)
	if err != nil {
		return nil, err
	}
	out.Category = c.Category
	return out, nil
}

// Clone returns a deep copy of a lesson, for editing.
func (l *Lesson) Clone() *Lesson {
	c := *l
	t := &c.Trigger
	for _, list := range []*[]string{&t.Tags, &t.Keywords, &t.NotKeywords, &t.Tools, &t.ErrorPatterns, &t.ErrorKinds, &t.RequestKinds, &t.Models, &c.Supersedes, &c.Prevents} {
		*list = slices.Clone(*list)
	}
	t.Targets, c.Evidence = slices.Clone(t.Targets), slices.Clone(c.Evidence)
	return &c
}

func formatNew(l *Lesson) ([]byte, error) {
	var front node
	front.kind = kindMap
	for _, f := range fields(l, FormAIP11) {
		if f.val != nil {
			setPath(&front, f.path, *f.val)
		}
	}
	body := l.Body
	if body == "" && l.Advice != "" {
		body = FormatBody(l.Title, l.Trigger.Description, strings.TrimRight(l.Advice, "\n"), "")
	}
	out := "---\nschema: " + schemaID + "\n" + strings.Join(renderMap(&front, 0), "\n") + "\n---\n" + body
	c := l.Clone()
	c.Form, c.Body = FormAIP11, body
	return []byte(out), verify(c, out, false)
}

// verify returns an error if the formatted file differs from the lesson. An edit may quarantine an active lesson,
// because the approval is for the old text. But an edit must not activate a lesson that has no approval.
func verify(l *Lesson, raw string, wasActive bool) error {
	got, faults := parse(l.Path, raw)
	if len(faults) > 0 {
		return faults
	}
	if got.State == Quarantined && l.State.IsActive() {
		if !wasActive && got.needsReview() {
			return SelectErrors(InjectionFindings(got))
		}
		if !wasActive {
			return errors.New("the approval is for another text; set Approval.ContentHash to this text's hash, or clear it")
		}
		l = l.Clone()
		l.State = Quarantined
	}
	for _, f := range diff(got, l, FormAIP11) {
		path := strings.Join(f.path, ".")
		if got.Form != FormGptme || path != "title" && path != "trigger.description" { // derived from the body
			return fmt.Errorf("the field %s cannot be written to this file; convert the lesson to learning/v1", path)
		}
	}
	if got.Body != l.Body {
		return errors.New("the body cannot be written to this file; write it without a line --- before it")
	}
	return nil
}

type field struct {
	path []string
	val  *node // nil if absent
}

// diff returns the fields in which b differs from a, with b's values.
func diff(a, b *Lesson, form Form) []field {
	from, to := fields(a, form), fields(b, form)
	var out []field
	for i := range to {
		if !equalNode(from[i].val, to[i].val) {
			out = append(out, to[i])
		}
	}
	return out
}

// fields returns a lesson's fields in the order of a new file. In each form, the list has the same fields for every
// lesson, so diff compares two lists by index.
func fields(l *Lesson, form Form) []field {
	t := &l.Trigger
	preceptFields := []field{
		{[]string{"metadata", "precept", "state"}, stateNode(l)},
		{[]string{"metadata", "precept", "former_state"}, optionalText(string(l.FormerState))},
		{[]string{"metadata", "precept", "state_before_pause"}, optionalText(string(l.StateBeforePause))},
		{[]string{"metadata", "precept", "content_hash"}, optionalText(l.Approval.ContentHash)},
		{[]string{"metadata", "precept", "approved_by"}, optionalText(l.Approval.By)},
		{[]string{"metadata", "precept", "approved_at"}, optionalText(formatTime(l.Approval.At))},
		{[]string{"metadata", "precept", "source"}, optionalText(l.Approval.Source)},
		{[]string{"metadata", "precept", "tenant"}, optionalText(l.Scope.Tenant)},
		{[]string{"metadata", "precept", "agent"}, optionalText(l.Scope.Agent)},
		{[]string{"metadata", "precept", "number"}, optionalNumber(float64(l.Number))},
		{[]string{"metadata", "precept", "evidence_count"}, optionalNumber(float64(l.EvidenceCount))},
		{[]string{"metadata", "precept", "created_at"}, optionalText(formatTime(l.CreatedAt))},
		{[]string{"metadata", "precept", "updated_at"}, optionalText(formatTime(l.UpdatedAt))},
		{[]string{"metadata", "precept", "trial_epsilon"}, optionalNumber(l.Plan.Epsilon)},
		{[]string{"metadata", "precept", "trial_until_halfwidth"}, optionalNumber(l.Plan.Until)},
		{[]string{"metadata", "precept", "trial_picks"}, optionalNumber(float64(l.Plan.Picks))},
		{[]string{"metadata", "precept", "trial_started"}, optionalText(formatTime(l.Plan.Started))},
		{[]string{"metadata", "precept", "trial_outcome"}, optionalText(l.Plan.Outcome)},
		{[]string{"metadata", "precept", "prevents"}, textListNode(l.Prevents)},
	}
	if form == FormGptme {
		return append([]field{{[]string{"match", "keywords"}, textListNode(t.Keywords)}}, preceptFields...)
	}
	return append([]field{
		{[]string{"slug"}, textNode(l.Slug)},
		{[]string{"title"}, textNode(l.Title)},
		{[]string{"trigger", "description"}, textNode(t.Description)},
		{[]string{"trigger", "tags"}, textListNode(t.Tags)},
		{[]string{"trigger", "targets"}, targetsNode(t.Targets)},
		{[]string{"trigger", "metadata", "precept", "keywords"}, textListNode(t.Keywords)},
		{[]string{"trigger", "metadata", "precept", "not_keywords"}, textListNode(t.NotKeywords)},
		{[]string{"trigger", "metadata", "precept", "error_patterns"}, textListNode(t.ErrorPatterns)},
		{[]string{"trigger", "metadata", "precept", "error_kinds"}, textListNode(t.ErrorKinds)},
		{[]string{"trigger", "metadata", "precept", "request_kinds"}, textListNode(t.RequestKinds)},
		{[]string{"trigger", "metadata", "precept", "tools"}, textListNode(t.Tools)},
		{[]string{"trigger", "metadata", "precept", "models"}, textListNode(t.Models)},
		{[]string{"trigger", "metadata", "precept", "like"}, optionalFlag(t.ByLikeness)},
		{[]string{"outcome"}, textNode(l.Outcome)},
		{[]string{"evidence"}, evidenceNode(l.Evidence)},
		{[]string{"confidence"}, &node{kind: kindNumber, number: l.Confidence}},
		{[]string{"success_count"}, &node{kind: kindNumber, number: float64(l.SuccessCount)}},
		{[]string{"failure_count"}, &node{kind: kindNumber, number: float64(l.FailureCount)}},
		{[]string{"supersedes"}, textListNode(l.Supersedes)},
		{[]string{"expires_at"}, optionalText(formatTime(l.ExpiresAt))},
	}, preceptFields...)
}

func stateNode(l *Lesson) *node {
	if l.State == "" {
		return textNode(string(Active))
	}
	return textNode(string(l.State))
}

func textNode(s string) *node { return &node{kind: kindString, text: s} }

func optionalNumber(x float64) *node {
	if x == 0 {
		return nil
	}
	return &node{kind: kindNumber, number: x}
}

func optionalFlag(set bool) *node {
	if !set {
		return nil
	}
	return &node{kind: kindBool, number: 1}
}

func optionalText(s string) *node {
	if s == "" {
		return nil
	}
	return textNode(s)
}

func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

func textListNode(list []string) *node {
	return listNode(list, func(s string) node { return *textNode(s) })
}

func targetsNode(targets []Target) *node {
	return listNode(targets, func(t Target) node { return optionalMap("operator", t.Operator, "role", t.Role, "skill", t.Skill) })
}

func evidenceNode(evidence []Evidence) *node {
	return listNode(evidence, func(e Evidence) node { return optionalMap("kind", e.Kind, "ref", e.Ref, "note", e.Note) })
}

func listNode[T any](list []T, entry func(T) node) *node {
	if len(list) == 0 {
		return nil
	}
	n := &node{kind: kindList}
	for _, x := range list {
		n.list = append(n.list, entry(x))
	}
	return n
}

// optionalMap makes a mapping from alternating keys and values. It omits keys with empty values.
func optionalMap(kv ...string) node {
	n := node{kind: kindMap}
	for i := 0; i+1 < len(kv); i += 2 {
		if kv[i+1] != "" {
			n.keys = append(n.keys, pair{key: kv[i], val: *textNode(kv[i+1])})
		}
	}
	return n
}

// equalNode reports whether two YAML values are equal, including the key order.
func equalNode(a, b *node) bool {
	if a == nil || b == nil {
		return a == b
	}
	if a.kind != b.kind || a.kind == kindString && a.text != b.text || a.number != b.number || len(a.list) != len(b.list) || len(a.keys) != len(b.keys) {
		return false
	}
	for i := range a.list {
		if !equalNode(&a.list[i], &b.list[i]) {
			return false
		}
	}
	for i := range a.keys {
		if a.keys[i].key != b.keys[i].key || !equalNode(&a.keys[i].val, &b.keys[i].val) {
			return false
		}
	}
	return true
}
