package redact_test

import (
	"testing"

	"precept/internal/redact"
)

// A secret is redacted in text with HTML entities, and in quoted-printable text of mails. The quotes remain as written.
func TestSecretIsRedactedInHTMLAndMails(t *testing.T) {
	for in, want := range map[string]string{
		"&quot;password&quot;: &quot;Hunter2xx9&quot;":         "&quot;password&quot;: &quot;[REDACTED:secret:1]&quot;",
		"data-x='{&#34;password&#34;:&#34;Hunter2xx9&#34;}'":   "data-x='{&#34;password&#34;:&#34;[REDACTED:secret:1]&#34;}'",
		"password = &#39;Hunter2xx9&#39;; x":                   "password = &#39;[REDACTED:secret:1]&#39;; x",
		"&lt;password&gt;hunter22&lt;/password&gt;":            "&lt;password&gt;[REDACTED:secret:1]&lt;/password&gt;",
		"password=3D\"Hunter2xx9\" and":                        "password=3D\"[REDACTED:secret:1]\" and",
		"token=3D'" + randomText(24) + "'":                     "token=3D'[REDACTED:secret:1]'",
		"a &lt; b &amp;&amp; &quot;c&quot; don&#39;t &unknown": "a &lt; b &amp;&amp; &quot;c&quot; don&#39;t &unknown",
	} {
		if got := redact.New(true).Text(in); got != want {
			t.Errorf("Text(%q) = %q, want %q", in, got, want)
		}
	}
}

// Each item of a list with the name of a secret is redacted, in text and in JSON. Rules and messages are kept.
func TestEachItemOfListOfSecretsIsRedacted(t *testing.T) {
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

// A PASETO token, a key for such tokens and a key of Google are redacted without a name. A public key is kept.
func TestPASETOAndGoogleKeysAreRedacted(t *testing.T) {
	body := randomText(80)
	assertRedacted(t, "secret", "v4.local."+body, "sent v2.local."+body+" x", "v4.public."+body+"."+randomText(20), "v1.public."+body, "k4.secret."+body)
	assertRedacted(t, "google_key", "key AQ."+"Ab8RN6"+body[:40]+" x")
	assertKept(t, "k4.public."+body, "v4.local.example.com", "v5.local."+body, "see v4.public.md", "AQ.short1", "FAQ."+body)
}
