package session

import (
	"fmt"
	"strings"
	"testing"

	"precept/internal/wire"
)

// template formats a task and all steps so far as one message.
type template func(task string, steps []string) string

func templates() map[string]template {
	const rules = "Answer as best you can.\n\nThought: think\nAction: act\nObservation: what came of it\n\nBegin!\n\n"
	return map[string]template{
		"thoughts": func(task string, steps []string) string {
			return rules + "Question: " + task + "\nThought:" + strings.Join(steps, "\nThought: ") + "\nThought: "
		},
		"tags": func(task string, steps []string) string {
			return rules + "Question: " + task + "\n" + strings.Join(steps, "")
		},
		"a reminder at the end": func(task string, steps []string) string {
			if len(steps) == 0 {
				return task + "\n\n\n (reminder to respond with one object)"
			}
			return task + "\n\nThis was your work so far:\n" + strings.Join(steps, "\n") + "\n (reminder to respond with one object)"
		},
		"a dialogue": func(task string, steps []string) string {
			return "You are a clerk.\n\nHuman: " + task + "\nAI: " + strings.Join(steps, "\nAI: ")
		},
	}
}

// sendInterleaved sends four requests per conversation. Each request has one message, which is one step longer than in
// the previous request. For each conversation, the result counts the requests by session.
func (f *fixture) sendInterleaved(render template, tasks []string, answer func(task, step int) string) (requests []map[ID]int) {
	steps := make([][]string, len(tasks))
	requests = make([]map[ID]int, len(tasks))
	for step := range 4 {
		for i, task := range tasks {
			if step == 0 {
				requests[i] = map[ID]int{}
			}
			r := f.resolveAndAnswer(chat(f.t, userMessage(render(task, steps[i]))), wire.Reply{Text: answer(i, step), Complete: true})
			requests[i][r.ID]++
			steps[i] = append(steps[i], answer(i, step)+"\nObservation: Error: no such target")
		}
	}
	return requests
}

func TestGrowingMessageKeepsSession(t *testing.T) {
	for name, render := range templates() {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			tasks := []string{"build the shop", "build the mill", "build the shop"}
			got := f.sendInterleaved(render, tasks, func(task, step int) string { return fmt.Sprintf("I run it as %d.\nAction: make %d", task, step) })
			seen := map[ID]bool{}
			for i, requests := range got {
				for id := range requests {
					if len(requests) != 1 || seen[id] {
						t.Fatalf("conversation %d: got sessions %v, want one session that no other conversation has; all sessions: %v", i, requests, got)
					}
					seen[id] = true
				}
			}
		})
	}
}

func TestGrowingMessageRetryKeepsSession(t *testing.T) {
	f, render := newFixture(t), templates()["thoughts"]
	first := f.resolveAndAnswer(chat(t, userMessage(render("build", nil))), wire.Reply{Text: "I build the shop now", Complete: true})
	second := chat(t, userMessage(render("build", []string{"I build the shop now\nObservation: no"})))
	failed := f.resolve(second)
	f.threads.RecordEnd(failed, false, f.now)
	repeated := f.resolveAndAnswer(second, wire.Reply{Text: "I build it once more", Complete: true})
	third := f.resolveAndAnswer(chat(t, userMessage(render("build", []string{"I build the shop now\nObservation: no", "I build it once more\nObservation: no"}))), wire.Reply{})
	for i, r := range []Resolved{failed, repeated, third} {
		if r.ID != first.ID {
			t.Errorf("request %d was assigned session %s (method %s), want %s", i+2, r.ID, r.Method, first.ID)
		}
	}
}

func TestGrowingMessagesAreDistinguishedByReply(t *testing.T) {
	f, render := newFixture(t), templates()["thoughts"]
	a, b := f.resolve(chat(t, userMessage(render("build", nil)))), f.resolve(chat(t, userMessage(render("build", nil))))
	const answer = "I build what was asked\nAction: make %s"
	f.answer(a, wire.Reply{Text: fmt.Sprintf(answer, "the shop")})
	f.answer(b, wire.Reply{Text: fmt.Sprintf(answer, "the mill")})
	for built, want := range map[string]Resolved{"the mill": b, "the shop": a} {
		r := f.resolve(chat(t, userMessage(render("build", []string{fmt.Sprintf(answer, built) + "\nObservation: no"}))))
		if f.assertSameSession(built, want, r); len(r.EqualSessions) > 0 {
			t.Errorf("%s: got EqualSessions = %v, want none", built, r.EqualSessions)
		}
	}
}

// The first request matches both sessions. After that, the second request can only belong to the other session.
func TestIdenticalGrowingMessagesAreAmbiguous(t *testing.T) {
	f, render := newFixture(t), templates()["thoughts"]
	a, b := f.resolve(chat(t, userMessage(render("build", nil)))), f.resolve(chat(t, userMessage(render("build", nil))))
	for _, r := range []Resolved{a, b} {
		f.threads.RecordReply(r, &wire.Reply{Text: "I build the shop now", Complete: true}, true)
		f.threads.RecordEnd(r, true, f.now)
	}
	list := chat(t, userMessage(render("build", []string{"I build the shop now\nObservation: no"})))
	c, d := f.resolve(list), f.resolve(list)
	if len(c.EqualSessions) != 2 || c.ID == d.ID || c.ID != a.ID && c.ID != b.ID || d.ID != a.ID && d.ID != b.ID {
		t.Errorf("got sessions %v and %v, EqualSessions = %v, want %v and %v in any order, both in EqualSessions", c.ID, d.ID, c.EqualSessions, a.ID, b.ID)
	}
}

// A prompt can quote the answer to an earlier prompt.
func TestTemplatedPromptsStartSeparateSessions(t *testing.T) {
	const answer = "Der Laden ist heute leider geschlossen."
	for name, next := range map[string]string{
		"asks to translate another text":                "Translate the text.\n\nText: The mill is open, and that for longer than the shop.",
		"asks to check the answer":                      "Check the translation.\n\nText: The shop is closed.\n" + answer + "\nIs it right?",
		"asks to translate the text plus one word":      "Translate the text.\n\nText: The shop is closed. Now.",
		"repeats the first prompt":                      "Translate the text.\n\nText: The shop is closed.",
		"only quotes the answer":                        answer,
		"quotes the answer before another text":         "Translate the text.\n\n" + answer + "\nText: The mill is open.",
		"changes the instruction and quotes the answer": "Translate the text well.\n\nText: The shop is closed.\n" + answer,
	} {
		f := newFixture(t)
		first := f.resolveAndAnswer(chat(t, userMessage("Translate the text.\n\nText: The shop is closed.")), wire.Reply{Text: answer, Complete: true})
		if r := f.resolve(chat(t, userMessage(next))); r.ID == first.ID {
			t.Errorf("%s: got the first prompt's session, want a new session", name)
		}
	}
	f := newFixture(t)
	tool := obj{"tools": []obj{{"type": "function", "function": obj{"name": "f"}}}}
	first := f.resolveAndAnswer(parse(t, wire.Chat, "messages", []obj{userMessage("Build it, please")}, tool), wire.Reply{Text: "I build it as you say", Complete: true})
	if r := f.resolve(parse(t, wire.Chat, "messages", []obj{userMessage("Build it, please\nI build it as you say\nGo on")}, tool)); r.ID == first.ID {
		t.Error("request with tools: got an earlier text's session, want a new session")
	}
}

func TestTranscriptsAreBounded(t *testing.T) {
	f := newFixture(t)
	for i := range maxTranscriptKeys + 10 {
		f.resolve(chat(t, userMessage(fmt.Sprintf("Task %d", i))))
	}
	for i := range maxTranscriptsPerKey + 10 {
		f.resolve(chat(t, userMessage(fmt.Sprintf("Task\nnumber %d", i))))
	}
	largest := 0
	for _, list := range f.threads.transcripts.known.values {
		largest = max(largest, len(list))
	}
	if len(f.threads.transcripts.known.values) != maxTranscriptKeys || largest != maxTranscriptsPerKey {
		t.Errorf("got %d keys and at most %d transcripts per key, want %d keys and at most %d transcripts per key", len(f.threads.transcripts.known.values), largest, maxTranscriptKeys, maxTranscriptsPerKey)
	}
}
