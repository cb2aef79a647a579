package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"precept/cmd/precept/server"
	"precept/configs"
	"precept/distill"
	"precept/inject/bank"
	"precept/inject/bank/banktest"
	"precept/inject/lesson"
	"precept/internal/sample"
	"precept/store/sqlite"
)

// The key lessons names a directory, a Redis URL, or redis:// for the Redis that is also the store.
func TestOpenStorageOpensDirectoryOrRedis(t *testing.T) {
	for _, tc := range []struct{ lessons, store, wantName, wantError string }{
		{"bank", "", "bank", ""},
		{"bank", "redis://127.0.0.1:1/0", "bank", ""},
		{"redis://127.0.0.1:1/0", "", "redis", ""},
		{"redis://", "redis://127.0.0.1:1/0", "redis", ""},
		{"redis://", "data/precept.db", "", "such as redis://host:6379/0"},
		{"redis://127.0.0.1:1/zero", "", "", "lessons: "},
	} {
		cfg := configs.Default()
		cfg.Lessons, cfg.Store.URL = tc.lessons, configs.Secret(tc.store)
		tools := testTools()
		storage, closeStorage, err := tools.OpenStorage(cfg)
		if tc.wantError != "" {
			if err == nil || !strings.Contains(err.Error(), tc.wantError) {
				t.Errorf("OpenStorage(lessons %q, store %q) error = %v, want an error with %q", tc.lessons, tc.store, err, tc.wantError)
			}
			continue
		}
		if err != nil {
			t.Errorf("OpenStorage(lessons %q, store %q) error = %v, want none", tc.lessons, tc.store, err)
			continue
		}
		if storage.Name() != tc.wantName {
			t.Errorf("OpenStorage(lessons %q, store %q): storage name = %s, want %s", tc.lessons, tc.store, storage.Name(), tc.wantName)
		}
		closeStorage()
	}
}

func TestOpenBankAppliesWriteLimit(t *testing.T) {
	cfg := loadConfig(t, newFlagSource(t, nil))
	banktest.WriteLesson(t, cfg.Lessons, "look-first", "targets")
	tools := testTools()
	b, closeBank, err := tools.OpenBank(cfg, func(o *bank.Options) { o.Limits.AgentWritesPerHour = 1 })
	if err != nil {
		t.Fatal(err)
	}
	defer closeBank()
	for i, want := range []error{nil, bank.ErrTooMany} {
		text := strings.ReplaceAll(readLookFirst(t, cfg.Lessons), "look-first", fmt.Sprint("look-", i))
		if _, err := b.Propose(t.Context(), bank.Proposal{Text: []byte(text), Source: "api", By: "coder", Scope: lesson.Scope{Tenant: "default", Agent: "coder"}}); !errors.Is(err, want) {
			t.Errorf("proposal %d by the same agent within one hour: err = %v, want %v", i+1, err, want)
		}
	}
}

// SecretKinds must not find personal data, because an email address in a lesson is not a secret.
func TestSecretKindsOmitPersonalData(t *testing.T) {
	if kinds := server.SecretKinds("token sk-ant-api03-" + strings.Repeat("a1B2", 24)); len(kinds) == 0 {
		t.Error("SecretKinds(API key) = none, want at least one kind")
	}
	if kinds := server.SecretKinds("ask ann@example.org"); len(kinds) != 0 {
		t.Errorf("SecretKinds(email address) = %v, want none", kinds)
	}
	if kinds := server.PrivateKinds("ask ann@example.org"); len(kinds) != 1 {
		t.Errorf("PrivateKinds(email address) = %v, want one kind", kinds)
	}
}

func readLookFirst(t *testing.T, dir string) string {
	t.Helper()
	r, err := bank.Directory(dir).Read(t.Context())
	if err != nil || len(r.Texts) == 0 {
		t.Fatalf("Read: got %d lessons, problems %+v, error %v, want at least one lesson", len(r.Texts), r.Problems, err)
	}
	return string(r.Texts["look-first.md"])
}

// Only the session named "matches" has random assignments. The session named "no-match" has none, so the export must
// not contain a line about it.
func TestExperimentExportIncludesOpenSessions(t *testing.T) {
	for _, tc := range []struct{ name, control, epsilon, holdoutArm, controlArm string }{
		{"no lesson withheld", "0", "0", "injected", "treated"}, {"every lesson withheld", "0", "1", "withheld", "treated"}, {"every session in the control group", "1", "0", "", "control"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			lessons := t.TempDir()
			banktest.WriteLesson(t, lessons, "look-first", "targets")
			source := newFlagSource(t, injectAllOptions(map[string]string{
				"upstream": startModel(t), "lessons": lessons, "bandit.control": tc.control, "bandit.epsilon": tc.epsilon, "reward.close_after": "1h",
			}))
			s := startServer(t, source)
			for name, text := range map[string]string{"matches": "build the targets", "no-match": "hello"} {
				header := map[string]string{"Precept-Session": name, "Precept-Run": "nightly-" + name}
				if status, answer := send(t, http.MethodPost, s.dataURL+"/v1/chat/completions", header, fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}]}`, text)); status != http.StatusOK {
					t.Fatalf("%s chat request: got status %d, body %q, want status 200", name, status, answer)
				}
			}
			if err := s.stopAndWait(); err != nil {
				t.Fatal(err)
			}
			tools := testTools()
			e, err := tools.OpenFiltered(t.Context(), loadConfig(t, source))
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close() //nolint:errcheck // nothing was written
			var out strings.Builder
			if err := (&server.ExportJob{StoreReader: e, Filter: &sample.Filter{}, Out: &out}).Write(t.Context(), "experiment"); err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for line := range strings.Lines(out.String()) {
				var d sample.Trial
				if err := json.Unmarshal([]byte(line), &d); err != nil {
					t.Fatal(err)
				}
				if d.Run != "nightly-matches" || d.Closed || d.Outcome != nil || d.Propensity != 1 {
					t.Errorf("exported assignment: got %s, want an assignment of run nightly-matches with propensity 1, not closed and without an outcome", line)
				}
				got[d.Coin+" "+d.Slug] = d.Assigned
			}
			// A key consists of the assignment's kind, a space and the lesson's slug. The slug is empty if the
			// assignment applies to the whole session.
			want := map[string]string{"control ": tc.controlArm, "holdout look-first": tc.holdoutArm}
			if tc.controlArm == "control" {
				want = map[string]string{"control ": "control", "control look-first": "control"}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("assigned arm by kind and lesson: got %v, want %v", got, want)
			}
		})
	}
}

func TestOpenFilteredDoesNotCreateStore(t *testing.T) {
	cfg := loadConfig(t, newFlagSource(t, nil))
	tools := testTools()
	if _, err := tools.OpenFiltered(t.Context(), cfg); !errors.Is(err, sqlite.ErrMissing) {
		t.Errorf("OpenFiltered, before a server has created the store: err = %v, want %v", err, sqlite.ErrMissing)
	}
	db, err := tools.OpenStore(t.Context(), cfg, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	filtered, err := tools.OpenFiltered(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer filtered.Close() //nolint:errcheck // nothing was written
	if n, err := filtered.Stats(t.Context()); err != nil || n["sessions"] != 0 {
		t.Errorf("new store Stats = %v, error %v, want 0 sessions", n, err)
	}
	for _, dir := range []string{cfg.DataDir, filepath.Join(cfg.DataDir, "none")} {
		if server.IsLocked(dir) {
			t.Errorf("no server: IsLocked(%q) = true, want false", dir)
		}
	}
}

// Each run of this Distiller panics. Follow must still start the next run after the interval.
func TestDistillerPanicEndsOnlyOneRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := server.Distiller{Options: distill.Options{Now: time.Now}} // a Distiller without a store panics
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		start, runs := time.Now(), 0
		err := d.Follow(ctx, time.Hour, func(_ distill.Summary, err error) {
			if err == nil || !strings.Contains(err.Error(), "panic") {
				t.Errorf("run %d: err = %v, want an error that contains \"panic\"", runs+1, err)
			}
			if runs++; runs == 3 {
				stop()
			}
		})
		if err != nil || runs != 3 || time.Since(start) != 2*time.Hour {
			t.Errorf("Follow: got %d runs in %v, error %v, want 3 runs in 2h and no error", runs, time.Since(start), err)
		}
	})
}
