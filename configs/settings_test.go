package configs

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestSettingsShowEveryKeyAndNoSecret(t *testing.T) {
	const canary = "s3cret-canary"
	c, err := Parse(Sources{Offline: true, FileName: "f", File: []byte(`
admin: {tokens: [` + canary + `]}
bandit: {epsilon: 0.25, salt: ` + canary + `}
store: {url: "redis://user:` + canary + `@127.0.0.1:6379/0"}
limits: {capture_bytes: 2MiB}
`)})
	if err != nil {
		t.Fatal(err)
	}
	list, err := Settings(c)
	if err != nil || len(list) != len(KeyInfos()) {
		t.Fatalf("Settings: got %d settings, want %d; error %v, want none", len(list), len(KeyInfos()), err)
	}
	b, err := json.Marshal(list)
	if err != nil || strings.Contains(string(b), canary) {
		t.Errorf("Settings in JSON: got %s, error %v, want no secret, no error", b, err)
	}
	var changed []string
	for _, s := range list {
		if s.Changed {
			changed = append(changed, s.Path)
		}
		switch s.Path {
		case "bandit.epsilon":
			if s.Value != "0.25" || s.Default == s.Value || s.Usage == "" {
				t.Errorf(`setting = %+v, want Value = "0.25", Default other than %q and non-empty Usage`, s, s.Value)
			}
		case "limits.capture_bytes":
			if s.Value != "2MiB" || s.Default != "1MiB" {
				t.Errorf(`setting = %+v, want Value = "2MiB" and Default = "1MiB"`, s)
			}
		case "store.url", "bandit.salt":
			if !strings.Contains(s.Value, "hidden") {
				t.Errorf(`setting = %+v, want a Value that contains "hidden"`, s)
			}
		}
	}
	if want := ChangedKeys(c); !slices.Equal(changed, want) {
		t.Errorf("settings marked as changed: got %v, want %v", changed, want)
	}
}
