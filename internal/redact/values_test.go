package redact_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"precept/internal/redact"
)

// In these texts, < and > mark a value that must be redacted. A text without the marks must stay unchanged.
func TestSecretIsRedactedUpToDelimiter(t *testing.T) {
	assertMarked(t, "secret",
		"PASSWORD=<hunter22xyz>",
		"PASSWORD=<hunter22xyz>, and more",
		"PASSWORD=<hunter22xyz>;x=1",
		"PASSWORD=<hunter22xyz>&x=1",
		"PASSWORD=<hunter22xyz>)",
		"PASSWORD=<hunter22xyz|x>",
		"PASSWORD=<hunter22xyz>.",
		"PASSWORD=<hunter22xyz>..",
		"PASSWORD:  \t<hunter22xyz>\n",
		`"p.assword":"<correcthorse>"`,
		`"password": "<correct horse battery>"`,
		`"password":"<correct horse >`, // truncated inside the value
		`password = "<correct9horse>" # old`,
		`password = "enter your password"`, // words only
		"credentials:<b8a2e:370:733::1>",
		"token:<TE-TE-TE-TOK.com>",
		"password:<@ost.e>",
		"111 111DB_PASSWORD12:<hunter22>",
		"PASSWORD=2xys:",             // too short without the colon
		"PASSWORD=",                  // no value
		"PASSWORD=       <hunter22>", // settings are aligned
		"PASSWORD=<utextz>",          // a shell has no variable here
		"password=utextz",            // code has variables here
		"PASSWORD = utextz",
		"PASSWORD="+strings.Repeat(" ", 60)+"hunter22",
		"PASSWORD=u/rapz",
		"password:{",
		`password="ying"`,
		"--password 13.7_x",
		"pwd=read22xyz(x)", // a call
		"pwd=list22xyz[0]", // an index
		"AccountKey=Ab1/Cd2+Ef3gHi4j[0]",
		`password = "<yourMom1987!>"`,
		`password = "yourStrong(!)Password1"`, // an example from a manual
		"https://h.example/m?key=<3f2504e0-4f89-11d3-9a0c-0305e82c3301>&z=1",
		"find(key=3f2504e0-4f89-11d3-9a0c-0305e82c3301)", // a table row's key
		"APP_KEY=<base64:9sF3kPq0LmZx7Vt2Rb8Wc1Yd6Ne4Hg5Ja0Ku3Qi7Oo0=>",
		"user bob, pass: <hunter22>",
		"pass: mem2reg", // a compiler pass
		"PromotePass: mem2reg on main",
		"opt -passes=mem2reg,sroa",
		"pass: dead-code-elim2",
		"pass: TestFoo2",
		"TOKEN:c3D4e5F6",              // too short for a token
		"credential:1iDEndpointsProx", // an identifier
		"PASSWORD=$HOME/x1",
		"PASSWORD=${DB_PASSWORD}",
		"PASSWORD=process.env.DB_PASSWORD1",
		"PASSWORD=[REDACTED:secret:7]",
		"std::password::<hunter22xyz>",
		"password == <hunter22xyz>",
		"if password != \"\" {",
		"pass\":\"<ACet:1>", // truncated, after a quoted key
		"aPASS:<es4_e5>",
		"aPASS:<s4_eS5>.",
		"app.PA.SS:<s4_eS5>",
		"apikey:\t<KI/KI/KI/K7MDNG/>",
		"password::<ter2yo>",
		"password = : <unter2>",
		"passwd]:\"<hunter2>\"", // config["passwd"]
		"Authorization:<etelephonde89ho9>",
		"password: : : : <unter2>", // too far from the name
		"PASSWOR_D=unter2",
		"--PASSWOR_D=un4_e5",
		"--password- unter2",
		"--d unter2/127.0.0.1",
		"PWD=\" exp",
		"PWD=\"+p/ADb",
		"token\":\"5an=%s dur=%d.%d", // a format string
		"pass\":\"%d].",
		"pass\":\"%iI.",
		"passwd\":\"(pds",
		"pass\":\"c\nY=", // the value ends with the line
		"secret:et:et:et:et:et:1",
		"Authorization:earetelephonde89",
		"sig=1B2c3\xa94%28%3D1",
		"4ES0=9b-410",
		"--0 ",
		"=: x",
	)
	assertMarked(t, "azure_key", "https://x/?sig=<2c3D4%2Fe5F6g7H8%3D>&se=1", "AccountKey==<1B2c3DH8i9J0k1L2>",
		"aig=2c3D4%2Fe5F6g7H8")
}

func TestKeyAfterVendorNameIsRedacted(t *testing.T) {
	assertMarked(t, "secret",
		"flickr KEY <io3l0urk6hubmo2gbbzrf192key0ke9x>",
		"Stripe key = <af7e33adc0rq7ls6ijcfmb5rgf1gp2o0tqk6d8s5>",
		"hash key = af7e33adc0rq7ls6ijcfmb5rgf1gp2o0tqk6d8s5",
		"STATUSPAGE_KEY=<3f2504e0-4f89-11d3-9a0c-0305e82c3301>",
		`{"item_key": "3f2504e0-4f89-11d3-9a0c-0305e82c3301"}`,
		"planyo_key=<483910275648392017564839>",
		"planyo_key=48391027564839201756483", // 23 digits may be an id
		"planyo_key=111111111111111111111111",
		"access_token=<abcdefgh1234567xyzuvw>",
		"access_token=abcdefgh1234567xyz", // too short
	)
}

func TestCredentialInHeaderOrURLIsRedacted(t *testing.T) {
	assertMarked(t, "authorization",
		"Authorization: Bearer <a1B2c3D4e5F6g7H8>",
		"authorization: bearer <a1B2c3D4e5F6g7H8>",
		"Authorization: Basic <dXNlcjpodW50ZXIy>",
		"Authorization: Bearer <a1B2c3D4e5F6g7H8>.",
		"curl -H 'Authorization: Bearer <a1B2c3D4e5F6g7H8>' http://h/",
		"Bearer <cdef6781>",
		"Bearer <e5.smith>",
		"Bearer <oruthorizatiAoic>",
		"Bearer 5t",
		"bearer 26-01-36",
		"Authorization: Bearer $TOKEN",
		"bearer of bad news",
		"Authorization: Basic",
	)
	assertMarked(t, "url_credentials",
		"postgres://<user:p1>@db/x",
		"https://<u:hunter2>@h/",
		"redis://<:hunter22>@h:6379/0",
		"https://h:8080/@x",
		"https://user@h/",
		"s://:",
		"s://:/@",
		"s://:{}@",
		"://u:p@h",
		"https://u:p/q@h",
		"https://u:${PASS}@h/",
	)
}

func TestTextsSimilarToVendorKeysAreKept(t *testing.T) {
	for _, text := range []string{
		"AKIA", "AKIAI7ABCDEFG/", "xAKIAIOSFODNN7ABCDEFG", "AKIAIOSFODNN7ABCDEFGx", "AKIAIOSFODNN7abcdefg", "AIza", "AIza-is-short", "SG.", "SG.a.b",
		"SG.a1B2c3D4e5F6g7H8i9J0k1.short and more", "Q~e", "e.51Q~e5", "e.51Q~e", "dshpat_i1111111ts", "sk-", "sk-ant-", "ghp_short", "glpat-", "xoxb-1-2", "eyJ.eyJ.x",
		"ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "glpat-XXXXXXXXXXX-XXXXXXXX", "xoxb-xxxxxxxxx-xxxxxxxxxx-xxxxxxxxxxxx", "aP88Q~xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
		"SGteyteyteyte", "AIgld1111111111111a", "yJ7", "eyJ45678.", "04135550100=eyJ45678.",
		"eyJ672012345678901234hunter22xyz", "meyJ7345678901234hunter22xyzple.c",
		"-----BEGIN CERTIFICATE-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END CERTIFICATE-----",
		"-----BEGIN -----nMIBADANBgkqhkiG970BAQEFAASCnabc",
		"-----BEGIN PRIVATE KEY-----IBADANBgkqh| kind | what is looked for",
		"see https://hooks.slack.com/services/ for the form",
	} {
		if got := redact.New(true).Text(text); got != text {
			t.Errorf("Text(%q) = %q, want it unchanged", text, got)
		}
	}
	assertMarked(t, "private_key", "<-----BEGIN PRIVATE KEY-----MIQIBADANBgkqhkiG9w0BAFAASCabc=n>",
		`"<-----BEGIN PRIVATE KEY-----\nMIQIBADANBgkqhkiG9w0BAFAASCabc=\n>"`)
	key := strings.Repeat("a1B2", 13) + "JQQ" + "J99" + strings.Repeat("c3D4", 7) // 86 bytes; a key has 84
	if got := redact.New(true).Text("id " + key); got != "id "+key {
		t.Errorf("Text(id %s) = %q, want it unchanged", key, got)
	}
	if got := redact.New(true).Text("id " + key[:84]); got != "id [REDACTED:azure_key:1]" {
		t.Errorf("Text(id %s) = %q, want an azure_key", key[:84], got)
	}
}

func TestPersonalNumberNextToOtherNumbersIsRedacted(t *testing.T) {
	assertMarked(t, "phone", "Tel 2026-01", "415-555-1", "b+<1 (415) 555-0100>", "4111 1111111111 11/", "1111 1-0 2.0.3.0", "<+1 (415 555-0100>",
		"9 <555-123-4567> ", "j(415)555-0100", "<115-155)0100>%", "<255.255.2550>", "tel 20-6-01-31")
	assertMarked(t, "ssn", "078-05-20", "078-05-20>_", "3Ssn-078051120")
	assertMarked(t, "iban", "GB82WEST1934698765432", "GB82 WEST 1934 6987 65432")
	assertMarked(t, "ip", "0 <2.0.113.0>", "<2001::>", "::3", ".b8::1", "0.2.0.113.0", "_18::1", "<50::1>", "<::1:2>.", "<::8:37:3>", "000::", "0::0")
	assertMarked(t, "email", "+@b.io", "<a@b.al>.)", `b\b\u0040e.co`, `<\\ud00b@e.co>`, "<b%40e.é>&",
		"<x@v.zi>", "<\x80@b.io>", "<v@b.\x80\xa6>")
	for in, want := range map[string]string{
		`4111111111111111.5`:           `4111111111111111.5`,
		`4111111111111111e2`:           `4111111111111111e2`,
		`-4111111111111111`:            `-4111111111111111`,
		`4111111111111111`:             `"[REDACTED:card:1]"`,
		`[1,4111111111111111]`:         `[1,"[REDACTED:card:1]"]`,
		`{"a":{"b":4111111111111111}}`: `{"a":{"b":"[REDACTED:card:1]"}}`,
		`1111111`:                      `1111111`,
	} {
		if got := string(redact.New(true).JSON(nil, []byte(in))); got != want {
			t.Errorf("JSON(%s) = %s, want %s", in, got, want)
		}
	}
}

func TestRedactionOfPiecesIsIdempotent(t *testing.T) {
	for _, text := range []string{
		`{"password": "correct horse", "ssn": 078051120, "n": -4.5e3, "a": [true, null, {"tel": "5550199"}]}`,
		"DB_PASSWORD12 := 'hunter22xyz' # AccountKey=Ab1/Cd2+Ef3gHi4j== sig=a1B2c3D4%2Fe5F6g7H8%3D",
		"Authorization: Basic dXNlcjpodW50ZXIy, Bearer a1B2c3D4e5F6g7H8, postgres://u:p1@h/x s://:@",
		"AKIAIOSFODNN7ABCDEFG AIzaSyA1B2c3D4 SG.a1B2c3D4 abc7Q~e5F6g7H8 eyJhbGciOi.eyJzdWIi.x sk-ant-a1",
		"-----BEGIN RSA PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END RSA PRIVATE KEY-----",
		`\\\\\\\\"\u0040\u00e9\ud83d\ude00\b\f\n\r\t\/ bob\u0040example.com {\"to\":\"a\\u0040b.io\"}`,
		"+1 (415) 555-0100, tel. 030 901820, 078-05-1120, DE89 3704 0044 0532 0130 00, 4111 1111 1111 1111",
		"203.0.113.7:80 2001:db8::8a2e:370:7334 ::1 bob.smith+x@corp.example.com bob%40example.com [REDACTED:email:1]",
		"https://hooks.slack.com/services/T0A1B2C3D/B4E5F6G7H/a1B2c3D4 é日本\xff\x00",
	} {
		for i := range len(text) {
			for _, piece := range []string{text[:i], text[i:], text[i:min(len(text), i+9)], text[i:min(len(text), i+2)]} {
				assertIdempotent(t, piece)
			}
		}
	}
}

// assertIdempotent fails the test if a second redaction changes the redacted piece, or if redacted JSON is invalid.
func assertIdempotent(t *testing.T, piece string) {
	t.Helper()
	r := redact.New(true)
	once := r.Text(piece)
	if twice := redact.New(true).Text(once); twice != once {
		t.Errorf("%q: got %q after one redaction and %q after two, want the same", piece, once, twice)
	}
	if cut := redact.New(true).TruncatedText(piece); !strings.HasPrefix(cut, once) && !strings.Contains(cut, ":cut:1]") {
		t.Errorf("TruncatedText(%q) = %q, want prefix %q or the last word redacted", piece, cut, once)
	}
	raw, err := json.Marshal(piece)
	if err != nil {
		t.Fatal(err)
	}
	for _, raw := range [][]byte{raw, []byte(piece)} {
		valid := json.Valid(raw)
		if out := r.JSON(nil, bytes.Clone(raw)); valid && !json.Valid(out) {
			t.Errorf("JSON(%s) = %s, want valid JSON", raw, out)
		}
	}
}

func TestKnownSecretIsRedactedWithoutName(t *testing.T) {
	r := redact.New(true)
	r.Text(`password: "hunter22"`)
	for in, want := range map[string]string{
		"I used hunter22.":             "I used [REDACTED:secret:1].",
		`{"a":"x\nhunter22\n"}`:        `{"a":"x\n[REDACTED:secret:1]\n"}`,
		"hunter2200 xhunter22 hunter2": "hunter2200 xhunter22 hunter2",
		"[REDACTED:secret:1] hunter22": "[REDACTED:secret:1] [REDACTED:secret:1]",
	} {
		if got := r.Text(in); got != want {
			t.Errorf("Text(%q) = %q, want %q", in, got, want)
		}
	}
	if got := redact.New(true).Text(`{"note":"hunter22 again","password":"hunter22"}`); strings.Contains(got, "hunter22") {
		t.Errorf("password before and after the name: Text = %s, want both redacted", got)
	}
	r.Text("password: correcthorse\npassword='secret:1'")
	if got := r.Text("correcthorse [REDACTED:secret:1]"); got != "correcthorse [REDACTED:secret:1]" {
		t.Errorf("password without digits, and a placeholder: Text = %s, want both unchanged", got)
	}
	r.Reset()
	if got := r.Text("I used hunter22."); got != "I used hunter22." {
		t.Errorf("after Reset: Text = %s, want it unchanged", got)
	}
}

func TestNumbersContinueWithinSession(t *testing.T) {
	r, other := redact.New(true), redact.New(true)
	numbers := redact.NewPlaceholderNumbers(nil)
	r.BeginExchange(numbers)
	r.Text("a@b.io")
	r.BeginExchange(redact.NewPlaceholderNumbers(nil))
	if got := r.Text("x@y.io"); got != "[REDACTED:email:1]" {
		t.Errorf("different session: Text = %s, want email:1", got)
	}
	other.BeginExchange(numbers)
	if got := other.Text("c@d.io a@b.io"); got != "[REDACTED:email:2] [REDACTED:email:1]" {
		t.Errorf("next exchange: Text = %s, want email:2 and email:1", got)
	}
	r.BeginExchange(redact.NewPlaceholderNumbers(numbers.Highest()))
	numbers.Raise(map[string]int{"email": 1}) // older numbers from another replica
	if highest := numbers.Highest()["email"]; highest != 2 {
		t.Errorf("after Raise with a lower number: got Highest = %d, want 2", highest)
	}
	if got := r.Text("e@f.io, a@b.io, 203.0.113.7"); got != "[REDACTED:email:3], [REDACTED:email:4], [REDACTED:ip:1]" {
		t.Errorf("after a restart: Text = %s, want email:3, email:4 and ip:1", got)
	}
}

func TestResetClearsNumbersAndCounts(t *testing.T) {
	r := redact.New(true)
	for _, many := range []int{2, 300} {
		for i := range many {
			r.Text(strings.Repeat("a", i%50+1) + "@" + strings.Repeat("b", i/50+1) + ".io")
		}
		r.Reset()
		if left := r.Counts(); left != nil {
			t.Errorf("after Reset: Counts = %v, want none", left)
		}
		got := r.Text("aa@b.io a@b.io aa@b.io")
		if want := "[REDACTED:email:1] [REDACTED:email:2] [REDACTED:email:1]"; got != want {
			t.Errorf("after %d values and Reset: Text = %s, want %s", many, got, want)
		}
		if n := r.Counts()["email"]; n != 3 {
			t.Errorf("after %d values and Reset: got email count %d, want 3", many, n)
		}
		r.Reset()
	}
}

func TestTruncatedTextKeepsHarmlessLastWord(t *testing.T) {
	for _, text := range []string{"+", "+49 ", "in 3", "page 12", "rows 1-3", "see a", "(4", "v1.2", "done.", "é"} {
		if got := redact.New(true).TruncatedText(text); got != text {
			t.Errorf("TruncatedText(%q) = %q, want it unchanged", text, got)
		}
	}
}
