package privacy

import (
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

// A session opts out at one replica. The next turn immediately reaches a different replica and repeats the opted-out
// text without the header.
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
	off := http.Header{"Precept-Learn": {"off"}}
	send := func(replica int, name, list string, header http.Header) {
		t.Helper()
		h := http.Header{"Precept-Session": {name}}
		maps.Copy(h, header)
		if code, answer := harness.Post(t, fleet[replica].DataURL+"/v1/chat/completions", h, `{"model":"m","messages":[`+list+`]}`); code != 200 {
			t.Fatalf("chat request: got status %d, body %s, want 200", code, answer)
		}
	}
	messageJSON := func(role, text string) string { return fmt.Sprintf(`{"role":%q,"content":%q}`, role, text) }
	appendMessages := func(list string, messages ...string) string {
		return strings.Join(append([]string{list}, messages...), ",")
	}
	for form, header := range map[string]http.Header{"by header": off, "by path": nil} { // the model calls a tool with an opted-out path if the text has "by path"
		// The first turn opts out at one replica. The second turn reaches a different replica.
		one := messageJSON("user", "Look for "+canary+" "+form+".")
		send(0, "one "+form, one, header)
		one = appendMessages(one, messageJSON("assistant", "I found "+canary+"."), messageJSON("user", "And one "+newText+"?"))
		send(1, "one "+form, one, nil)
	}
	// Two turns opt out, at two replicas. The third turn returns to the first replica.
	two := messageJSON("user", "Look for "+canary+".")
	send(0, "two", two, off)
	two = appendMessages(two, messageJSON("assistant", "I found "+canary+"."), messageJSON("user", "More of "+canary+"."))
	send(1, "two", two, off)
	two = appendMessages(two, messageJSON("assistant", "And "+canary+"."), messageJSON("user", "And two "+newText+"?"))
	send(0, "two", two, nil)
	// Only the second of three turns opts out, at a different replica.
	middle := messageJSON("user", "Begin with mid "+newText+".")
	send(2, "mid", middle, nil)
	middle = appendMessages(middle, messageJSON("assistant", "Begun."), messageJSON("user", "Look for "+canary+"."))
	send(0, "mid", middle, off)
	middle = appendMessages(middle, messageJSON("assistant", "I found "+canary+"."), messageJSON("user", "And mid again "+newText+"?"))
	send(2, "mid", middle, nil)
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
	for _, hiddenText := range []string{"Look for " + canary, "I found " + canary, "More of " + canary, "And " + canary} {
		if found := harness.FilesWith(all, hiddenText); len(found) > 0 {
			t.Errorf("keys and files with the opted-out text %q: got %v, want none", hiddenText, found)
		}
	}
	for _, storedText := range []string{"And one " + newText, "And two " + newText, "mid " + newText, "mid again " + newText} {
		if len(harness.FilesWith(all, storedText)) == 0 {
			t.Errorf("text %q from a turn without an opt-out is not stored", storedText)
		}
	}
}
