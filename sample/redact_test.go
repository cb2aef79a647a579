package sample

import (
	"encoding/json"
	"strings"
	"testing"
)

// Vendor keys are put together at run time, so that scanners of this repository find none in it.
func key(parts ...string) string { return strings.Join(parts, "") }

func TestRedactText(t *testing.T) {
	const a32, a36 = "0a1b2c3d4e5f60718293a4b5c6d7e8f9", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
	tests := []struct{ name, in, want string }{
		{"nothing", "func main() { x := a[1] }", "func main() { x := a[1] }"},
		{"email", "mail bob.smith+x@corp.example.com, please", "mail [REDACTED:email:1], please"},
		{"email at the end of a sentence", "Ask bob@example.com.", "Ask [REDACTED:email:1]."},
		{"same value, same number", "a@b.io c@d.io A@b.io", "[REDACTED:email:1] [REDACTED:email:2] [REDACTED:email:1]"},
		{"escaped address", `{\"to\":\"bob\u0040example.com\"}`, `{\"to\":\"[REDACTED:email:1]\"}`},
		{"address after an escaped line feed", `x\nbob@example.com\n`, `x\n[REDACTED:email:1]\n`},
		{"address in a query", "?q=bob%40example.com&x=1", "?q=[REDACTED:email:1]&x=1"},
		{"git remote", "git@github.com:a/b.git", "git@github.com:a/b.git"},
		{"image", "logo@2x.png", "logo@2x.png"},
		{"package", "left-pad@1.3.0 and @types/node@18", "left-pad@1.3.0 and @types/node@18"},
		{"openai", "k=" + key("sk-", "proj-", a36), "k=[REDACTED:openai_key:1]"},
		{"anthropic", key("sk-", "ant-api03-", a36), "[REDACTED:anthropic_key:1]"},
		{"css", "sk-fading-circle-before", "sk-fading-circle-before"},
		{"aws id", "id " + key("AKIA", "IOSFODNN7ABCDEFG") + ".", "id [REDACTED:aws_key:1]."},
		{"aws secret", "aws_secret_access_key = " + key("wJalrXUtnFEMI/K7MDENG/", "bPxRfiCYzzzzzzKEY"), "aws_secret_access_key = [REDACTED:aws_key:1]"},
		{"github", "token=" + key("ghp", "_", a36), "token=[REDACTED:github_token:1]"},
		{"stripe", key("sk", "_live_", a36), "[REDACTED:stripe_key:1]"},
		{"bearer", "Authorization: Bearer abcdef0123456789", "Authorization: Bearer [REDACTED:authorization:1]"},
		{"bearer variable", "Authorization: Bearer $TOKEN", "Authorization: Bearer $TOKEN"},
		{"basic", "authorization: basic dXNlcjpwYXNzd29yZA==", "authorization: basic [REDACTED:authorization:1]"},
		{"basic prose", "Basic authentication is", "Basic authentication is"},
		{"url", "postgres://app:s3cr3t@db:5432/x", "postgres://[REDACTED:url_credentials:1]@db:5432/x"},
		{"url variable", "postgres://app:${PW}@db/x", "postgres://app:${PW}@db/x"},
		{"password", `password = "hunter2"`, `password = "[REDACTED:secret:1]"`},
		{"password env", "DB_PASSWORD=hunter2 run", "DB_PASSWORD=[REDACTED:secret:1] run"},
		{"password yaml", "  password: hunter2\n", "  password: [REDACTED:secret:1]\n"},
		{"password code", "password := os.Getenv(\"X\")", "password := os.Getenv(\"X\")"},
		{"password flag", "mysql --password hunter2 -u x", "mysql --password [REDACTED:secret:1] -u x"},
		{"password with a quote", `{"password":"hun\"ter2","x":1}`, `{"password":"[REDACTED:secret:1]","x":1}`},
		{"azure", "AccountName=x;AccountKey=Ab1/Cd2+Ef3gHi4jKl5mNo6pQr7sTu8v==;End", "AccountName=x;AccountKey=[REDACTED:azure_key:1];End"},
		{"twilio", "sid " + key("AC", a32), "sid [REDACTED:twilio_key:1]"},
		{"card", "card 4111 1111 1111 1111 exp 12/27", "card [REDACTED:card:1] exp 12/27"},
		{"card, one digit wrong", "card 4111111111111112", "card 4111111111111112"},
		{"iban", "to DE89 3704 0044 0532 0130 00 now", "to [REDACTED:iban:1] now"},
		{"iban, one digit wrong", "DE88370400440532013000", "DE88370400440532013000"},
		{"ssn", "ssn 078-05-1120", "ssn [REDACTED:ssn:1]"},
		{"phones", "+1 (415) 555-0100, (415) 555-0100, 415-555-0100, +442079460958", "[REDACTED:phone:1], [REDACTED:phone:2], [REDACTED:phone:2], [REDACTED:phone:3]"},
		{"made-up phones", "555-123-4567 or 123-456-7890", "[REDACTED:phone:1] or [REDACTED:phone:2]"},
		{"phones abroad", "+33 6 12 34 56 78, +44 (0)20 7946 0958, +49-30-901820", "[REDACTED:phone:1], [REDACTED:phone:2], [REDACTED:phone:3]"},
		{"phone in words", "My number is 415 555 0100, thanks", "My number is [REDACTED:phone:1], thanks"},
		{"a row of numbers", "300 415 555 0100 12 and 200  300 4000", "300 415 555 0100 12 and 200  300 4000"},
		{"no phone, a tool call", `"id":"call_1234567890123", call_0049309018 and call 0049309018`, `"id":"call_1234567890123", call_0049309018 and call [REDACTED:phone:1]`},
		{"phone by a word", "tel. 030 901820 or 00493090182012", "tel. [REDACTED:phone:1] or 00493090182012"},
		{"token as user", "https://a1B2c3D4e5F6g7H8@host/x https://bob@host/x", "https://[REDACTED:url_credentials:1]@host/x https://bob@host/x"},
		{"signature", "https://x.blob.example/c?sv=2024&sig=a1B2c3D4%2Fe5F6g7H8%3D&se=1", "https://x.blob.example/c?sv=2024&sig=[REDACTED:azure_key:1]&se=1"},
		{"other vendors", key("gsk", "_", a36) + " " + key("xai", "-", a36) + " " + key("shpat", "_", a32), "[REDACTED:secret:1] [REDACTED:secret:2] [REDACTED:secret:3]"},
		{"tests pass", "--- PASS: TestA1_b2_c3_d4_e5 (0.00s)", "--- PASS: TestA1_b2_c3_d4_e5 (0.00s)"},
		{"quote closes a text", `env("PWD=" + dir1 + "x")`, `env("PWD=" + dir1 + "x")`},
		{"a key's header in code", `strings.Contains(s, "-----BEGIN PRIVATE KEY-----")`, `strings.Contains(s, "-----BEGIN PRIVATE KEY-----")`},
		{"what only begins like a placeholder", "[REDACTED:bob@example.com]", "[REDACTED:[REDACTED:email:1]]"},
		{"sections and identifiers", "see 31.7.8.1 and 2.5.4.10", "see 31.7.8.1 and 2.5.4.10"},
		{"64-bit integers", "x := -4576982950128230565", "x := -4576982950128230565"},
		{"placeholder is no context", "phone [REDACTED:phone:1] 0.123456789", "phone [REDACTED:phone:1] 0.123456789"},
		{"time zone", "21:00:57 +1130 2010, m=+123.456789000", "21:00:57 +1130 2010, m=+123.456789000"},
		{"date", "2026-01-31 10:20:30 1700000000", "2026-01-31 10:20:30 1700000000"},
		{"ip", "host 203.0.113.7:8080 and 10.1.2.3/24", "host [REDACTED:ip:1]:8080 and [REDACTED:ip:2]/24"},
		{"no ip", "127.0.0.1 0.0.0.0 1.2.3.4 v10.20.30.40 Chrome/120.0.12.9 1.10.20.30.40", "127.0.0.1 0.0.0.0 1.2.3.4 v10.20.30.40 Chrome/120.0.12.9 1.10.20.30.40"},
		{"ipv6", "from 2001:db8::8a2e:370:7334 and ::1", "from [REDACTED:ip:1] and ::1"},
		{"no ipv6", "std::vec a::b 12:30:45 aa:bb:cc:dd:ee:ff", "std::vec a::b 12:30:45 aa:bb:cc:dd:ee:ff"},
		{"uuid", "550e8400-e29b-41d4-a716-446655440000", "550e8400-e29b-41d4-a716-446655440000"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := NewRedactor(true).Text(tt.in)
			if got != tt.want {
				t.Errorf("Text(%q)\n got %q\nwant %q", tt.in, got, tt.want)
			}
			if again := NewRedactor(true).Text(got); again != got {
				t.Errorf("redacted again: %q, before %q", again, got)
			}
		})
	}
}

func TestRedactJSON(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"nothing", `{"a":[1,2,"x\n"]}`, `{"a":[1,2,"x\n"]}`},
		{"key decides", `{"password": "correcthorse", "n":1}`, `{"password": "[REDACTED:secret:1]", "n":1}`},
		{"schema", `{"password":{"type":"string"},"required":["password"]}`, `{"password":{"type":"string"},"required":["password"]}`},
		{"key itself", `{"bob@example.com":1}`, `{"[REDACTED:email:1]":1}`},
		{"bare number", `{"card":4111111111111111,"t":1700000000000}`, `{"card":"[REDACTED:card:1]","t":1700000000000}`},
		{"phone by key", `{"phone":4155550100,"id":4155550100}`, `{"phone":"[REDACTED:phone:1]","id":4155550100}`},
		{"arguments", `{"arguments":"{\"to\":\"bob@example.com\",\"body\":\"hi\\nann@example.com\"}"}`, `{"arguments":"{\"to\":\"[REDACTED:email:1]\",\"body\":\"hi\\n[REDACTED:email:2]\"}"}`},
		{"escaped", `"bob\u0040example.com and https:\/\/u:p1@h\/"`, `"[REDACTED:email:1] and https:\/\/[REDACTED:url_credentials:1]@h\/"`},
		{"pem", `"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nabc=\n-----END PRIVATE KEY-----\n"`, `"[REDACTED:private_key:1]\n"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := string(NewRedactor(true).JSON(nil, []byte(tt.in)))
			if got != tt.want {
				t.Errorf("JSON(%s)\n got %s\nwant %s", tt.in, got, tt.want)
			}
			if !json.Valid([]byte(got)) {
				t.Errorf("invalid JSON: %s", got)
			}
		})
	}
}
