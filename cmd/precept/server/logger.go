package server

import (
	"context"
	"io"
	"log/slog"
	"time"

	"precept/configs"
)

// logger is the program's slog logger with a level that a reload can change.
type logger struct {
	*slog.Logger
	level slog.LevelVar
	now   func() time.Time
}

func newLogger(w io.Writer, c configs.Log, now func() time.Time) *logger {
	l := &logger{now: now}
	l.setLevel(c.Level)
	options := &slog.HandlerOptions{Level: &l.level}
	if c.Format == "json" {
		l.Logger = slog.New(slog.NewJSONHandler(w, options))
	} else {
		l.Logger = slog.New(slog.NewTextHandler(w, options))
	}
	return l
}

// setLevel takes the configuration's word; one that it does not know changes nothing.
func (l *logger) setLevel(word string) {
	var level slog.Level
	if level.UnmarshalText([]byte(word)) == nil {
		l.level.Set(level)
	}
}

// always writes a line whatever the level: programs wait for it.
func (l *logger) always(ctx context.Context, msg string, args ...any) {
	r := slog.NewRecord(l.now(), slog.LevelInfo, msg, 0)
	r.Add(args...)
	_ = l.Handler().Handle(ctx, r) // a log that cannot be written has nowhere to say so
}
