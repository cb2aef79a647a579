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

// A session opts out at one replica, by the header or by a path. Its next turn repeats the whole
// text without the header and reaches another replica at once: no file of the fleet and no key of
// Redis holds the earlier text, and the new text is stored. The same holds for an opt-out in the
// middle, and when the session returns to the first replica.
func TestRepeatedOptedOutTextIsNotStoredByReplicas(t *testing.T) {
	t.Parallel()
	const canary, news = "periwinkle-3141", "marigold-5926"
	server := storetest.StartRedis(t, "--rdbcompression", "no")
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(string(b), "by path") && !strings.Contains(string(b), news) {
			_, _ = io.WriteString(w, calling("chatcmpl-1", "read", `{"path":"prod.env"}`))
			return
		}
		_, _ = io.WriteString(w, harness.ChatReply("chatcmpl-2", "an answer"))
	}))
	t.Cleanup(up.Close)
	var dirs []string
	var fleet []*harness.Process
	for range 3 {
		dir := t.TempDir()
		dirs = append(dirs, dir)
		fleet = append(fleet, harness.Launch(t, dir, []string{"PRECEPT_ADMIN_TOKEN=token"}, "--upstream", up.URL+"/v1", "--store-url", server.URL(), "--limits-lookup-timeout", "10s").Ready(dir))
	}
	off := http.Header{"Precept-Learn": {"off"}}
	send := func(at int, name, list string, header http.Header) {
		t.Helper()
		h := http.Header{"Precept-Session": {name}}
		maps.Copy(h, header)
		if code, answer := harness.Post(t, fleet[at].Data+"/v1/chat/completions", h, `{"model":"m","messages":[`+list+`]}`); code != 200 {
			t.Fatalf("got code %d, answer %s, want status 200", code, answer)
		}
	}
	messageJSON := func(role, text string) string { return fmt.Sprintf(`{"role":%q,"content":%q}`, role, text) }
	add := func(list string, more ...string) string { return strings.Join(append([]string{list}, more...), ",") }
	for form, header := range map[string]http.Header{"by header": off, "by path": nil} {
		// the whole session opted out, at one replica
		one := messageJSON("user", "Look for "+canary+" "+form+".")
		send(0, "one "+form, one, header)
		one = add(one, messageJSON("assistant", "I found "+canary+"."), messageJSON("user", "And one "+news+"?"))
		send(1, "one "+form, one, nil)
	}
	// the whole session opted out, at two replicas; then the session returns to the first
	two := messageJSON("user", "Look for "+canary+".")
	send(0, "two", two, off)
	two = add(two, messageJSON("assistant", "I found "+canary+"."), messageJSON("user", "More of "+canary+"."))
	send(1, "two", two, off)
	two = add(two, messageJSON("assistant", "And "+canary+"."), messageJSON("user", "And two "+news+"?"))
	send(0, "two", two, nil)
	// a turn in the middle
	mid := messageJSON("user", "Begin with mid "+news+".")
	send(2, "mid", mid, nil)
	mid = add(mid, messageJSON("assistant", "Begun."), messageJSON("user", "Look for "+canary+"."))
	send(0, "mid", mid, off)
	mid = add(mid, messageJSON("assistant", "I found "+canary+"."), messageJSON("user", "And mid again "+news+"?"))
	send(2, "mid", mid, nil)
	for i := range fleet {
		fleet[i].Drained(dirs[i], "--store-url", server.URL())
		fleet[i].Stop()
	}
	all := harness.Dump(t, server)
	for i := range dirs {
		for name, text := range harness.Files(t, dirs[i]) {
			all[fmt.Sprint(i, name)] = text
		}
	}
	for _, trace := range []string{"Look for " + canary, "I found " + canary, "More of " + canary, "And " + canary} {
		if found := harness.FilesWith(all, trace); len(found) > 0 {
			t.Errorf("the opted-out word %q is in %v", trace, found)
		}
	}
	for _, kept := range []string{"And one " + news, "And two " + news, "mid " + news, "mid again " + news} {
		if len(harness.FilesWith(all, kept)) == 0 {
			t.Errorf("the word %q of another turn is not stored", kept)
		}
	}
}
