package redis

import (
	"context"
	"encoding/json"
	"fmt"

	"precept/inject/bank"
	"precept/inject/lesson"
)

// Where names the bank for people. Its address is not told: it may hold a password.
func (b *Bank) Where() string { return "redis" }

// Read implements bank.Place.
func (b *Bank) Read(ctx context.Context) (bank.Reading, error) {
	texts, version, err := b.Texts(ctx)
	for name := range texts {
		if !bank.IsName(name) { // the index stands beside them
			delete(texts, name)
		}
	}
	return bank.Reading{Texts: texts, Version: version}, err
}

// Commit implements bank.Place, in one script: nothing comes between what it expects and what it
// writes.
func (b *Bank) Commit(ctx context.Context, c bank.Change) error {
	args := []any{b.channel(), "at", c.Version}
	var writes []any
	for _, e := range c.Edits {
		if err := lessonFits(e.Name, e.New); err != nil {
			return err
		}
		if e.Old == nil {
			args = append(args, "not", e.Name)
		} else {
			args = append(args, "was", e.Name, string(e.Old))
		}
		if e.New == nil {
			writes = append(writes, "del", e.Name)
		} else {
			writes = append(writes, "set", e.Name, string(e.New))
		}
	}
	if c.Index != nil {
		old, err := b.index(ctx)
		if err != nil {
			return err
		}
		if index := string(c.Index([]byte(old))); index != old {
			writes = append(writes, "set", lesson.IndexFile, index)
		}
	}
	for i := range c.Log {
		line, err := json.Marshal(&c.Log[i])
		if err != nil {
			return fmt.Errorf("audit log: %w", err)
		}
		writes = append(writes, "log", string(line))
	}
	reply, err := b.change(ctx, append(args, writes...))
	if err == nil && reply == "changed" {
		err = bank.ErrChanged
	}
	return err
}

func (b *Bank) index(ctx context.Context) (index string, err error) {
	text, _, err := b.s.value(ctx, "lessons", b.s.shared("lessons"), lesson.IndexFile)
	return string(text), err
}

// Tail implements bank.Place.
func (b *Bank) Tail(ctx context.Context, n int) (events []lesson.Event, err error) {
	lines, err := ask(ctx, b.s, "lessons", func(c client) ([]string, error) {
		return c.LRange(ctx, b.s.shared("lessons-log"), int64(-n), -1).Result()
	})
	for _, line := range lines {
		var e lesson.Event
		if json.Unmarshal([]byte(line), &e) == nil {
			events = append(events, e)
		}
	}
	return events, err
}
