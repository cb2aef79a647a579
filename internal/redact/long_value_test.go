package redact_test

import (
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"precept/internal/redact"
)

func randomBase64(encoding *base64.Encoding, seed uint64, n int) string {
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	raw := make([]byte, n)
	for i := range raw {
		raw[i] = byte(r.Uint32())
	}
	return encoding.EncodeToString(raw)[:n]
}

// assertNothingLeft fails the test if redacted contains 16 successive bytes of the value.
func assertNothingLeft(t *testing.T, text, redacted, value string) {
	t.Helper()
	const partBytes = 16
	for i := 0; i+partBytes <= len(value); i += partBytes / 2 {
		if strings.Contains(redacted, value[i:i+partBytes]) {
			t.Errorf("%.60q with a %d-byte secret: secret byte %d is in the %d-byte result: %.200q", text, len(value), i, len(redacted), redacted)
			return
		}
	}
}

// AWS session tokens are 1,200 bytes long, and some cookies 4,000 bytes. % stands for the secret.
func TestLongSecretIsRedactedToTheEnd(t *testing.T) {
	for _, n := range []int{250, 500, 1000, 1010, 1023, 1024, 1025, 1030, 1200, 2047, 2050, 3000, 9000} {
		standard, url := randomBase64(base64.StdEncoding, 1, n), "1.AXoA"+randomBase64(base64.RawURLEncoding, 2, n-6)
		for _, text := range []string{
			`{"SessionToken":"%"}`, `{"session_token": "%", "region": "eu"}`, `{"Credentials": {` + "\n" + ` "SessionToken": "%"` + "\n}}", `{"password":"%"}`, `{"input":"{\"session_token\":\"%\"}"}`,
			"export AWS_SESSION_TOKEN=%\n", "aws_session_token = %\n", "token: %", "token:\n  %\n", "DB_PASSWORD=%\n", "password: %\n", "--token %", "vault login %", "set('api_token', '%')", `["X-Api-Key", "%"]`,
			"<token>%</token>", "<password>%</password>", "https://x/?access_token=%&x=1", "the api token is %.", "% is my token", "% is the password", "login('bob', '%')",
			"Authorization: Bearer %", `-H "Authorization: Bearer %"`, "Authorization: token %", "Cookie: sid=%", "Cookie: sid=%; other=%", `{"Cookie":"theme=dark; sid=%; x=%"}`,
			"https://%@host/x", "https://bob:%@host/x", "curl -u bob:% https://host", "db.example:5432:shop:bob:%", "> AUTH %\n",
			"user,token,age\nbob,%,7\n", "INSERT INTO u (name, api_token) VALUES ('bob', '%')", "kind: Secret\ndata:\n  ca: " + base64.StdEncoding.EncodeToString([]byte("x1")) + "\n  key: %\n",
		} {
			for _, value := range []string{standard, url} {
				switch {
				case strings.Contains(text, "https://") || strings.HasPrefix(text, "vault"): // no + and / in these places
					value = url
				case strings.HasPrefix(text, "kind: Secret"):
					value = standard[:n/4*4]
				}
				in := strings.ReplaceAll(text, "%", value)
				assertNothingLeft(t, text, redact.New(false).Text(in), value)
				if json.Valid([]byte(in)) {
					out := redact.New(false).JSON(nil, []byte(in))
					if assertNothingLeft(t, text, string(out), value); !json.Valid(out) {
						t.Errorf("JSON(%.60q) = %.200q, want valid JSON", text, out)
					}
				}
			}
		}
	}
}

func TestLongBasicCredentialsAreRedacted(t *testing.T) {
	value := base64.StdEncoding.EncodeToString([]byte("bob:" + randomBase64(base64.StdEncoding, 3, 1200)))
	for _, text := range []string{"Authorization: Basic %\n", `{"auth":"%"}`} {
		assertNothingLeft(t, text, redact.New(false).Text(strings.ReplaceAll(text, "%", value)), value)
	}
}

// The redactor keeps words that are far from the name of a cookie header.
func TestCookieAfterManyCookiesIsRedacted(t *testing.T) {
	value, harmless := randomBase64(base64.RawURLEncoding, 4, 40), strings.Repeat("theme=dark; ", 200)
	assertNothingLeft(t, "Cookie: many", redact.New(false).Text("Cookie: "+harmless+"sid="+value), value)
	assertKept(t, "Cookie: "+strings.Repeat("some words ", 60)+value)
}

func TestTextAfterLongSecretIsKept(t *testing.T) {
	value := randomBase64(base64.RawURLEncoding, 5, 1500)
	for in, want := range map[string]string{
		"token=" + value + "&next=1":                     "token=[REDACTED:secret:1]&next=1",
		"the token is " + value + ". Then":               "the token is [REDACTED:secret:1]. Then",
		`x = {"token": "` + value + `", "model": "m"}`:   `x = {"token": "[REDACTED:secret:1]", "model": "m"}`,
		`x = {"token": "` + value + `;a,b", "model": 1}`: `x = {"token": "[REDACTED:secret:1]", "model": 1}`,
		"Cookie: sid=" + value + "\nAccept: a/b":         "Cookie: sid=[REDACTED:authorization:1]\nAccept: a/b",
	} {
		if got := redact.New(true).Text(in); got != want {
			t.Errorf("Text(%.40q...) = %.300q, want %q", in, got, want)
		}
	}
}

func TestRepeatedLongSecretIsRedacted(t *testing.T) {
	value := randomBase64(base64.RawURLEncoding, 6, 1500)
	out := redact.New(false).Text("token=" + value + "\nsent " + value + " twice")
	if assertNothingLeft(t, "token=", out, value); !strings.HasSuffix(out, " twice") {
		t.Errorf("Text = %q, want the word after the secret kept", out)
	}
}
