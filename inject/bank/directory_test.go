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
	banktest.Run(t, func(t *testing.T) bank.Storage {
		t.Helper()
		return bank.Directory(filepath.Join(t.TempDir(), "lessons"))
	})
}

// Tail reads more than the last megabyte of the log if that part has too few events.
func TestTailSkipsTruncatedLogLines(t *testing.T) {
	dir := t.TempDir()
	log := `{"action":"create","slug":"a"}` + "\n" + `{"action":"app` + "\n" + `{"action":"edit","slug":"a"}` + "\n"
	if err := os.WriteFile(filepath.Join(dir, "_log.jsonl"), []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	events, err := bank.Directory(dir).Tail(t.Context(), 10)
	if err != nil || len(events) != 2 || events[1].Action != "edit" {
		t.Errorf("Tail(10) = %+v, %v, want two events, the last an edit", events, err)
	}
	if events, _ := bank.Directory(dir).Tail(t.Context(), 1); len(events) != 1 || events[0].Action != "edit" {
		t.Errorf("Tail(1) = %+v, want the edit", events)
	}
	long := strings.Repeat(`{"action":"create","slug":"a"}`+"\n", 50_000)
	if err := os.WriteFile(filepath.Join(dir, "_log.jsonl"), []byte(long), 0o600); err != nil {
		t.Fatal(err)
	}
	if events, err := bank.Directory(dir).Tail(t.Context(), 4000); err != nil || len(events) != 4000 {
		t.Errorf("Tail(4000) from 50,000 events = %d events, error %v, want 4000 events", len(events), err)
	}
}
