package redact

import "testing"

func TestSecretNameWithNumberIsRecognised(t *testing.T) {
	for text, want := range map[string]bool{
		"PASSWORD2=hunter22xyz": true, "DB_PASSWORD12: hunter22xyz": true, `{"pwd1":"hunter22xyz"}`: true, "app.pwd7 = hunter22xyz": true,
		"p3: hunter22xyz": false, "17: hunter22xyz": false, "d12345678901234567890123456789012345678901234567890: hunter22xyz": false,
		"ab12=hunter22xyz": false, "word 12: hunter22xyz": false, "1=hunter22xyz": false,
	} {
		if got := New(false).Text(text) != text; got != want {
			t.Errorf("Text(%q): got redacted = %v, want %v", text, got, want)
		}
	}
}
