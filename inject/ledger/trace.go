package ledger

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"precept/internal/file"
)

// TraceFile is the trace in the ledger's folder, with a line for each operation.
const TraceFile = ".orchestration/agent_trace.jsonl"

type traceLine struct {
	Timestamp string   `json:"timestamp"`
	Operation string   `json:"operation"` // record | verify
	Status    string   `json:"status"`
	Ledger    string   `json:"ledger"`
	IntentID  string   `json:"intent_id,omitempty"`
	Type      string   `json:"type,omitempty"`
	File      string   `json:"file,omitempty"`
	Signature string   `json:"signature,omitempty"`
	Command   []string `json:"command,omitempty"`
	ExitCode  *int     `json:"exit_code,omitempty"`
	Failures  *int     `json:"failures,omitempty"`
	Message   string   `json:"message,omitempty"`
	Entry     *Entry   `json:"entry,omitempty"` // entry that could not be written to the ledger
}

// traceTimeFormat is RFC 3339 with milliseconds.
const traceTimeFormat = "2006-01-02T15:04:05.000Z07:00"

func (l *Ledger) trace(results []Result) error {
	now := l.Now().UTC().Format(traceTimeFormat)
	lines := make([]traceLine, 0, len(results))
	for i := range results {
		r := &results[i]
		t := traceLine{
			Timestamp: now, Operation: "record", Status: string(r.Status), Ledger: r.Ledger, IntentID: r.Entry.IntentID,
			Type: r.Entry.Type, File: r.Entry.File, Signature: r.Signature, Message: r.Message,
		}
		if r.Status == Failed {
			t.Entry = &r.Entry
		}
		lines = append(lines, t)
	}
	return l.appendTrace(lines)
}

// TraceVerify logs a command that precept verify ran.
func (l *Ledger) TraceVerify(command []string, code, failures int) error {
	status := "passed"
	if code != 0 {
		status = "failed"
	}
	args := make([]string, len(command))
	for i, a := range command {
		args[i] = redactText(a)
	}
	return l.appendTrace([]traceLine{{
		Timestamp: l.Now().UTC().Format(traceTimeFormat), Operation: "verify", Status: status, Ledger: l.Path, Command: args, ExitCode: &code, Failures: &failures,
	}})
}

func (l *Ledger) appendTrace(lines []traceLine) error {
	var out []byte
	for i := range lines {
		b, err := json.Marshal(&lines[i])
		if err != nil {
			return fmt.Errorf("trace: %w", err)
		}
		out = append(append(out, b...), '\n')
	}
	path := filepath.Join(filepath.Dir(l.Path), filepath.FromSlash(TraceFile))
	if err := file.Append(path, 0o644, out); err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	return nil
}

// TraceRefused logs that an entry was refused, with its faults.
func (l *Ledger) TraceRefused(cause error) error {
	return l.appendTrace([]traceLine{{
		Timestamp: l.Now().UTC().Format(traceTimeFormat), Operation: "record", Status: "refused", Ledger: l.Path, Message: singleLine(redactText(cause.Error())),
	}})
}
