package configs

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestReferenceHasEveryKeyWithAComment(t *testing.T) {
	docs := readDocs()
	for _, f := range leafFields() {
		if _, ok := docs[f.path]; !ok {
			t.Errorf("precept.yaml: got no key %s, want every key", f.path)
		}
		if strings.TrimSpace(docs[f.path].usage) == "" {
			t.Errorf("precept.yaml, key %s: got no comment, want one", f.path)
		}
	}
}

func TestReferenceEqualsPreceptYAML(t *testing.T) {
	onDisk, err := os.ReadFile("precept.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if Reference() != string(onDisk) {
		t.Fatal("Reference(): got a text that differs from configs/precept.yaml, want the same text")
	}
}

func TestFlagAndVariableNamesFollowKeysAndAreUnique(t *testing.T) {
	want := map[string]struct{ flag, env string }{
		"listen":               {"listen", "PRECEPT_LISTEN"},
		"admin.listen":         {"admin-listen", "PRECEPT_ADMIN_LISTEN"},
		"upstream":             {"upstream", "PRECEPT_UPSTREAM"},
		"lessons":              {"lessons", "PRECEPT_LESSONS"},
		"data_dir":             {"data-dir", "PRECEPT_DATA_DIR"},
		"store.url":            {"store-url", "PRECEPT_STORE_URL"},
		"bandit.epsilon":       {"bandit-epsilon", "PRECEPT_BANDIT_EPSILON"},
		"bandit.control":       {"bandit-control", "PRECEPT_BANDIT_CONTROL"},
		"inject.k":             {"inject-k", "PRECEPT_INJECT_K"},
		"reward.close_after":   {"reward-close-after", "PRECEPT_REWARD_CLOSE_AFTER"},
		"debug_headers":        {"debug-headers", "PRECEPT_DEBUG_HEADERS"},
		"limits.inspect_bytes": {"limits-inspect-bytes", "PRECEPT_LIMITS_INSPECT_BYTES"},
	}
	flags, envs := map[string]string{}, map[string]string{}
	for _, n := range KeyInfos() {
		if w, ok := want[n.Path]; ok && (w.flag != n.Flag || w.env != n.Env) {
			t.Errorf("key %s: got flag %s (want %s), variable %s (want %s)", n.Path, n.Flag, w.flag, n.Env, w.env)
		}
		delete(want, n.Path)
		if other := flags[n.Flag]; other != "" {
			t.Errorf("keys %s and %s: got the same flag --%s, want different flags", n.Path, other, n.Flag)
		}
		if other := envs[n.Env]; other != "" {
			t.Errorf("keys %s and %s: got the same variable %s, want different variables", n.Path, other, n.Env)
		}
		flags[n.Flag], envs[n.Env] = n.Path, n.Path
	}
	for path := range want {
		t.Errorf("KeyInfos: got no key %s, want this key", path)
	}
}

func TestUsageEqualsTheKeyComment(t *testing.T) {
	for _, n := range KeyInfos() {
		switch n.Path {
		case "listen":
			if n.Usage != "Address of the data listener, to which agents send requests; port 0 picks a free port (restart)." {
				t.Errorf("usage of listen: got %q, want the comment on the key", n.Usage)
			}
			if n.Default != "127.0.0.1:8080" || n.Bool {
				t.Errorf("default of listen: got %q (Bool = %v), want 127.0.0.1:8080 (Bool = false)", n.Default, n.Bool)
			}
		case "keys":
			if strings.Contains(n.Usage, "key_sha256") {
				t.Errorf("usage of keys: got %q, want it without the example", n.Usage)
			}
		case "debug_headers":
			if !n.Bool {
				t.Error("key debug_headers: got Bool = false, want true")
			}
		}
		if strings.Contains(n.Usage, "restart") != n.NeedsRestart {
			t.Errorf("key %s: comment mentions a restart = %v, want %v, as in the tag of the field", n.Path, !n.NeedsRestart, n.NeedsRestart)
		}
	}
}

func TestReloadKeepsValuesThatNeedARestart(t *testing.T) {
	started, next := Default(), Default()
	if got, pending := ApplyReload(started, next); len(pending) != 0 || got.Hash() != started.Hash() {
		t.Fatalf("reload with an equal configuration: got pending keys %v or a changed configuration, want neither", pending)
	}
	next.Listen, next.Bandit.Epsilon, next.Store.URL, next.Reward.Tiers = "127.0.0.1:1", 0.5, "x.db", []string{"user"}
	next.Learning.Enabled = false // this change takes effect without a restart
	got, pending := ApplyReload(started, next)
	if strings.Join(pending, " ") != "listen store.url reward.tiers" {
		t.Fatalf("pending keys = %q, want listen, store.url and reward.tiers", pending)
	}
	if got.Listen != started.Listen || got.Store != started.Store || len(got.Reward.Tiers) != 3 || got.Bandit.Epsilon != 0.5 || got.Learning.Enabled {
		t.Errorf("configuration after the reload: got %+v, want the old values of listen, store and reward.tiers, and the new values of the other keys", got)
	}
	if next.Listen != "127.0.0.1:1" {
		t.Errorf("listen in the configuration that was read: got %q, want 127.0.0.1:1, unchanged by ApplyReload", next.Listen)
	}
	started.Learning.Enabled, next.Learning.Enabled = false, true // without learning at the start, there is no outbox
	if got, pending := ApplyReload(started, next); !slices.Contains(pending, "learning.enabled") || got.Learning.Enabled {
		t.Errorf("reload of a server that started without learning: got pending keys %v, learning.enabled = %v; want learning.enabled among the pending keys, and false", pending, got.Learning.Enabled)
	}
}
