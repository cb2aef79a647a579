package redact_test

import (
	"testing"

	"precept/internal/redact"
)

func TestNetUseWithoutShareIsUnchanged(t *testing.T) {
	for _, text := range []string{"net use /user:bob", "$ net use /user:bob", "net use  /user:bob", "x\nnet use /user:"} {
		if got := redact.New(true).Text(text); got != text {
			t.Errorf("Text(%q) = %q, want no change", text, got)
		}
	}
}

func TestBasicCredentialsEndAtAColon(t *testing.T) {
	if got := redact.New(true).Text("Basic dXNlcjpodW50ZXIy:8080"); got == "Basic dXNlcjpodW50ZXIy:8080" {
		t.Errorf("Text = %q, want the credentials redacted", got)
	}
}
