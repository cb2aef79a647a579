package bank_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"precept/inject/bank"
	"precept/inject/bank/banktest"
)

func TestDirectoryPassesTheBankSuite(t *testing.T) {
	banktest.Run(t, func(t *testing.T) bank.Place {
		t.Helper()
		return bank.Directory(filepath.Join(t.TempDir(), "lessons"))
	})
}

// The log of a directory is read without its torn lines.
func TestDirectorySkipsTornLogLines(t *testing.T) {
	dir := t.TempDir()
	log := `{"action":"create","slug":"a"}` + "\n" + `{"action":"app` + "\n" + `{"action":"edit","slug":"a"}` + "\n"
	if err := os.WriteFile(filepath.Join(dir, "_log.jsonl"), []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	events, err := bank.Directory(dir).Tail(t.Context(), 10)
	if err != nil || len(events) != 2 || events[1].Action != "edit" {
		t.Errorf(`got error %v, events %+v, want no error, two entries in events and Action = "edit"`, err, events)
	}
	if events, _ := bank.Directory(dir).Tail(t.Context(), 1); len(events) != 1 || events[0].Action != "edit" {
		t.Errorf(`got %+v, want one entry in events and Action = "edit"`, events)
	}
	long := strings.Repeat(`{"action":"create","slug":"a"}`+"\n", 50_000)
	if err := os.WriteFile(filepath.Join(dir, "_log.jsonl"), []byte(long), 0o600); err != nil {
		t.Fatal(err)
	}
	if events, err := bank.Directory(dir).Tail(t.Context(), 4000); err != nil || len(events) != 4000 {
		t.Errorf("a long log has %d events, want 4000: %v", len(events), err)
	}
}
