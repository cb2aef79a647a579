package proxy

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"precept/inject/bank"
	"precept/inject/lesson"
	"precept/inject/writ"
	"precept/internal/label"
	"precept/internal/session"
)

// maxListedBytes bounds the lessons in one answer, in bytes.
const maxListedBytes = 16 << 10

// execute executes one command of the agent, and returns the answer for the agent. A command may do
// the same as /v1/lessons. The answer to a failed command repeats no text of the command, because
// the checks may have refused the text.
func (req lessonsRequest) execute(ctx context.Context, c writ.Command, from session.ID) (answer, result string) {
	if c.Fault != "" {
		return writ.Answer(string(c.Verb), false, c.Fault+"."), "refused"
	}
	command, text, lines, err := req.perform(ctx, c, from)
	if err != nil {
		text, result = req.explain(err)
		return writ.Answer(string(c.Verb), false, text), result
	}
	return writ.Answer(command, true, text, lines...), "done"
}

// perform executes c, and returns the command as the answer repeats it, the result in one line, and further lines.
func (req lessonsRequest) perform(ctx context.Context, c writ.Command, from session.ID) (command, text string, lines []string, err error) {
	command = string(c.Verb)
	switch c.Verb {
	case writ.List, writ.Search:
		text, lines, err = req.listLines(ctx, c.Words)
	case writ.Delete:
		_, l, missing := req.find(ctx, c.ID)
		if err = missing; err == nil {
			command, text = command+" "+idOf(l), "deleted lesson "+idOf(l)+"."
			err = req.withdraw(ctx, l.Slug)
		}
	case writ.Create:
		var l *lesson.Lesson
		if l, text, err = req.record(ctx, c, from); err == nil {
			command, lines = lesson.Line(command+" "+l.Title+": "+c.Text), quarantineLines(l)
		}
	}
	return command, text, lines, err
}

// record writes a lesson. The same text under a known signature writes no second lesson; another
// text replaces the lesson.
func (req lessonsRequest) record(ctx context.Context, c writ.Command, from session.ID) (*lesson.Lesson, string, error) {
	l, err := (&lessonBody{Signature: &c.Signature, LessonText: &c.Text}).applyTo(newLesson(from.String()))
	if err != nil {
		return nil, "", err
	}
	p := req.proposal(l)
	p.Source = "writ"
	r, outcome, err := req.shared.opts.Bank.Record(ctx, p)
	if err != nil {
		return nil, "", err
	}
	l = r.Lesson
	if outcome != bank.RecordedSame {
		req.shared.cache.clear()
	}
	text := map[bank.Recorded]string{
		bank.RecordedNew: "recorded lesson " + idOf(l), bank.RecordedText: "rewrote lesson " + idOf(l), bank.RecordedSame: "lesson " + idOf(l) + " says so already",
	}[outcome]
	return l, text + " — " + lessonLine(l), nil
}

// idOf returns the id of a lesson for the agent: a number, or the slug of a lesson of an old release.
func idOf(l *lesson.Lesson) string {
	if l.Number > 0 {
		return "#" + strconv.Itoa(l.Number)
	}
	return "#" + l.Slug
}

// lessonLine returns a lesson in one line. The line of a lesson with a delimiter of blocks has no text of the lesson.
func lessonLine(l *lesson.Lesson) string {
	if line := lesson.Line(idOf(l) + " [" + l.Title + "] " + lessonText(l)); line != "" {
		return line
	}
	return idOf(l) + " is not shown: the lesson holds a delimiter of precept's blocks"
}

// quarantineLines returns the line that reports the lessons in quarantine, if any.
func quarantineLines(all ...*lesson.Lesson) []string {
	var ids []string
	for _, l := range all {
		if l.State == lesson.Quarantined {
			ids = append(ids, idOf(l))
		}
	}
	switch len(ids) {
	case 0:
		return nil
	case 1:
		return []string{"Quarantined: " + ids[0] + ". The lesson takes effect when a person approves it."}
	}
	return []string{"Quarantined: " + strings.Join(ids, ", ") + ". These lessons take effect when a person approves them."}
}

// listLines returns the lessons of the agent that contain the words, one line each. The latest matched
// lessons come first.
func (req lessonsRequest) listLines(ctx context.Context, words string) (text string, lines []string, err error) {
	book, err := req.book(ctx)
	if err != nil {
		return "", nil, err
	}
	views, err := req.all(ctx, words)
	if err != nil {
		return "", nil, err
	}
	var listed []*lesson.Lesson
	room := maxListedBytes
	for i := range views {
		l, ok := book.Get(views[i].ID)
		if !ok {
			continue // deleted since the book was read
		}
		line := lessonLine(l)
		if room -= len(line) + 1; room < 0 {
			lines = append(lines, strconv.Itoa(len(views)-i)+" more are not shown; /lesson search WORDS narrows the list.")
			break
		}
		listed, lines = append(listed, l), append(lines, line)
	}
	text = strconv.Itoa(len(views)) + " lessons"
	if len(views) == 1 {
		text = "1 lesson"
	}
	if len(views) == 0 {
		return text + ".", nil, nil
	}
	return text + ":", append(lines, quarantineLines(listed...)...), nil
}

// explain returns the reason why a command failed, in words for the agent.
func (req lessonsRequest) explain(err error) (text, result string) {
	if r, ok := errors.AsType[*bank.Refused](err); ok {
		return lesson.Line(r.Error()) + ".", "refused"
	}
	switch {
	case errors.Is(err, errNoLesson), errors.Is(err, bank.ErrNoLesson):
		return "no such lesson exists; /lesson list shows your lessons.", "refused"
	case errors.Is(err, bank.ErrTenantLessons):
		return bank.ErrTenantLessons.Error() + ".", "refused"
	case errors.Is(err, bank.ErrTooMany):
		return "you wrote too many lessons within the hour, or too many of them wait for a person; try again later, or delete some.", "refused"
	}
	req.shared.opts.Metrics.FailedOpen(label.StepWrit)
	req.log.Warn("lesson of an agent could not be written; the agent was asked to try again", "error", err)
	return "the lessons cannot be written at present; try again later.", "failed"
}
