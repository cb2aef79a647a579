package lesson

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"precept/bandit/trial"
)

// schemaID identifies the AIP-11 specification.
const schemaID = "learning/v1"

// isUnrelatedFile reports whether the frontmatter has no AIP-11 key, as in a skill or an editor's rules file.
func isUnrelatedFile(n *node) bool {
	return !slices.ContainsFunc([]string{"schema", "slug", "title", "trigger", "outcome", "evidence"}, func(key string) bool { return indexKey(n, key) >= 0 })
}

func (r *reader) readAIP11(l *Lesson, n *node) {
	l.Form = FormAIP11
	r.checkKeys("", n, "schema", "slug", "title", "trigger", "outcome", "evidence", "confidence", "success_count",
		"failure_count", "supersedes", "expires_at", "metadata")
	if v, ok := n.get("schema"); !ok || v.kind != kindString || v.text != schemaID {
		r.addInvalid("schema", lineOrZero(v), "must be %s; write schema: %s", schemaID, schemaID)
	}
	l.Slug = r.text("", n, "slug", true, minSlug, maxSlug)
	if l.Slug != "" && !IsSlug(l.Slug) {
		v, _ := n.get("slug")
		r.addInvalid("slug", v.line, "%q is not a slug; write lower-case letters, digits and dashes, starting with a letter", l.Slug)
	}
	l.Title = r.text("", n, "title", true, 1, maxTitle)
	if t := r.mapping("", n, "trigger", true); t != nil {
		r.readTrigger(l, t)
	}
	l.Outcome = r.text("", n, "outcome", true, 0, math.MaxInt)
	if v, ok := n.get("outcome"); ok && v.kind == kindString && !isOutcome(v.text) {
		r.addInvalid("outcome", v.line, "%q is not an outcome; write success, failure or mixed", v.text)
	}
	l.Evidence = r.evidence(n)
	l.Confidence = r.confidence(n)
	l.SuccessCount, l.FailureCount = r.count(n, "success_count"), r.count(n, "failure_count")
	l.Supersedes = r.textList("", n, "supersedes", 0, math.MaxInt, isSlugRef, "a slug")
	l.ExpiresAt = r.timestamp("", n, "expires_at")
	l.State = Active
	r.readMetadata(l, n)
	l.Advice = section(l.Body, isAdviceHeading)
}

func lineOrZero(v *node) int {
	if v == nil {
		return 0
	}
	return v.line
}

func isOutcome(s string) bool { return s == "success" || s == "failure" || s == "mixed" }

func (r *reader) readTrigger(l *Lesson, n *node) {
	r.checkKeys("trigger", n, "description", "tags", "targets", "metadata")
	t := &l.Trigger
	t.Description = r.text("trigger", n, "description", true, 1, maxDescription)
	t.Tags = r.textList("trigger", n, "tags", maxTags, math.MaxInt, isTag, "a tag (lower-case letters, digits, dashes)")
	items := r.items("trigger", n, "targets", 0)
	for i := range items {
		t.Targets = append(t.Targets, r.target(fmt.Sprintf("trigger.targets[%d]", i), &items[i]))
	}
	precept := r.preceptMapping("trigger", n)
	if precept == nil {
		return
	}
	const prefix = "trigger.metadata.precept"
	r.checkKeys(prefix, precept, preceptTriggerKeys()...)
	list := func(key string) []string {
		return r.textList(prefix, precept, key, maxListEntries, maxPhraseChars, isNotBlank, "a phrase")
	}
	t.Keywords, t.NotKeywords, t.ErrorPatterns = list("keywords"), list("not_keywords"), list("error_patterns")
	t.Tools, t.Models = list("tools"), list("models")
	t.ErrorKinds = r.textList(prefix, precept, "error_kinds", maxListEntries, maxPhraseChars, isTag, "an error kind (lower-case letters, digits, dashes)")
	t.RequestKinds = r.textList(prefix, precept, "request_kinds", maxListEntries, maxPhraseChars, isTag, "a request kind (lower-case letters, digits, dashes)")
	t.ByLikeness = r.flag(prefix, precept, "like")
}

func isNotBlank(s string) bool { return strings.TrimSpace(s) != "" }

func (r *reader) target(field string, n *node) (t Target) {
	if n.kind != kindMap {
		r.addInvalid(field, n.line, "is %s; write operator, role or skill", n.kind)
		return t
	}
	r.checkKeys(field, n, "operator", "role", "skill")
	if len(n.keys) == 0 {
		r.addInvalid(field, n.line, "is empty; write operator, role or skill, or remove it")
	}
	t.Operator = r.text(field, n, "operator", false, 0, math.MaxInt)
	t.Role = r.text(field, n, "role", false, 0, math.MaxInt)
	t.Skill = r.text(field, n, "skill", false, 0, math.MaxInt)
	return t
}

// evidence returns the references under the "evidence" key, and records a fault if there are none.
func (r *reader) evidence(n *node) []Evidence {
	v, ok := n.get("evidence")
	items := r.items("", n, "evidence", 0)
	if !ok || v.kind == kindList && len(items) == 0 {
		r.addInvalid("evidence", n.line, "is missing; name at least one run, conversation, work-item, audit or wiki-page: %s", example("evidence"))
		return nil
	}
	out := make([]Evidence, 0, len(items))
	for i := range items {
		field := fmt.Sprintf("evidence[%d]", i)
		e := &items[i]
		if e.kind != kindMap {
			r.addInvalid(field, e.line, "is %s; write kind and ref", e.kind)
			continue
		}
		r.checkKeys(field, e, "kind", "ref", "note")
		ev := Evidence{
			Kind: r.text(field, e, "kind", true, 0, math.MaxInt),
			Ref:  r.text(field, e, "ref", true, 1, maxRef),
			Note: r.text(field, e, "note", false, 0, maxNote),
		}
		if k, ok := e.get("kind"); ok && k.kind == kindString && !slices.Contains(evidenceKinds(), ev.Kind) {
			r.addInvalid(field+".kind", k.line, "%q is not a known kind; write one of %s", ev.Kind, strings.Join(evidenceKinds(), ", "))
		}
		out = append(out, ev)
	}
	return out
}

func evidenceKinds() []string {
	return []string{"run", "conversation", "work-item", "audit", "wiki-page"}
}

func (r *reader) preceptMapping(prefix string, n *node) *node {
	if m := r.mapping(prefix, n, "metadata", false); m != nil {
		return r.mapping(joinField(prefix, "metadata"), m, "precept", false)
	}
	return nil
}

func (r *reader) state(prefix string, n *node, key string) State {
	s := State(r.text(prefix, n, key, false, 0, math.MaxInt))
	if s != "" && !s.Valid() {
		v, _ := n.get(key)
		r.addInvalid(joinField(prefix, key), v.line, "%q is not a state; write active, trial, caution, benched, paused, quarantined, candidate, archived, rejected, superseded or expired", s)
	}
	return s
}

func (r *reader) readMetadata(l *Lesson, n *node) {
	n = r.preceptMapping("", n)
	if n == nil {
		return
	}
	const prefix = "metadata.precept"
	r.checkKeys(prefix, n, "state", "former_state", "state_before_pause", "content_hash", "approved_by", "approved_at", "source", "tenant", "agent", "number", "evidence_count", "created_at",
		"updated_at", "prevents", "trial_epsilon", "trial_until_halfwidth", "trial_picks", "trial_started", "trial_outcome")
	if s := r.state(prefix, n, "state"); s != "" {
		l.State = s
	}
	l.FormerState, l.StateBeforePause = r.state(prefix, n, "former_state"), r.state(prefix, n, "state_before_pause")
	l.Approval.ContentHash = r.text(prefix, n, "content_hash", false, 0, maxRef)
	l.Approval.By = r.text(prefix, n, "approved_by", false, 0, maxRef)
	l.Approval.At = r.timestamp(prefix, n, "approved_at")
	l.Approval.Source = r.text(prefix, n, "source", false, 0, maxRef)
	l.Scope.Tenant, l.Scope.Agent = r.text(prefix, n, "tenant", false, 0, maxRef), r.text(prefix, n, "agent", false, 0, maxRef)
	l.Number = int(r.number(prefix, n, "number", isWholeBetween(1, math.MaxInt32), "must be a whole number of at least 1"))
	l.EvidenceCount = int(r.number(prefix, n, "evidence_count", isWholeBetween(1, math.MaxInt32), "must be a whole number of at least 1"))
	l.CreatedAt, l.UpdatedAt = r.timestamp(prefix, n, "created_at"), r.timestamp(prefix, n, "updated_at")
	l.Plan.Epsilon, l.Plan.Until = r.openUnitNumber(prefix, n, "trial_epsilon"), r.openUnitNumber(prefix, n, "trial_until_halfwidth")
	l.Plan.Picks = int64(r.number(prefix, n, "trial_picks", isWholeBetween(1, maxPicks), "must be a whole number from 1 to %d, such as 800", maxPicks))
	l.Plan.Started = r.timestamp(prefix, n, "trial_started")
	l.Plan.Outcome = r.text(prefix, n, "trial_outcome", false, 0, maxRef)
	if _, ok := trial.ParseOutcome(l.Plan.Outcome); !ok && l.Plan.Outcome != "" {
		v, _ := n.get("trial_outcome")
		r.addInvalid(prefix+".trial_outcome", v.line, "%q is not an outcome; write %s", l.Plan.Outcome, strings.Join(trial.OutcomeNames(), ", "))
	}
	l.Prevents = r.textList(prefix, n, "prevents", maxListEntries, maxPhraseChars, isNotBlank, "an error kind or a phrase")
}
