package inject_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"precept/bandit"
	"precept/detect"
	"precept/inject"
	"precept/inject/lesson"
	"precept/internal/session"
	"precept/internal/wire"
)

// BenchmarkNewText measures requests with half a megabyte of new text, which is spread over the messages in different
// ways.
func BenchmarkNewText(b *testing.B) {
	code := "func main() {\n\tfmt.Println(\"hello, world\")\n\tfor i := range 10 {\n\t\twork(i) // and so on, as code goes\n\t}\n}\n"
	quote := func(s string) string { x, _ := json.Marshal(s); return string(x) }
	var items []string
	items = append(items, `{"role":"user","content":"Fix the failing test."}`)
	size := 0
	for i := 0; size < 530_000; i++ {
		out := quote(fmt.Sprint("step ", i, "\n") + strings.Repeat(code, 1+i%30))
		items = append(items, fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"id":"call_%d","type":"function","function":{"name":"bash","arguments":"{\"command\":\"cat f%d\"}"}}]},{"role":"tool","tool_call_id":"call_%d","content":%s}`, i, i, i, out))
		size += len(out) + 200
	}
	manyResults := []byte(`{"messages":[` + strings.Join(items, ",") + `]}`)
	oneMessage := []byte(`{"messages":[{"role":"user","content":` + quote(strings.Repeat(code, 530_000/len(code))) + `}]}`)
	oneResult := []byte(`{"messages":[{"role":"user","content":"go"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"bash","arguments":"{\"command\":\"cat f\"}"}}]},{"role":"tool","tool_call_id":"c","content":` + quote(strings.Repeat(code, 530_000/len(code))) + `}]}`)
	var all []*lesson.Lesson
	for i := range 1000 {
		all = append(all, &lesson.Lesson{Slug: fmt.Sprintf("l-%d", i), State: lesson.Active, ContentHash: strings.Repeat("0", 64), Trigger: lesson.Trigger{Keywords: []string{fmt.Sprintf("phrase number %d", i), fmt.Sprintf("wording %d x", i), fmt.Sprintf("words like %d", i)}}})
	}
	book := lesson.NewBook(all)
	injector := inject.New(inject.Config{Bandit: bandit.Config{K: 3, Objective: bandit.All, Salt: "x"}})
	now := time.Unix(1e9, 0)
	for name, body := range map[string][]byte{"many results": manyResults, "one message": oneMessage, "one result": oneResult} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				cache := wire.NewParseCache()
				req, err := cache.Parse(1, wire.Chat, body, 20000)
				if err != nil {
					b.Fatal(err)
				}
				threads := session.NewThreader(func() [16]byte { return [16]byte{1} })
				found := threads.Resolve(session.Scope{Tenant: "d"}, session.Claim{Agent: "c"}, req, now, nil)
				rec := session.NewRecord("d", session.Claim{Agent: "c"}, found, now)
				rec.SideReason(req, session.Claim{}, session.SideDetector{SideKind: detect.SideRequestKind, WorksWithTools: detect.AlwaysSendsTools})
				var results detect.Results
				injector.Plan(rec, inject.Input{Request: req, Book: book, Beliefs: bandit.New(), Results: &results, Now: now})
				results.Signals(req, nil)
			}
		})
	}
}
