package history

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

func opencodePatterns(e Env) []string {
	dir := filepath.Join(e.dataHome(), "opencode")
	return []string{filepath.Join(dir, "opencode.db"), filepath.Join(dir, "storage", "session", "*", "ses_*.json")}
}

type opencodePart struct {
	Type    string `json:"type"`
	Text    string `json:"text"`
	Ignored bool   `json:"ignored"`
	Tool    string `json:"tool"`
	CallID  string `json:"callID"`
	State   struct {
		Status string          `json:"status"`
		Input  json.RawMessage `json:"input"`
		Output string          `json:"output"`
		Error  string          `json:"error"`
	} `json:"state"`
}

type opencodeMessage struct {
	ID      string `json:"id"`
	Role    string `json:"role"`
	session string
	parts   []opencodePart
}

// readOpencode reads opencode's sessions. New releases store all sessions in a SQLite database; earlier releases stored
// each session in JSON files.
func readOpencode(path string) (conversations []Conversation, skippedErr, err error) {
	if filepath.Ext(path) == ".db" {
		return readOpencodeDB(path)
	}
	return readOpencodeFiles(path)
}

func readOpencodeDB(path string) (conversations []Conversation, skippedErr, err error) {
	db, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var skippedEntries skippedList
	defer func() { skippedErr = skippedEntries.err() }()
	var order []string
	messages := map[string]*opencodeMessage{}
	sessions := map[string][]*opencodeMessage{}
	forEachRow := func(query string, fn func(s *sqlite.Stmt) error) {
		if err == nil {
			err = sqlitex.ExecuteTransient(db, query, &sqlitex.ExecOptions{ResultFunc: fn})
		}
	}
	forEachRow(`SELECT id, session_id, data FROM message ORDER BY session_id, time_created, id`, func(s *sqlite.Stmt) error {
		m := &opencodeMessage{}
		if !json.Valid([]byte(s.ColumnText(2))) {
			skippedEntries.add("message " + s.ColumnText(0) + " was skipped: the message is not JSON")
			return nil
		}
		_ = json.Unmarshal([]byte(s.ColumnText(2)), m) // fields with a different type stay empty
		m.ID, m.session = s.ColumnText(0), s.ColumnText(1)
		if len(sessions[m.session]) == 0 {
			order = append(order, m.session)
		}
		messages[m.ID], sessions[m.session] = m, append(sessions[m.session], m)
		return nil
	})
	forEachRow(`SELECT id, message_id, data FROM part ORDER BY message_id, id`, func(s *sqlite.Stmt) error {
		p := opencodePart{}
		if !json.Valid([]byte(s.ColumnText(2))) {
			skippedEntries.add("part " + s.ColumnText(0) + " was skipped: the part is not JSON")
			return nil
		}
		_ = json.Unmarshal([]byte(s.ColumnText(2)), &p) // fields with a different type stay empty
		if m := messages[s.ColumnText(1)]; m != nil {
			m.parts = append(m.parts, p)
		}
		return nil
	})
	for _, id := range order {
		conversations = append(conversations, listIfNonEmpty(Conversation{ID: id, Messages: opencodeMessages(sessions[id])})...)
	}
	return conversations, skippedErr, err
}

// readOpencodeFiles reads storage/message/SESSION/*.json and storage/part/MESSAGE/*.json, given the file with the
// session's metadata.
func readOpencodeFiles(path string) (conversations []Conversation, skippedErr, err error) {
	storage := filepath.Dir(filepath.Dir(filepath.Dir(path)))
	id := baseName(path)
	list, skippedErr, err := readFiles[opencodeMessage](filepath.Join(storage, "message", id))
	if err != nil {
		return nil, nil, err
	}
	var messages []*opencodeMessage
	for i := range list {
		m := &list[i]
		parts, skippedParts, err := readFiles[opencodePart](filepath.Join(storage, "part", m.ID))
		if err != nil {
			return nil, nil, err
		}
		m.parts, skippedErr = parts, errors.Join(skippedErr, skippedParts)
		messages = append(messages, m)
	}
	return listIfNonEmpty(Conversation{ID: id, Messages: opencodeMessages(messages)}), skippedErr, nil
}

// readFiles reads files sorted by name, which is the order in which they were created.
func readFiles[T any](dir string) (list []T, skippedErr, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.json"))
	slices.Sort(names)
	for _, name := range names {
		raw, err := os.ReadFile(name) //nolint:gosec // the user chose the file or its client
		if err != nil {
			return nil, nil, err
		}
		var v T
		if json.Unmarshal(raw, &v) != nil {
			skippedErr = errors.Join(skippedErr, errors.New(filepath.Base(name)+" was skipped: the file is not JSON"))
			continue
		}
		list = append(list, v)
	}
	return list, skippedErr, err
}

func opencodeMessages(messages []*opencodeMessage) (list []json.RawMessage) {
	for _, m := range messages {
		var text []string
		var calls []any
		var results []json.RawMessage
		for i := range m.parts {
			switch p := &m.parts[i]; {
			case p.Type == "text" && !p.Ignored:
				text = append(text, p.Text)
			case p.Type == "tool":
				calls = append(calls, call(p.CallID, p.Tool, p.State.Input))
				if p.State.Status == "completed" || p.State.Status == "error" {
					results = append(results, message("tool", map[string]any{"tool_call_id": p.CallID, "content": cmp.Or(p.State.Error, p.State.Output)}))
				}
			}
		}
		words := strings.Join(text, "\n")
		switch {
		case m.Role == "assistant" && (words != "" || len(calls) > 0):
			list = append(append(list, assistantMessage(words, calls)), results...)
		case m.Role == "user" && words != "":
			list = append(list, message("user", map[string]any{"content": words}))
		}
	}
	return list
}
