package proxy_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"precept/internal/session"
	"precept/store/sqlite"
)

// The warning quotes a call that contains a secret and an e-mail address.
func TestStoredLoopWarningIsRedacted(t *testing.T) {
	const secret, email = "sk-" + "proj-abcdEFGH1234ijklMNOP5678qrstUVWX9012yzAB", "jane.doe@corp.example"
	up := newUpstream(t, callingModel())
	f := newFixture(t, up, "", nil, injectAll())
	header := http.Header{"Precept-Session": {"s"}}
	a := newAgent("Fix it.")
	for range 4 {
		a.addCall(firstCallID(t, f.chat(t, header, a.body())), "curl -H 'Authorization: Bearer "+secret+"' -d mail="+email+" http://h/x", "curl: (7) Failed to connect\nExit code 7")
	}
	f.chat(t, header, a.body())
	if !strings.Contains(string(up.lastRequest(t).body), "LOOP DETECTED") {
		t.Fatal("no loop warning after four equal failures")
	}
	f.stop()
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(f.dir, "precept.db"), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	row, found, err := db.Session(t.Context(), "default", session.NamedID("default", session.NamespaceSession, "s"))
	if err != nil {
		t.Fatal(err)
	}
	if !found {
		t.Fatal("stored session: found = false, want true")
	}
	if !strings.Contains(string(row.Data), "LOOP DETECTED") {
		t.Fatalf("stored session has no loop warning: %s", row.Data)
	}
	for _, value := range []string{secret, email} {
		if at := strings.Index(string(row.Data), value); at >= 0 {
			t.Errorf("stored session contains %q: %s", value, row.Data[max(0, at-120):at+len(value)])
		}
	}
}
