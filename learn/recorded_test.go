package learn_test

import (
	"slices"
	"testing"
	"time"

	"precept/detect"
	"precept/internal/session"
	"precept/learn"
	"precept/store"
)

// recordLive stores a conversation as the proxy does. If method is session.ByEcho, recordLive also stores echoes, which
// are keys for the random ids in the transcript, such as the ids of tool calls.
func (f *fixture) recordLive(namespace session.Namespace, name string, method session.Method, tr detect.Transcript) {
	f.t.Helper()
	id := session.NamedID(tenantA, namespace, name)
	ses := f.Add(&session.Record{
		Identity: session.Identity{ID: id, Tenant: tenantA, Agent: "coder", Name: name, Method: method, Started: f.clock.now(), Seen: f.clock.now()},
		Thread:   session.Thread{Turns: 1, FirstWords: session.OpeningHash(tr.Request)},
	})
	f.Release(ses, store.DecisionsChanged)
	x := newExchange(tenantA, name, 1, f.clock.now())
	x.Session = id.String()
	if !f.Offer(store.Turn{Exchange: x, Size: 100}) {
		f.t.Fatal("Offer(turn) = false, want true")
	}
	f.deliverAndCorrect()
	if method != session.ByEcho {
		return
	}
	var echoes []session.Echo
	for _, k := range session.UniqueEchoes(tenantA, tr.Request) {
		echoes = append(echoes, session.Echo{Tenant: tenantA, Key: k, ID: id, At: f.clock.now()})
	}
	if err := f.backend.Write(f.ctx(), session.Batch{Echoes: echoes}); err != nil {
		f.t.Fatal(err)
	}
}

func TestImportSkipsRecordedConversations(t *testing.T) {
	t.Parallel()
	const (
		uuid  = "5973b6c0-94b8-487b-a530-2aeb6098ae0e"
		shed  = `"messages":[{"role":"user","content":"Paint the shed."},{"role":"assistant","content":"The shed is  painted."}`
		calls = `"messages":[{"role":"user","content":"Paint it."},{"role":"assistant","content":null,"tool_calls":[{"id":"call_Zx81kQpLm9aYt42bCw7","type":"function","function":{"name":"bash","arguments":"{}"}}]}]}`
	)
	skipped, added := learn.ImportCounts{Recorded: 1}, learn.ImportCounts{Exchanges: 1, Samples: 1, NewSamples: 1}
	for name, tc := range map[string]struct {
		namespace session.Namespace
		name      string
		method    session.Method
		live      string // transcript of the session that the proxy has recorded
		past      string // transcript that the test imports
		want      learn.ImportCounts
	}{
		"same agent session id":                       {session.NamespaceClaude, uuid, session.ByAgent, `{` + calls, `{"source":"claude-code","id":"` + uuid + `",` + shed + `]}`, skipped},
		"same id in Codex file name":                  {session.NamespaceCodexSession, uuid, session.ByAgent, `{` + calls, `{"source":"codex","id":"rollout-2026-05-07T17-24-21-` + uuid + `",` + shed + `]}`, skipped},
		"same short name and opening":                 {session.NamespaceSession, "7", session.ByHeader, `{` + shed + `]}`, `{"source":"app","id":"7","messages":[{"role":"user","content":"Paint the shed."},{"role":"assistant","content":"Which one?"}]}`, skipped},
		"same short name, different opening":          {session.NamespaceSession, "7", session.ByHeader, `{` + calls, `{"source":"app","id":"7",` + shed + `]}`, added},
		"same random call id":                         {session.NamespaceSession, "x", session.ByEcho, `{` + calls, `{` + calls, skipped},
		"same opening and replies":                    {session.NamespaceSession, "x", session.ByNew, `{` + shed + `]}`, `{"source":"app","id":"9",` + shed + `]}`, skipped},
		"same opening and replies, longer transcript": {session.NamespaceSession, "x", session.ByNew, `{` + shed + `]}`, `{"source":"app","id":"9",` + shed + `,{"role":"user","content":"Thanks."},{"role":"assistant","content":"Bye."}]}`, skipped},
		"same opening, different reply":               {session.NamespaceSession, "x", session.ByNew, `{` + shed + `]}`, `{"source":"app","id":"9","messages":[{"role":"user","content":"Paint the shed."},{"role":"assistant","content":"Which one?"}]}`, added},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			f.recordLive(tc.namespace, tc.name, tc.method, mustTranscript(t, tc.live))
			got, err := f.importer().Import(f.ctx(), tenantA, "coder", mustTranscript(t, tc.past), time.Unix(1_700_000_000, 0))
			if err != nil {
				t.Fatal(err)
			}
			assertEqual(t, "first import", got, tc.want)
			got, err = f.importer().Import(f.ctx(), tenantA, "coder", mustTranscript(t, tc.past), time.Unix(1_700_000_000, 0))
			if err != nil {
				t.Fatal(err)
			}
			tc.want.NewSamples = 0
			assertEqual(t, "repeated import", got, tc.want)
		})
	}
}

func TestImportSkipsSessionRecordedAfterPreviousImport(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	recorded := mustTranscript(t, `{"messages":[{"role":"user","content":"Paint the shed."},{"role":"assistant","content":"The shed is painted."}]}`)
	other := mustTranscript(t, `{"messages":[{"role":"user","content":"Paint the roof."},{"role":"assistant","content":"The roof is painted."}]}`)
	m := f.importer()
	var skipped []int
	for _, tr := range []detect.Transcript{other, recorded} {
		got, err := m.Import(f.ctx(), tenantA, "coder", tr, time.Unix(1_700_000_000, 0))
		if err != nil {
			t.Fatal(err)
		}
		skipped = append(skipped, got.Recorded)
		f.clock.add(time.Minute)
		f.recordLive(session.NamespaceSession, "x", session.ByNew, recorded)
	}
	if !slices.Equal(skipped, []int{0, 1}) {
		t.Errorf("numbers of transcripts that the two imports skip: got %v, want [0 1]", skipped)
	}
}
