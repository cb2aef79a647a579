package redact_test

import (
	"strings"
	"testing"

	"precept/internal/redact"
)

func TestSecretIsRedactedInHTMLAndMails(t *testing.T) {
	for in, want := range map[string]string{
		"&quot;password&quot;: &quot;Hunter2xx9&quot;":                           "&quot;password&quot;: &quot;[REDACTED:secret:1]&quot;",
		"data-x='{&#34;password&#34;:&#34;Hunter2xx9&#34;}'":                     "data-x='{&#34;password&#34;:&#34;[REDACTED:secret:1]&#34;}'",
		"password = &#39;Hunter2xx9&#39;; x":                                     "password = &#39;[REDACTED:secret:1]&#39;; x",
		"&lt;password&gt;hunter22&lt;/password&gt;":                              "&lt;password&gt;[REDACTED:secret:1]&lt;/password&gt;",
		"password=3D\"Hunter2xx9\" and":                                          "password=3D\"[REDACTED:secret:1]\" and",
		"token=3D'" + randomText(24) + "'":                                       "token=3D'[REDACTED:secret:1]'",
		"{&amp;quot;password&amp;quot;: &amp;quot;Hunter2xx9&amp;quot;}":         "{&amp;quot;password&amp;quot;: &amp;quot;[REDACTED:secret:1]&amp;quot;}",
		"&amp;amp;quot;pwd&amp;amp;quot;:&amp;amp;quot;Hunter2xx9&amp;amp;quot;": "&amp;amp;quot;pwd&amp;amp;quot;:&amp;amp;quot;[REDACTED:secret:1]&amp;amp;quot;",
		"a &lt; b &amp;&amp; &quot;c&quot; don&#39;t &unknown":                   "a &lt; b &amp;&amp; &quot;c&quot; don&#39;t &unknown",
	} {
		if got := redact.New(true).Text(in); got != want {
			t.Errorf("Text(%q) = %q, want %q", in, got, want)
		}
	}
}

// In quoted-printable text, = at a line's end is a soft line break, which joins two lines. Lines in text that is not
// quoted-printable stay separate.
func TestSecretIsRedactedAcrossSoftLineBreaks(t *testing.T) {
	token := randomText(24)
	for in, want := range map[string]string{
		"password=3D\"Hunter2=\nxx9\"": "password=3D\"[REDACTED:secret:1]\"",
		"Transfer-Encoding: quoted-printable\r\n\r\nThe API token is " + token[:9] + "=\r\n" + token[9:] + " now": "Transfer-Encoding: quoted-printable\r\n\r\nThe API token is [REDACTED:secret:1] now",
		"see https://x/?token=3D" + token[:9] + "=\n" + token[9:] + " now":                                        "see https://x/?token=[REDACTED:secret:1] now",
		"a=3Db\n\nTOKEN=" + token + "=\nDB_PASSWORD=Hunter2xx9\n":                                                 "a=3Db\n\nTOKEN=[REDACTED:secret:1]\nDB_PASSWORD=[REDACTED:secret:2]\n",
		"a=20\nfoo =\nDB_PASSWORD=20abHunter2xx9\n":                                                               "a=20\nfoo =\nDB_PASSWORD=[REDACTED:secret:1]\n",
		"a=20\nfoo =\n  bar()\n": "a=20\nfoo =\n  bar()\n",
	} {
		if got := redact.New(true).Text(in); got != want {
			t.Errorf("Text(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestSecretInInsertRowIsRedacted(t *testing.T) {
	long := strings.Repeat("text, (a) ", 2000)
	for in, want := range map[string]string{
		"(name, bio, api_token) VALUES ('bob', '" + long + "', 'a1B2c3D4e5F6g7H8i9J0'), ('al', 'x', 'b1B2c3D4e5F6g7H8i9J0')": "(name, bio, api_token) VALUES ('bob', '" + long + "', '[REDACTED:secret:1]'), ('al', 'x', '[REDACTED:secret:2]')",
		`(name, password) VALUES ('o\'b)b, x', 'Hunter2xx9'), ('C:\', 'Hunter3xx9'), ('al''s', 'Hunter4xx9')`:                `(name, password) VALUES ('o\'b)b, x', '[REDACTED:secret:1]'), ('C:\', '[REDACTED:secret:2]'), ('al''s', '[REDACTED:secret:3]')`,
		"(name, password, bio) VALUES ('bob', 'Hunter2xx9', 'and th":                                                         "(name, password, bio) VALUES ('bob', '[REDACTED:secret:1]', 'and th",
	} {
		if got := redact.New(false).Text("INSERT INTO u " + in); got != "INSERT INTO u "+want {
			t.Errorf("Text(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestPresignedURLIsRedacted(t *testing.T) {
	hex := strings.Repeat("7f3a90bc", 8)
	for _, text := range []string{
		"X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=%", "X-Amz-Expires=900&amp;X-Amz-Signature=%", "X-Goog-Algorithm=GOOG4-RSA-SHA256&X-Goog-Signature=%", "sv=2024&sr=b&sig=" + hex[:20] + "%2Fab%3D",
		"X-Amz-Security-Token=IQoJb3JpZ2luX2VjEA%2F%", `u\u0026X-Amz-Signature=%`, "Expires=1&Signature=" + hex[:20] + "~-__&Key-Pair-Id=K2",
	} {
		value := hex + "0a1b"
		if in := "https://host.example/key?" + text; strings.HasSuffix(text, "%") {
			assertNothingLeft(t, text, redact.New(false).Text(strings.TrimSuffix(in, "%")+value), value)
		} else {
			assertNothingLeft(t, text, redact.New(false).Text(in), hex[:20])
		}
	}
}

// Under the name "password", a web form can also have a list of rules (such as min:8) or of error messages. The
// redactor keeps such lists.
func TestEachSecretInListIsRedacted(t *testing.T) {
	token := randomText(24)
	for in, want := range map[string]string{
		`{"password":["..","Zx81kk2"]}`:                                 `{"password":["..","[REDACTED:secret:1]"]}`,
		`{"password":["Ab12kk3", "Zx81kk2" , "Qq55tt1"],"x":["a1B2"]}`:  `{"password":["[REDACTED:secret:1]", "[REDACTED:secret:2]" , "[REDACTED:secret:3]"],"x":["a1B2"]}`,
		`{"tokens":["` + token + `x","` + token + `y"]}`:                `{"tokens":["[REDACTED:secret:1]","[REDACTED:secret:2]"]}`,
		`{"input":"{\"password\":[\"Ab12kk3\",\"Zx81kk2\"]}"}`:          `{"input":"{\"password\":[\"[REDACTED:secret:1]\",\"[REDACTED:secret:2]\"]}"}`,
		`{"password":["required","min:8","max:255"]}`:                   `{"password":["required","min:8","max:255"]}`,
		`{"errors":{"password":["is too short","needs 8 characters"]}}`: `{"errors":{"password":["is too short","needs 8 characters"]}}`,
		`{"password":["sha256","bcrypt12"],"names":["Zx81kk2"]}`:        `{"password":["sha256","bcrypt12"],"names":["Zx81kk2"]}`,
		`{"password":[{"id":"Zx81kk2"},"Zx81kk2"]}`:                     `{"password":[{"id":"Zx81kk2"},"Zx81kk2"]}`,
		`{"authorization":["token ` + token + `"]}`:                     `{"authorization":["token [REDACTED:authorization:1]"]}`,
	} {
		if got := string(redact.New(false).JSON(nil, []byte(in))); got != want {
			t.Errorf("JSON(%s) = %s, want %s", in, got, want)
		}
	}
	for in, want := range map[string]string{
		`passwords: "password":["Ab12kk3","Zx81kk2"], "x"`: `passwords: "password":["[REDACTED:secret:1]","[REDACTED:secret:2]"], "x"`,
		`'password' => ['required', 'min:8', 'string']`:    `'password' => ['required', 'min:8', 'string']`,
	} {
		if got := redact.New(false).Text(in); got != want {
			t.Errorf("Text(%s) = %s, want %s", in, got, want)
		}
	}
}

// The redactor keeps PASETO public keys.
func TestPASETOAndGoogleKeysAreRedacted(t *testing.T) {
	body := randomText(80)
	assertRedacted(t, "secret", "v4.local."+body, "sent v2.local."+body+" x", "v4.public."+body+"."+randomText(20), "v1.public."+body, "k4.secret."+body)
	assertRedacted(t, "google_key", "key AQ."+"Ab8RN6"+body[:40]+" x")
	assertKept(t, "k4.public."+body, "v4.local.example.com", "v5.local."+body, "see v4.public.md", "AQ.short1", "FAQ."+body)
	assertKept(t, "v4.local.", "v4.local...", "see k4.secret.")
}
