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

// maxAnswerBytes is the maximum size of the lesson lines in one answer.
const maxAnswerBytes = 16 << 10

// execute runs an agent's /lesson command with the /v1/lessons permissions. result is the metric label. The answer to a
// failed command does not repeat the command, because the text may have failed the lesson checks.
func (req lessonsRequest) execute(ctx context.Context, c writ.Command, conversation session.ID) (answer, result string) {
	if c.Problem != "" {
		return writ.Answer(string(c.Verb), false, c.Problem+"."), "refused"
	}
	command, text, lines, err := req.dispatch(ctx, c, conversation)
	if err != nil {
		text, result = req.explain(err)
		return writ.Answer(string(c.Verb), false, text), result
	}
	return writ.Answer(command, true, text, lines...), "done"
}

// dispatch returns the command to repeat in the answer, the result in one line, and further lines.
func (req lessonsRequest) dispatch(ctx context.Context, c writ.Command, conversation session.ID) (command, text string, lines []string, err error) {
	command = string(c.Verb)
	switch c.Verb {
	case writ.List, writ.Search:
		text, lines, err = req.listLines(ctx, c.Words)
	case writ.Delete:
		_, l, findErr := req.find(ctx, c.ID)
		if err = findErr; err == nil {
			command, text = command+" "+lessonID(l), "deleted lesson "+lessonID(l)+"."
			err = req.withdraw(ctx, l.Slug)
		}
	case writ.Create:
		var l *lesson.Lesson
		if l, text, err = req.record(ctx, c, conversation); err == nil {
			command, lines = lesson.SanitizeLine(command+" "+l.Title+": "+c.Text), quarantineNotice(l)
		}
	}
	return command, text, lines, err
}

// record writes a lesson to the bank. If the agent has a lesson with the same signature, record replaces the text.
func (req lessonsRequest) record(ctx context.Context, c writ.Command, conversation session.ID) (*lesson.Lesson, string, error) {
	l, err := (&lessonBody{Signature: &c.Signature, LessonText: &c.Text}).applyTo(newLesson(conversation.String()))
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
	if outcome != bank.RecordedUnchanged {
		req.shared.cache.clear()
	}
	text := map[bank.RecordOutcome]string{
		bank.RecordedNew: "recorded lesson " + lessonID(l), bank.RecordedNewText: "rewrote lesson " + lessonID(l), bank.RecordedUnchanged: "lesson " + lessonID(l) + " says so already",
	}[outcome]
	return l, text + " — " + lessonLine(l), nil
}

// lessonID returns the lesson's number, or the slug for a lesson from an old release.
func lessonID(l *lesson.Lesson) string {
	if l.Number > 0 {
		return "#" + strconv.Itoa(l.Number)
	}
	return "#" + l.Slug
}

// lessonLine returns a lesson in one line. If the lesson contains a delimiter for inserted blocks, the line omits title
// and text.
func lessonLine(l *lesson.Lesson) string {
	if line := lesson.SanitizeLine(lessonID(l) + " [" + l.Title + "] " + lessonText(l)); line != "" {
		return line
	}
	return lessonID(l) + " is not shown, because the lesson contains a line that begins or ends an inserted block"
}

func quarantineNotice(all ...*lesson.Lesson) []string {
	var ids []string
	for _, l := range all {
		if l.State == lesson.Quarantined {
			ids = append(ids, lessonID(l))
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

// listLines returns the lessons that contain words, the most recently matched first.
func (req lessonsRequest) listLines(ctx context.Context, words string) (text string, lines []string, err error) {
	book, err := req.book(ctx)
	if err != nil {
		return "", nil, err
	}
	views, err := req.search(ctx, words)
	if err != nil {
		return "", nil, err
	}
	var listed []*lesson.Lesson
	bytesLeft := maxAnswerBytes
	for i := range views {
		l, ok := book.Get(views[i].ID)
		if !ok {
			continue // deleted since the book was read
		}
		line := lessonLine(l)
		if bytesLeft -= len(line) + 1; bytesLeft < 0 {
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
	return text + ":", append(lines, quarantineNotice(listed...)...), nil
}

// explain returns the reason for a failed command, for the agent, and the metric label.
func (req lessonsRequest) explain(err error) (text, result string) {
	if r, ok := errors.AsType[*bank.Refused](err); ok {
		return lesson.SanitizeLine(r.Error()) + ".", "refused"
	}
	switch {
	case errors.Is(err, errNoLesson), errors.Is(err, bank.ErrNoLesson):
		return "no such lesson exists; /lesson list shows your lessons.", "refused"
	case errors.Is(err, bank.ErrTenantLessons):
		return bank.ErrTenantLessons.Error() + ".", "refused"
	case errors.Is(err, bank.ErrTooMany):
		return "you wrote too many lessons within the hour, or too many wait for a person; try again later, or delete some.", "refused"
	}
	req.shared.opts.Metrics.FailedOpen(label.StepWritCommand)
	req.log.Warn("an agent's lesson could not be written; the agent was asked to try again", "error", err)
	return "precept cannot store the lesson at present; try again later.", "failed"
}
