package server

import (
	"bytes"
	"io"
	"log/slog"
	"sync"
	"time"
)

// logWait is the maximum time that a request waits for the write of a log line.
const logWait = time.Second

// logWriter writes log lines for slog. If a write hangs, because the log's reader does not read, logWriter drops the
// following lines until the write ends, so that requests continue.
type logWriter struct {
	w       io.Writer
	handler func(io.Writer) slog.Handler // formats the line about dropped lines

	mu      sync.Mutex
	pending chan struct{} // closed when the hanging write ends; nil if no write hangs
	dropped int           // lines dropped since pending was set
}

// Write implements io.Writer. It never fails.
func (l *logWriter) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var text bytes.Buffer
	if l.pending != nil {
		select {
		case <-l.pending:
		default:
			l.dropped++
			return len(line), nil
		}
		if l.dropped > 0 {
			log := slog.New(l.handler(&text))
			log.Warn("the program that reads the log was too slow; log lines were lost", "lines", l.dropped)
		}
		l.pending, l.dropped = nil, 0
	}
	text.Write(line)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = l.w.Write(text.Bytes()) // a failed write to the log cannot be logged
	}()
	timer := time.NewTimer(logWait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		l.pending = done
	}
	return len(line), nil
}
