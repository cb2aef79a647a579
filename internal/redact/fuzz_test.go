package redact

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// hasBrokenPlaceholder reports whether redacted contains an incomplete placeholder that the input does not contain.
func hasBrokenPlaceholder(input, redacted []byte) bool {
	whole := regexp.MustCompile(`\[REDACTED:[a-z_]{1,24}:[0-9]{1,7}\]`)
	if bytes.Contains(whole.ReplaceAll(input, nil), []byte("REDACTED")) {
		return false
	}
	return bytes.Contains(whole.ReplaceAll(redacted, nil), []byte("REDACTED"))
}

// assertJSON fails the test unless JSON leaves raw unchanged and returns valid JSON with complete placeholders. A
// second JSON call must return this result unchanged.
func assertJSON(t interface{ Fatalf(string, ...any) }, raw []byte) {
	before := bytes.Clone(raw)
	out := New(true).JSON(nil, raw)
	if !bytes.Equal(before, raw) {
		t.Fatalf("JSON changed the input from %s to %s", before, raw)
	}
	if !json.Valid(out) {
		t.Fatalf("JSON(%s) =\n%s\nwant valid JSON", raw, out)
	}
	if hasBrokenPlaceholder(raw, out) {
		t.Fatalf("JSON(%s) = %s, want complete placeholders only", raw, out)
	}
	if twice := New(true).JSON(nil, out); !bytes.Equal(twice, out) {
		t.Fatalf("input %s: second redaction\ngot  %s\nwant %s", raw, twice, out)
	}
}

func FuzzRedactJSON(f *testing.F) {
	for _, s := range []string{
		`{"a":"bob@example.com","password":"hunter2","n":4111111111111111}`,
		`{"arguments":"{\"to\":\"bob\\u0040example.com\",\"token\":\"a1B2c3D4e5F6g7H8i9\"}"}`,
		`["-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCabc=\n-----END PRIVATE KEY-----"]`,
		`"postgres:\/\/u:p1@h\/ Bearer abcdef0123456789 +1 415 555 0100 203.0.113.7 2001:db8::1 078-05-1120"`,
		`{"phone":4155550100,"ssn":"078051120","x":[1.5e3,-4111111111111111]}`,
		`"[REDACTED:email:1]@example.com password=[REDACTED:secret:1]x1 call [REDACTED:phone:1]4155550100"`,
		`"\ud83d\ude00bob@example.com\\\\n\\\"\\u00e9"`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := New(true)
		if !json.Valid(raw) {
			r.JSON(nil, raw) // must not panic
			r.Text(string(raw))
			return
		}
		assertJSON(t, raw)
	})
}

func TestRedactionOfRandomTextIsIdempotent(t *testing.T) {
	pieces := []string{
		"bob@example.com", "@", ".com", "password", "=", ": ", "\"", "'", "\\", "\n", " ", "-", "hunter2", "4111 1111 1111 1111",
		"415-555-0100", "+1", "203.0.113.7", "::", "2001:db8::1", "://", "u:p1@h", "Bearer ", "abcdef0123456789", "eyJ", ".", "sk-",
		"AKIA", "IOSFODNN7ABCDEFG", "ghp_", "a1B2c3D4e5F6g7H8i9J0k1L2", "[REDACTED:email:1]", "[REDACTED:", "]", "1", "{\"token\":\"",
		"\\u0040", "\\n", "--token ", "user,password\n", "bob,a1b2c3d4\n", "|", "INSERT INTO t (a, token) VALUES (", "1, 'a1B2c3D4e5F6g7H8i9J0')", "api key ", "STRIPE_KEY=", "DB_PASSWORD=a.b&9xy", "my number is 020 7946 0958", " -> 1.2.3.4", "078-05-1120", "DE89370400440532013000", "phone ", "é", "\x00", "<", "%40",
	}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 24).Draw(t, "pieces"), "")
		raw, err := json.Marshal(map[string]string{rapid.SampledFrom([]string{"content", "password", "token", "phone"}).Draw(t, "key"): text})
		if err != nil {
			t.Fatal(err)
		}
		assertJSON(t, raw)
		once := New(true).Text(text)
		if twice := New(true).Text(once); twice != once {
			t.Fatalf("input %q: second redaction\ngot  %q\nwant %q", text, twice, once)
		}
	})
}

func TestRedactorGivesSameValueSameNumber(t *testing.T) {
	r := New(true)
	if got := r.Text("a@b.io 4111111111111111"); got != "[REDACTED:email:1] [REDACTED:card:1]" {
		t.Errorf("Text = %s, want email:1 and card:1", got)
	}
	if got := string(r.JSON(nil, []byte(`["A@B.io","c@d.io","4111-1111-1111-1111"]`))); got != `["[REDACTED:email:1]","[REDACTED:email:2]","[REDACTED:card:1]"]` {
		t.Errorf("JSON = %s, want email:1, email:2 and card:1", got)
	}
	counts := r.DrainCounts()
	if counts["email"] != 3 || counts["card"] != 2 || len(counts) != 2 {
		t.Errorf("DrainCounts = %v, want 3 emails and 2 cards", counts)
	}
	if left := r.Counts(); left != nil {
		t.Errorf("Counts after DrainCounts = %v, want none", left)
	}
	if got := New(true).Text("c@d.io"); got != "[REDACTED:email:1]" {
		t.Errorf("new redactor: Text = %s, want [REDACTED:email:1]", got)
	}
}

func TestSecretRedactorKeepsPersonalData(t *testing.T) {
	in := `{"m":"bob@example.com +14155550100 4111111111111111 203.0.113.7 password=hunter2"}`
	want := `{"m":"bob@example.com +14155550100 4111111111111111 203.0.113.7 password=[REDACTED:secret:1]"}`
	if got := string(New(false).JSON(nil, []byte(in))); got != want {
		t.Errorf("JSON(%s) = %s, want %s", in, got, want)
	}
}

func TestJSONReturnsCleanInputWithoutCopy(t *testing.T) {
	raw := codeText(4 << 10)
	dst := []byte("kept")
	r := New(true)
	if out := r.JSON(dst, raw); &out[0] != &raw[0] || string(dst) != "kept" {
		t.Errorf("JSON(clean text): got a copy = %v, dst = %q, want no copy and dst = \"kept\"",
			&out[0] != &raw[0], dst)
	}
	if n := testing.AllocsPerRun(20, func() { r.JSON(nil, raw) }); n != 0 {
		t.Errorf("JSON(clean text): got %v allocations, want 0", n)
	}
}

func TestTextRedactsTruncatedSecret(t *testing.T) {
	for _, text := range []string{
		"use sk-" + "proj-a1B2c3D4e5F6g7H8", "x ghp" + "_a1B2c3D4e5F6", `{"password":"correct ho`, "AKIA" + "IOSFODNN7ABC",
		"-----BEGIN RSA PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nabcdef", "Authorization: Bearer a1B2c3D4e5",
	} {
		if got := New(true).Text(text); !strings.Contains(got, Placeholder) {
			t.Errorf("Text(%q) = %q, want a placeholder", text, got)
		}
	}
}

func TestRedactSkipsImages(t *testing.T) {
	image := strings.Repeat("iVBORw0KGgo/4111111111111111+AKIAIOSFODNN7ABCDEFG/", 100)
	raw := []byte(`{"url":"data:image/png;base64,` + image + `","data":"` + image + `"}`)
	if out := New(true).JSON(nil, raw); !bytes.Equal(out, raw) {
		t.Errorf("JSON(base64 image) = %.200s, want it unchanged", out)
	}
}
