package session_test

import (
	"net/http"
	"runtime"
	"strings"
	"testing"

	"precept/internal/session"
)

func TestNamesDoNotRetainHeaderOrPath(t *testing.T) {
	heap := func() int64 {
		var s runtime.MemStats
		for range 3 {
			runtime.GC()
		}
		runtime.ReadMemStats(&s)
		return int64(s.HeapAlloc)
	}
	const claims, size = 200, 100 << 10
	for source, identify := range map[string]func() session.Claim{
		"User-Agent": func() session.Claim {
			return session.Identify(http.Header{"User-Agent": {"agent " + strings.Repeat("x", size)}}, "/v1/chat/completions", nil)
		},
		"path form": func() session.Claim {
			return session.Identify(http.Header{}, "/p/agent=a,session=s,role=r,skill=k,run=n/v1/"+strings.Repeat("x", size)+"/chat/completions", nil)
		},
	} {
		before := heap()
		var kept []string
		for range claims {
			c := identify()
			kept = append(kept, c.Agent, c.Session, c.Role, c.Skill, c.Run)
		}
		if grown := heap() - before; grown > claims*size/4 {
			t.Errorf("%s: names from %d claims keep %d KiB reachable, want at most %d KiB", source, claims, grown>>10, claims*size/4>>10)
		}
		runtime.KeepAlive(kept)
	}
}
