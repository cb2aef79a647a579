package lesson

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"precept/detect"
	"precept/inject/request"
)

// Severity tells how serious a finding is.
type Severity string

// Severities. The bank refuses to write a lesson with an error.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// Finding is a defect in a lesson, with a code from AIP-11 or from the list below.
type Finding struct {
	Severity Severity `json:"severity"`
	Code     Code     `json:"code"`
	File     string   `json:"file"`
	Slug     string   `json:"slug"`
	Field    string   `json:"field,omitempty"`
	Message  string   `json:"message"`
}

// String returns the finding as one line.
func (f Finding) String() string {
	field := f.Field
	if field != "" {
		field += ": "
	}
	return fmt.Sprintf("%s: %s: %s: %s%s", f.File, f.Severity, f.Code, field, f.Message)
}

// Codes that AIP-11 does not define. Findings with these codes are warnings; only codeUnknownKind in a program's lesson
// is an error.
const (
	codeContradiction Code = "contradiction"
	codeDeadKeyword   Code = "dead_keyword"
	codeDeadTrigger   Code = "dead_trigger"
	CodeSelfMatch     Code = "self_match"
	codeFileName      Code = "file_name"
	codeNoAdvice      Code = "no_advice"
	codeUnread        Code = "unread_field"
	codeUnknownKind   Code = "unknown_kind"
	codeCautionTitle  Code = "caution_title"
	codeCautionAdvice Code = "caution_advice"
)

// Checker checks lessons before they are activated. The zero value is ready to use.
//
// An unresolvable reference or a broad trigger is a warning in a person's lesson (no Approval.Source), and an error in
// a program's lesson.
type Checker struct {
	Now      time.Time                           // for the expiry date; zero skips this check
	Resolve  func(Evidence) bool                 // reports whether a reference is to a known object; nil skips the check
	Secrets  func(text string) []string          // kinds of secrets and personal data in a text; nil skips the check
	Backtest func(*Lesson) (fired, sessions int) // returns the captured sessions that the lesson matches, and all captured sessions; nil skips the check
}

const (
	broadShare             = 0.6  // a trigger that matches a larger share of the captured sessions is broad
	broadSessions          = 20   // with fewer captured sessions, no trigger is reported as broad
	minDeadTriggerSessions = 1000 // with at least this many sessions, a trigger that matches none of them is dead
)

// CheckBook checks every lesson in a book, alone and against the others. The findings are sorted by slug.
func (c Checker) CheckBook(b *Book) []Finding {
	var out []Finding
	idx := b.triggerIndex()
	for _, l := range b.lessons {
		out = append(out, c.checkAlone(l, b)...)
		for _, other := range idx.contradicting(l) {
			if l.Slug < other.Slug {
				out = append(out, contradiction(l, other))
			}
		}
	}
	return out
}

// CheckLesson checks a lesson that will be added to b, or will replace the lesson at the same path.
func (c Checker) CheckLesson(l *Lesson, b *Book) []Finding {
	out := c.checkAlone(l, b)
	if other, ok := b.Get(l.Slug); ok && other != l && other.Path != l.Path {
		out = append(out, newFinding(l, Error, CodeCollision, "slug",
			"the slug is already taken by %s; choose another slug, or edit that lesson", other.Path))
	}
	for _, other := range b.triggerIndex().contradicting(l) {
		out = append(out, contradiction(l, other))
	}
	return out
}

// CheckNotes checks the evidence notes for prompt injections and secrets.
func (c Checker) CheckNotes(l *Lesson) []Finding {
	return slices.DeleteFunc(append(InjectionFindings(l), c.secretFindings(l)...), func(f Finding) bool { return f.Field != "evidence" })
}

// SelectErrors returns the findings with severity Error, or nil.
func SelectErrors(findings []Finding) ValidationErrors {
	var out ValidationErrors
	for _, f := range findings {
		if f.Severity == Error {
			out = append(out, ValidationError{Code: f.Code, Field: f.Field, Message: f.Message})
		}
	}
	return out
}

func newFinding(l *Lesson, s Severity, code Code, field, format string, args ...any) Finding {
	return Finding{
		Severity: s, Code: code, File: l.Path, Slug: l.Slug, Field: l.Form.fieldName(field), Message: fmt.Sprintf(format, args...),
	}
}

// severityFor returns Warning for a person's lesson, and Error for a program's lesson.
func severityFor(l *Lesson) Severity {
	if l.Approval.Source == "" {
		return Warning
	}
	return Error
}

// checkAlone returns all findings except contradictions with other lessons.
func (c Checker) checkAlone(l *Lesson, b *Book) []Finding {
	out := append(unreadKeyFindings(l), overbroadFindings(l)...)
	out = append(out, unknownKindFindings(l)...)
	out = append(out, c.backtestFindings(l)...)
	out = append(out, InjectionFindings(l)...)
	out = append(out, c.secretFindings(l)...)
	out = append(out, c.evidenceFindings(l)...)
	out = append(out, supersessionFindings(l, b)...)
	out = append(out, deadPhraseFindings(l)...)
	out = append(out, selfMatchFindings(l)...)
	if !c.Now.IsZero() && l.ExpiredAt(c.Now) {
		out = append(out, newFinding(l, Warning, CodeExpired, "expires_at",
			"the lesson expired at %s and is no longer used; move the file to _archive, or set a later date", formatTime(l.ExpiresAt)))
	}
	return append(out, fileFindings(l)...)
}

func overbroadFindings(l *Lesson) []Finding {
	if l.Trigger.Empty() {
		return []Finding{newFinding(l, severityFor(l), CodeOverbroad, "trigger",
			"there is no tag, keyword, error pattern, error kind or request kind, so the lesson never fires; add a keyword")}
	}
	var out []Finding
	for _, p := range triggerPhrases(&l.Trigger) {
		parsed := readPhrase(p.text, l.Form)
		switch {
		case isStopWord(parsed.key):
			out = append(out, newFinding(l, severityFor(l), CodeOverbroad, p.field,
				"%q occurs in almost every text, so precept does not search for it; write a phrase with two or three words", p.text))
		case parsed.canTrigger() && utf8.RuneCountInString(strings.Trim(parsed.key, "*\uFFFD")) <= 2 && !strings.ContainsFunc(parsed.key, isSyllable):
			out = append(out, newFinding(l, severityFor(l), CodeOverbroad, p.field,
				"%q is too short to be specific; write a phrase with two or three words", p.text))
		}
	}
	return out
}

func unknownKindFindings(l *Lesson) []Finding {
	var out []Finding
	for i, kind := range l.Trigger.ErrorKinds {
		if nearest, known := detect.NearestKind(kind); !known {
			out = append(out, newFinding(l, severityFor(l), codeUnknownKind, fmt.Sprintf("trigger.metadata.precept.error_kinds[%d]", i),
				"%q is not an error kind, so it never fires; the most similar kind is %s; docs/LESSONS.md lists all kinds", kind, nearest))
		}
	}
	for i, kind := range l.Trigger.RequestKinds {
		if nearest, known := request.Nearest(kind); !known {
			out = append(out, newFinding(l, severityFor(l), codeUnknownKind, fmt.Sprintf("trigger.metadata.precept.request_kinds[%d]", i),
				"%q is not a request kind, so it never fires; the most similar kind is %s; docs/LESSONS.md lists all kinds", kind, nearest))
		}
	}
	return out
}

// isSyllable reports whether a character is a syllable or a word. Two such characters can be a phrase.
func isSyllable(r rune) bool { return classifyRune(r) == loneKind || runeScript(r) == hangul }

type fieldPhrase struct{ field, text string }

// triggerPhrases returns the keywords and error patterns, with the fields that contain them.
func triggerPhrases(t *Trigger) []fieldPhrase {
	const prefix = "trigger.metadata.precept."
	var out []fieldPhrase
	for i, k := range t.Keywords {
		out = append(out, fieldPhrase{fmt.Sprintf("%skeywords[%d]", prefix, i), k})
	}
	for i, k := range t.ErrorPatterns {
		out = append(out, fieldPhrase{fmt.Sprintf("%serror_patterns[%d]", prefix, i), k})
	}
	return out
}

func (c Checker) backtestFindings(l *Lesson) []Finding {
	if c.Backtest == nil {
		return nil
	}
	fired, sessions := c.Backtest(l)
	if fired == 0 && sessions >= minDeadTriggerSessions && !l.Trigger.Empty() {
		return []Finding{newFinding(l, Warning, codeDeadTrigger, "trigger",
			"would not have fired in any of %d sessions; use words that occur in requests and error messages, or keep the lesson for rare cases", sessions)}
	}
	if sessions < broadSessions || float64(fired) <= broadShare*float64(sessions) {
		return nil
	}
	return []Finding{newFinding(l, severityFor(l), CodeOverbroad, "trigger",
		"would have fired in %d of %d sessions; %s", fired, sessions, l.Form.narrowingRemedy())}
}

func (c Checker) secretFindings(l *Lesson) []Finding {
	if c.Secrets == nil {
		return nil
	}
	var out []Finding
	for _, part := range textParts(l) {
		for _, name := range c.Secrets(part.text) {
			out = append(out, newFinding(l, Error, CodeInvalid, part.field, "contains %s; write the lesson without it", name))
		}
	}
	return out
}

func (c Checker) evidenceFindings(l *Lesson) []Finding {
	if c.Resolve == nil || l.Form == FormGptme || slices.ContainsFunc(l.Evidence, c.Resolve) {
		return nil
	}
	return []Finding{newFinding(l, severityFor(l), CodeEvidence, "evidence",
		"none of the references names a known run, conversation, work item, audit record or page; add such a reference")}
}

func supersessionFindings(l *Lesson, b *Book) []Finding {
	if len(l.Supersedes) == 0 {
		return nil
	}
	others := []*Lesson{l}
	for _, o := range b.lessons {
		if o.Slug != l.Slug {
			others = append(others, o)
		}
	}
	var out []Finding
	for _, f := range b.linkErrors(l, circularSlugs(others)) {
		out = append(out, newFinding(l, Error, f.Code, f.Field, "%s", f.Message))
	}
	return out
}

// fileFindings checks the file name, a caution's title, and the advice.
func fileFindings(l *Lesson) []Finding {
	var out []Finding
	base := strings.TrimSuffix(path.Base(strings.ReplaceAll(l.Path, "\\", "/")), ".md")
	if l.Path != "" && base != l.Slug && slugFromPath(l.Path) != l.Slug && base != "LESSON" {
		out = append(out, newFinding(l, Warning, codeFileName, "slug", "the file is named %s; rename it to %s.md", base, l.Slug))
	}
	if l.Outcome == "failure" && !namesApproachToAvoid(l.Title) {
		out = append(out, newFinding(l, Warning, codeCautionTitle, "title",
			"a lesson with outcome failure is shown under \"these approaches failed before\", but the title recommends an approach; "+
				"name the approach to avoid (\"Avoid ...\"), or set outcome to success or mixed"))
	}
	if l.Outcome == "failure" && namesApproachToAvoid(l.Title) && startsWithInstruction(l.Advice) {
		out = append(out, newFinding(l, Warning, codeCautionAdvice, l.Form.adviceSection(),
			"a lesson with outcome failure is shown under \"these approaches failed before\", but the text begins with a step to take; "+
				"describe the approach that failed, or set outcome to success and let the title name the step"))
	}
	if strings.TrimSpace(l.Advice) == "" {
		out = append(out, newFinding(l, Warning, codeNoAdvice, "",
			"the section %q is missing or empty, so only the title is shown; write the advice", l.Form.adviceSection()))
	}
	return out
}

// startsWithInstruction reports whether a text starts with an instruction, such as "Look at the first line".
func startsWithInstruction(text string) bool {
	first, _, _ := strings.Cut(strings.TrimLeft(NormalizeLookalikes(text), "-*•> \t\n0123456789."), ".")
	_, forbids := titleStance(first)
	return !forbids && slices.Contains(strings.Fields(
		"add ask build call change check choose commit compare copy count create describe edit fetch find first follow give instead keep "+
			"list look make measure merge move name note open pass pin prefer print put quote read rebase reload repeat reproduce rerun restart run "+
			"search see set show split start stop take test tidy try update use verify wait write",
	), strings.Trim(firstWord(first), ",;:"))
}

// namesApproachToAvoid reports whether a title is like "Avoid retrying", "Never retry" or "Retrying a 403".
func namesApproachToAvoid(title string) bool {
	_, forbids := titleStance(title)
	return forbids || strings.HasSuffix(strings.ToLower(firstWord(title)), "ing")
}
