package history_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"precept/cmd/precept/history"
	"precept/detect"
	"precept/internal/wire"
)

// envWithFiles returns an environment whose home directory contains the given files.
func envWithFiles(t *testing.T, files map[string]string) history.Env {
	t.Helper()
	home := t.TempDir()
	for name, text := range files {
		path := filepath.Join(home, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return history.Env{Home: home, WorkDir: filepath.Join(home, "project"), Var: func(string) string { return "" }}
}

// readConversations reads the history of a client. It returns one line for each conversation, and the text of the
// errors about skipped entries.
func readConversations(t *testing.T, client string, env history.Env) (lines []string, skipped string) {
	t.Helper()
	c, paths, err := history.Find(client, env)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		transcripts, skippedEntries, err := c.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if skippedEntries != nil {
			skipped += skippedEntries.Error()
		}
		text, _ := io.ReadAll(transcripts)
		if len(text) == 0 {
			continue
		}
		if err := detect.ReadTranscripts(strings.NewReader(string(text)), func(tr detect.Transcript) error {
			lines = append(lines, tr.Source+" "+tr.ID+": "+outline(tr.Request))
			return nil
		}); err != nil {
			t.Fatalf("detect.ReadTranscripts(%s), transcripts %s: %v", path, text, err)
		}
	}
	return lines, skipped
}

// outline returns the messages, tool calls and tool results of a conversation in one line.
func outline(r *wire.Request) string {
	var out []string
	for i := range r.Len() {
		it := r.Item(i)
		if it.Text != "" {
			role := "user "
			if r.Role(i) == wire.RoleAssistant {
				role = "assistant "
			}
			out = append(out, role+strings.TrimSpace(it.Text))
		}
		for _, c := range it.Calls {
			out = append(out, fmt.Sprintf("call %s %s(%s)", c.ID, c.Name, c.Args))
		}
		for _, res := range it.Results {
			out = append(out, fmt.Sprintf("result %s %s", res.CallID, res.Text))
		}
	}
	return strings.Join(out, " | ")
}

func TestOpenConvertsHistoryOfEachClient(t *testing.T) {
	opencode := envWithFiles(t, map[string]string{
		".local/share/opencode/storage/session/global/ses_1.json":   `{"id":"ses_1"}`,
		".local/share/opencode/storage/message/ses_1/msg_1.json":    `{"id":"msg_1","role":"user"}`,
		".local/share/opencode/storage/message/ses_1/msg_2.json":    `{"id":"msg_2","role":"assistant"}`,
		".local/share/opencode/storage/part/msg_1/prt_1.json":       `{"type":"text","text":"Build it."}`,
		".local/share/opencode/storage/part/msg_2/prt_2.json":       `{"type":"step-start"}`,
		".local/share/opencode/storage/part/msg_2/prt_3.json":       `{"type":"tool","tool":"bash","callID":"c1","state":{"status":"error","input":{"command":"make"},"error":"no rule"}}`,
		".local/share/opencode/storage/part/msg_2/prt_4.json":       `{"type":"text","text":"It fails."}`,
		".local/share/opencode/storage/part/msg_2/prt_5.json":       `{"type":`,
		".local/share/opencode/storage/session/global/ses_2.json":   `{"id":"ses_2"}`,
		".local/share/opencode/storage/message/ses_other/empty.txt": ``,
	})
	for client, tc := range map[string]struct {
		env     history.Env
		want    []string
		skipped string // part of the expected error about skipped entries
	}{
		"claude-code": {
			env: envWithFiles(t, map[string]string{
				".claude/projects/-p/s1.jsonl": `{"type":"summary","summary":"x"}
{"type":"user","isMeta":true,"sessionId":"s1","message":{"role":"user","content":"Caveat"}}
{"type":"user","sessionId":"s1","message":{"role":"user","content":"Build it."}}
{"type":"user","isSidechain":true,"sessionId":"s1","message":{"role":"user","content":"Search."}}
{"type":"assistant","sessionId":"s1","message":{"id":"m1","role":"assistant","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"make"}}]}}
{"type":"user","sessionId":"s1","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":"no rule"}]}}
{"type":"assistant","sess
{"type":"assistant","sessionId":"s1","message":{"id":"m2","role":"assistant","content":[{"type":"text","text":"It fails."}]}}`,
				".claude/projects/-p/agent-7.jsonl": `{"type":"user","isSidechain":true,"sessionId":"s1","message":{"role":"user","content":"Search."}}
{"type":"assistant","isSidechain":true,"sessionId":"s1","message":{"role":"assistant","content":[{"type":"text","text":"Found."}]}}`,
			}),
			want: []string{
				"claude-code agent-7: user Search. | assistant Found.",
				`claude-code s1: user Build it. | call t1 Bash({"command":"make"}) | result t1 no rule | assistant It fails.`,
			},
			skipped: "line 7 was skipped",
		},
		"codex": {
			env: envWithFiles(t, map[string]string{
				".codex/sessions/2026/01/02/rollout-1.jsonl": `{"type":"session_meta","payload":{"id":"1"}}
{"type":"response_item","payload":{"type":"message","role":"developer","content":[{"type":"input_text","text":"Rules"}]}}
{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"Build it."}]}}
{"type":"event_msg","payload":{"type":"user_message","message":"Build it."}}
{"type":"response_item","payload":{"type":"reasoning","summary":[]}}
{"type":"response_item","payload":{"type":"function_call","name":"exec_command","arguments":"{\"cmd\":\"make\"}","call_id":"c1"}}
{"type":"response_item","payload":{"type":"function_call_output","call_id":"c1","output":"no rule"}}
{"type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"It fails."}]}}`,
				".codex/sessions/2025/01/02/rollout-0.jsonl": `{"id":"0","timestamp":"2025-01-02T00:00:00Z"}
{"type":"message","role":"user","content":[{"type":"input_text","text":"Old."}]}
{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Yes."}]}`,
			}),
			want: []string{
				"codex rollout-0: user Old. | assistant Yes.",
				`codex rollout-1: user Build it. | call c1 exec_command({"cmd":"make"}) | result c1 no rule | assistant It fails.`,
			},
		},
		"qwen": {
			env: envWithFiles(t, map[string]string{
				".qwen/projects/-p/chats/q1.jsonl": `{"type":"user","message":{"role":"user","parts":[{"text":"Build it."}]}}
{"type":"system","subtype":"ui_telemetry"}
{"type":"assistant","message":{"role":"model","parts":[{"text":"Hm","thought":true},{"functionCall":{"id":"c1","name":"run_shell_command","args":{"command":"make"}}}]}}
{"type":"tool_result","message":{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"run_shell_command","response":{"error":"no rule"}}}]}}
{"type":"assistant","message":{"role":"model","parts":[{"text":"It fails."}]}}`,
			}),
			want: []string{`qwen q1: user Build it. | call c1 run_shell_command({"command":"make"}) | result c1 no rule | assistant It fails.`},
		},
		"opencode": {
			env:     opencode,
			want:    []string{`opencode ses_1: user Build it. | assistant It fails. | call c1 bash({"command":"make"}) | result c1 no rule`},
			skipped: "prt_5.json was skipped",
		},
		"cline": {
			env: envWithFiles(t, map[string]string{
				".config/Code/User/globalStorage/saoudrizwan.claude-dev/tasks/17/api_conversation_history.json": `[{"role":"user","content":[{"type":"text","text":"Build it."}],"ts":1},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"execute_command","input":{"command":"make"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"no rule"}]}]`,
			}),
			want: []string{`cline 17: user Build it. | call t1 execute_command({"command":"make"}) | result t1 no rule`},
		},
		"aider": {
			env: envWithFiles(t, map[string]string{
				"project/.git/HEAD": "",
				"project/.aider.chat.history.md": "\n# aider chat started at 2026-01-02 03:04:05\n\n> Aider v0.86\n\n#### Build it.\n#### Quickly.\n\nIt fails.\n\n> Tokens: 5\n\n" +
					"# aider chat started at 2026-01-03 03:04:05\n\n> Aider v0.86\n",
			}),
			want: []string{"aider 2026-01-02 03:04:05: user Build it.\nQuickly. | assistant It fails."},
		},
	} {
		t.Run(client, func(t *testing.T) {
			got, skipped := readConversations(t, client, tc.env)
			if strings.Join(got, "\n") != strings.Join(tc.want, "\n") {
				t.Errorf("got conversations\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
			if !strings.Contains(skipped, tc.skipped) || tc.skipped == "" && skipped != "" {
				t.Errorf("error about skipped entries: got %q, want it to contain %q", skipped, tc.skipped)
			}
		})
	}
}

func TestOpenConvertsOpencodeDatabase(t *testing.T) {
	e := envWithFiles(t, map[string]string{".local/share/opencode/log": ""})
	path := filepath.Join(e.Home, ".local/share/opencode/opencode.db")
	db, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate|sqlite.OpenWAL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // opencode may be running while precept reads the history
	if err := sqlitex.ExecuteScript(db, `
CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL, data text NOT NULL);
CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL, data text NOT NULL);
INSERT INTO message VALUES ('msg_1', 'ses_1', 1, '{"role":"user"}'), ('msg_2', 'ses_1', 2, '{"role":"assistant"}'), ('msg_3', 'ses_2', 3, '{"role":"user"}');
INSERT INTO part VALUES ('prt_1', 'msg_1', 'ses_1', '{"type":"text","text":"Build it."}'),
  ('prt_2', 'msg_2', 'ses_1', '{"type":"tool","tool":"bash","callID":"c1","state":{"status":"completed","input":{"command":"make"},"output":"ok"}}'),
  ('prt_3', 'msg_3', 'ses_2', 'not JSON');`, nil); err != nil {
		t.Fatal(err)
	}
	got, skipped := readConversations(t, "opencode", e)
	if want := `opencode ses_1: user Build it. | call c1 bash({"command":"make"}) | result c1 ok`; len(got) != 1 || got[0] != want {
		t.Errorf("got conversations %q, want %q", got, want)
	}
	if !strings.Contains(skipped, "part prt_3 was skipped") {
		t.Errorf("error about skipped entries: got %q, want it to contain prt_3", skipped)
	}
}

func TestFindErrorNamesSearchedPaths(t *testing.T) {
	e := envWithFiles(t, nil)
	for _, c := range history.Clients() {
		_, _, err := history.Find(c.Name, e)
		if err == nil || !strings.Contains(err.Error(), "no "+c.Name+" history") || !strings.Contains(err.Error(), e.Home) {
			t.Errorf("Find(%s) without a history: err = %v, want an error that names the client and the searched paths", c.Name, err)
		}
	}
	if _, _, err := history.Find("emacs", e); err == nil || !strings.Contains(err.Error(), "claude-code, codex") {
		t.Errorf("Find(unknown client) error = %v, want an error that lists the known clients", err)
	}
}
