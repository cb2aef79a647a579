package privacy

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"precept/store/storetest"
	"precept/test/harness"
)

// turnAt is a turn of a session, and the replica that receives the turn.
type turnAt struct {
	replica     int
	header      http.Header
	user, reply string
}

// Each session has a turn on one replica that opts out. Immediately afterwards, a turn on a different replica repeats
// the opted-out text without opting out.
func TestReplicasDoNotStoreRepeatedOptedOutText(t *testing.T) {
	t.Parallel()
	const canary, newText = "periwinkle-3141", "marigold-5926"
	server := storetest.StartRedis(t, "--rdbcompression", "no")
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(string(b), "by path") && !strings.Contains(string(b), newText) {
			_, _ = io.WriteString(w, toolCallReply("chatcmpl-1", "read", `{"path":"prod.env"}`))
			return
		}
		_, _ = io.WriteString(w, harness.ChatReply("chatcmpl-2", "an answer"))
	}))
	t.Cleanup(model.Close)
	var dirs []string
	var fleet []*harness.Process
	for range 3 {
		dir := t.TempDir()
		dirs = append(dirs, dir)
		fleet = append(fleet, harness.Launch(t, dir, []string{"PRECEPT_ADMIN_TOKEN=token"}, "--upstream", model.URL+"/v1", "--store-url", server.URL(), "--limits-lookup-timeout", "10s").WaitUntilReady(dir))
	}
	optOut := http.Header{"Precept-Learn": {"off"}}
	sessions := map[string][]turnAt{
		"opt-out by header": {
			{0, optOut, "Look for " + canary + " by header.", "I found " + canary + "."},
			{1, nil, "After the header " + newText, ""},
		},
		"opt-out by path": { // the opted-out path is in a tool call of the model
			{0, nil, "Look for " + canary + " by path.", "I found " + canary + "."},
			{1, nil, "After the path " + newText, ""},
		},
		"opt-outs at two replicas": {
			{0, optOut, "Look for " + canary + ".", "I found " + canary + "."},
			{1, optOut, "More about " + canary + ".", "And " + canary + "."},
			{0, nil, "After two opt-outs " + newText, ""},
		},
		"opt-out in the second turn": {
			{2, nil, "Before the opt-out " + newText, "Begun."},
			{0, optOut, "Look for " + canary + ".", "I found " + canary + "."},
			{2, nil, "After the opt-out " + newText, ""},
		},
	}
	for name, turns := range sessions {
		var messages []map[string]string
		for _, turn := range turns {
			messages = append(messages, map[string]string{"role": "user", "content": turn.user})
			body, err := json.Marshal(map[string]any{"model": "m", "messages": messages})
			if err != nil {
				t.Fatal(err)
			}
			header := http.Header{"Precept-Session": {name}}
			maps.Copy(header, turn.header)
			fleet[turn.replica].Chat(t, header, string(body))
			messages = append(messages, map[string]string{"role": "assistant", "content": turn.reply})
		}
	}
	for i := range fleet {
		fleet[i].WaitUntilDrained(dirs[i], "--store-url", server.URL())
		fleet[i].Stop()
	}
	all := harness.Dump(t, server)
	for i := range dirs {
		for name, text := range harness.Files(t, dirs[i]) {
			all[fmt.Sprint(i, name)] = text
		}
	}
	for name, turns := range sessions {
		for _, turn := range turns {
			if strings.Contains(turn.user, newText) {
				if len(harness.FilesWith(all, turn.user)) == 0 {
					t.Errorf("%s: text %q from a turn without an opt-out: got it nowhere in the store, want it stored", name, turn.user)
				}
				continue
			}
			for _, hidden := range []string{turn.user, turn.reply} {
				if found := harness.FilesWith(all, hidden); len(found) > 0 {
					t.Errorf("%s: keys and files with the opted-out text %q: got %v, want none", name, hidden, found)
				}
			}
		}
	}
}
