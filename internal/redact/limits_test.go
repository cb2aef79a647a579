package redact_test

import (
	"fmt"
	"strings"
	"testing"

	"precept/internal/redact"
)

func assertKept(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if got := redact.New(true).Text(text); got != text {
			t.Errorf("Text(%q) = %q, want it unchanged", text, got)
		}
	}
}

// assertRedacted fails the test unless Text replaces a value in each text with the kind's placeholder.
func assertRedacted(t *testing.T, kind string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if got := redact.New(true).Text(text); !strings.Contains(got, redact.Placeholder+kind+":1]") {
			t.Errorf("Text(%q) = %q, want a %s placeholder", text, got, kind)
		}
	}
}

func randomText(n int) string { return strings.Repeat("a1B2c3D4", n/8+1)[:n] }

func TestWordBeforeNumberDeterminesKind(t *testing.T) {
	for word := range strings.FieldsSeq("phone tel telefon telefono telefone mobile mobil handy rufnummer cell fax call sms whatsapp dial contact") {
		assertRedacted(t, "phone", word+": 030 901820", strings.ToUpper(word)+" 030 901820", "my_"+word+"=030 901820", word+"s 030 901820", "home"+strings.ToUpper(word[:1])+word[1:]+" 030 901820")
		assertKept(t, "a "+word+"\n030 901820", "x"+word+" 030 901820", word+strings.Repeat(" ", 24)+"030 901820")
	}
	for word := range strings.FieldsSeq("card visa mastercard maestro amex pan") {
		assertRedacted(t, "card", word+" "+luhn("601177777777777777"), word+"s: "+luhn("62"+strings.Repeat("7", 16)))
	}
	for word := range strings.FieldsSeq("ssn social") {
		assertRedacted(t, "ssn", word+" 078051120", word+": 078 05 1120")
	}
	for word := range strings.FieldsSeq("ip addr host server client peer from remote address node ping ssh") {
		assertRedacted(t, "ip", word+" 1.2.3.4", word+"="+"1.2.3.4")
	}
	for word := range strings.FieldsSeq("version ver v release upgrade section chapter rfc oid build") {
		assertKept(t, word+" 203.0.113.7")
	}
	assertKept(t, "fromage 1.2.3.4", "bird 1.2.3.4", "1.2.3.4", "31.1.1.31", "dialect 030 901820", luhn("601177777777777777"), "panel "+luhn("601177777777777777"))
	assertRedacted(t, "ip", "1.2.3.32", "10.1.2.3", "from 1.2.3.4", "address: 1.2.3.4", "address(1.2.3.4)", "hosted 1.2.3.4", "version of it all, or so, 203.0.113.7")
}

// A long value without brackets and spaces is redacted if the value often changes between letters, digits and cases. A
// long number with different digits is also redacted.
func TestTokenIsRedactedByLengthAndMixture(t *testing.T) {
	assertRedacted(t, "secret", "token="+randomText(16), "token="+randomText(1024)+" x", "token=aBcDeFgHiJkLmNoP", "token=abcdefg1hijklmn2", "token=ABCDEFG1HIJKLMN2", "token=abcdefghijklm-9d-1x")
	assertRedacted(t, "secret", "token="+randomText(12), "token="+randomText(15)+" x", "token=123456789012345")
	assertKept(t, "token="+randomText(11), "token=abcdefghijklmnop", "token=abcdefghijklmno1", "token=12345678901234", "token=1111111111111112", "token="+strings.Repeat("a1", 12), "token=a1b2c3d4e5f6(x7)", "token=[a1b2c3d4e5f6g7h8]", "token=é1b2c3d4e5f6g7h8",
		"token=http://a1b2c3d4e5f6g7h8", "token=TheConfigurationOfTheSubscription", "token=snake_case_name_of_it2")
	assertRedacted(t, "secret", `{"token":"`+randomText(16)+`"}`)
	assertKept(t, `"token": `+randomText(16)+`(`, `token="`+randomText(11)+`"`, `token="a1B2c3D4e5F6 g7H8i9J0"`)
	assertRedacted(t, "aws_key", "aws_secret_access_key="+randomText(40), "AWS_SESSION_TOKEN="+randomText(200))
}

// A quoted value after a quoted name is nearly always a password. An unquoted value in code must have a letter, and a
// digit or punctuation.
func TestPasswordIsRedactedByQuotingAndCharacters(t *testing.T) {
	assertRedacted(t, "secret", `"password":"abcd"`, `"pass": "correct horse"`, `"pwd":"a b c d"`, `"password":"`+strings.Repeat("ab", 128)+`"`, `password = "a1b2"`, `password = "a-b-c-d"`, `password = "p@ss"`, "password=abcde1", "password=abcd@e", "password: é12345",
		"password=a.b@c1")
	assertKept(t, `"password":"abc"`, `"password":"a b c d e"`, `"password":"`+strings.Repeat("ab", 129)+`"`, `password = "abcd"`, `password = "a-b-c"`, "password=abcdef", "password=123456", "password=ab1", "password=a.b.c1", "password=aaaaaa", "password=/etc/x1",
		"password=~/x1y2z3", "password=a://b1c2", `password = "a bc"`, `password="+x1y2"`, `password=",x1y2"`, `password=")x1y2"`, "password=$x1y2z3", "password={x1y2z3}", "password=%x1y2z3", "password=<x1y2z3>", "password=*x1y2z3", "password=(x1y2z3", "password=[x1y2z3")
	for word := range strings.FieldsSeq("password passwd string required optional secret hidden none null true false text passwort") {
		assertKept(t, `"password":"`+word+`"`, `"password":"`+strings.ToUpper(word)+`"`)
	}
}

// The word after Bearer must have a digit or letters in both cases. The word after Basic must decode to user:password.
func TestCredentialAfterSchemeIsRedacted(t *testing.T) {
	assertRedacted(t, "authorization", "Bearer abcdefg1", "bearer  abcdefg1", "BEARER abcdEFGHijklmnop", "Bearer a.b~c-d_e+f/g1=", "Basic YTpiYw==", "basic "+strings.Repeat("YTpi", 64), "basic "+strings.Repeat("YTpi", 300))
	assertKept(t, "Bearer abcdef1", "Bearer abcdefgh", "Bearer abcdefghijklmnop", "Bearer 1234567", "Bearer\nabcdefg1", "xBearer abcdefg1", "Basic YTpi", "Basic YWJjZGVm", "Basic YQpi!Ojo=", "basic "+strings.Repeat("YWFh", 64)+"YTpi", "Basic dGFiCQk6YQ==")
}

// A text may have been cut inside a key. At the end of a text, half a key is therefore enough for a redaction.
func TestTruncatedVendorKeyIsRedactedAtTextEnd(t *testing.T) {
	for prefix, kind := range map[string]string{"ghp" + "_": "github_token", "npm" + "_": "npm_token", "hf" + "_": "huggingface_token", "sk" + "_live_": "stripe_key", "glpat" + "-": "gitlab_token", "xox" + "b-": "slack_token", "AI" + "za": "google_key"} {
		assertRedacted(t, kind, prefix+randomText(15), "x "+prefix+randomText(40))
		assertKept(t, prefix+randomText(5), prefix+randomText(11)+" x", "a"+prefix+randomText(40), prefix+randomText(3)+"."+randomText(40)[1:9])
	}
	assertRedacted(t, "aws_key", "AK"+"IA"+strings.Repeat("A1", 5), "AS"+"IA"+strings.Repeat("A1", 8)+" x")
	assertKept(t, "AK"+"IA"+strings.Repeat("A1", 4), "AK"+"IA"+strings.Repeat("A1", 7)+" x", "AK"+"IA"+strings.Repeat("A1", 9)+" x", "AK"+"IA"+strings.Repeat("A1", 8)+"x")
	assertRedacted(t, "twilio_key", "AC"+strings.Repeat("0a", 16), "SK"+strings.Repeat("0A", 16)+".")
	assertKept(t, "AC"+strings.Repeat("0a", 16)+"0 x", "AC"+strings.Repeat("0a", 15)+"0 x", "AC"+strings.Repeat("0a", 16)+"g", "AD"+strings.Repeat("0a", 16))
	assertRedacted(t, "azure_key", "abc8"+"Q~"+randomText(31), "abc8"+"Q~"+randomText(12), "abc8"+"Q~a.b~c-d_"+randomText(30)+" x")
	assertKept(t, "abc8"+"Q~"+randomText(30)+" x", "abcd"+"Q~"+randomText(31)+" x", "xabc8"+"Q~"+randomText(31)+" x", "abc8"+"Q~"+randomText(11))
}

func TestFileNamesAreNotAddresses(t *testing.T) {
	for ending := range strings.FieldsSeq("png jpg jpeg gif webp svg avif zip tgz tar gz js mjs ts css mod info json whl jar") {
		assertKept(t, "logo@2x."+ending, "mod@v1.2."+ending, "logo@3x."+strings.ToUpper(ending))
		assertRedacted(t, "email", "bob@example."+ending, "bob@v.example."+ending)
	}
	assertRedacted(t, "email", strings.Repeat("a", 64)+"@b.io", "a@"+strings.Repeat("b", 60)+".io", "a@b.c.d.io", "a@b--c.io", "a@b.xn--p1ai", "a@b.abcdefghijklmnopqrstuvwx")
	assertKept(t, "a@b.abcdefghijklmnopqrstuvwxy", "a@b.i", "a@b.i1", "a@b.xn-p1", "@b.io", "+-.@b.io", "a@b.io(", "a@-", "a@b.")
}

// A text that only resembles a placeholder may contain a value, which must be redacted.
func TestRedactionPlaceholdersAreKept(t *testing.T) {
	assertKept(t, "[REDACTED:email:1]", "[REDACTED:url_credentials:1234567]", "password=[REDACTED:secret:1]", "https://[REDACTED:url_credentials:1]@h/", "[REDACTED:abcdefghijklmnopqrstuvwx:1]")
	for _, text := range []string{"[REDACTED:email:12345678]a@b.io", "[REDACTED:email:]a@b.io", "[REDACTED::1]a@b.io", "[REDACTED:email:1", "[REDACTED:email1]a@b.io", "[REDACTED:Email:1]a@b.io", "[REDACTED:abcdefghijklmnopqrstuvwxy:1]a@b.io"} {
		if got := redact.New(true).Text(text + " c@d.io"); !strings.HasSuffix(got, "[REDACTED:email:1]") && !strings.HasSuffix(got, "[REDACTED:email:2]") || strings.Contains(got, "@") {
			t.Errorf("Text(%q) = %q, want email:1 or email:2 at the end, and no @", text+" c@d.io", got)
		}
	}
}

func TestTruncatedTextRedactsLastWord(t *testing.T) {
	for text, want := range map[string]string{
		"mail bob@": "mail ", "mail bob@exam": "mail ", "card 4111 11": "card ", "call +4": "call +4", "call +49": "call ", "call (415) 5": "call ", "key sk-": "key ", "key abc12d": "key ", "iban DE89 3704": "iban ", "x=abc123": "x=", `"abc123`: `"`,
		"key ab12": "key ab12", "at 123": "at 123", "id 1234": "id ", "the end": "the end", "a@b": "", "@": "@", "": "", "é@": "",
	} {
		if strings.HasSuffix(want, " ") || want != text {
			want += redact.Placeholder + "cut:1]"
		}
		if got := redact.New(true).TruncatedText(text); got != want {
			t.Errorf("TruncatedText(%q) = %q, want %q", text, got, want)
		}
	}
	if got := redact.New(true).TruncatedText("mail a@b.io"); got != "mail [REDACTED:email:1]" {
		t.Errorf(`TruncatedText("mail a@b.io") = %q, want "mail [REDACTED:email:1]"`, got)
	}
	if got := redact.New(true).TruncatedText(strings.Repeat("x", 300) + "1@"); strings.Count(got, "x") != 300+2-256 || !strings.HasSuffix(got, "cut:1]") {
		t.Errorf("302-byte word: TruncatedText = %q, want the last 256 bytes redacted", got)
	}
}

func TestReplacementsAreCountedByKindUntilDrained(t *testing.T) {
	r := redact.New(true)
	if r.Counts() != nil {
		t.Errorf("new redactor: Counts = %v, want none", r.Counts())
	}
	r.Text("a@b.io a@b.io 203.0.113.7")
	r.JSON(nil, []byte(`{"card":4111111111111111,"x":["c@d.io"]}`))
	if got := fmt.Sprint(r.Counts()); got != "map[card:1 email:3 ip:1]" {
		t.Errorf(`Counts = %q, want "map[card:1 email:3 ip:1]"`, got)
	}
	if got := fmt.Sprint(r.DrainCounts()); got != "map[card:1 email:3 ip:1]" || r.Counts() != nil {
		t.Errorf(`DrainCounts = %q, want "map[card:1 email:3 ip:1]"; Counts afterwards = %v, want none`, got, r.Counts())
	}
	if got := r.Text("c@d.io e@f.io"); got != "[REDACTED:email:2] [REDACTED:email:3]" {
		t.Errorf("after DrainCounts: Text = %s, want [REDACTED:email:2] [REDACTED:email:3]", got)
	}
}

// JSON keeps invalid escapes. In a result, % stands for the placeholder.
func TestEscapesAreDecodedBeforeMatching(t *testing.T) {
	for in, want := range map[string]string{
		`bob\u0040example.com`: "%", `bob\u0040EXAMPLE.com`: "%", `\u0062ob@example.com`: "%", `bob@example\u002Ecom`: "%", `bob@example\u002ecom`: "%", `\tbob@example.com\f`: `\t%\f`, `\bbob@example.com\b`: `\b%\b`,
		`bob\\u0040example.com`: "%", `\\\\u0062ob@example.com`: "%", `bob\u004gexample.com`: `bob\u004gexample.com`, `bob\u00`: `bob\u00`, `bob\x40example.com`: `bob\x40example.com`, `bob@example.com\`: `%\`, `C:\dir\x@example.com`: `C:\dir\%`,
	} {
		if got := redact.New(true).Text(in); got != strings.Replace(want, "%", "[REDACTED:email:1]", 1) {
			t.Errorf("Text(%s) = %s, want %s (%% is the placeholder)", in, got, want)
		}
	}
}

// % stands for a token.
func TestHeadersInJSONKeepSchemeAndCookieNames(t *testing.T) {
	for in, want := range map[string]string{
		`{"Authorization":"token %"}`: `{"Authorization":"token [REDACTED:authorization:1]"}`, `{"authorization":"%"}`: `{"authorization":"[REDACTED:secret:1]"}`, `{"Proxy-Authorization": "ApiKey  %,"}`: `{"Proxy-Authorization": "ApiKey  [REDACTED:authorization:1],"}`,
		`{"Cookie":"theme=dark; sid=%; x=y"}`: `{"Cookie":"theme=dark; sid=[REDACTED:authorization:1]"}`, `{"set-cookie":["a=b"],"Set-Cookie":"sid=%; Path=/"}`: `{"set-cookie":["a=b"],"Set-Cookie":"sid=[REDACTED:authorization:1]"}`,
		`{"h":"Cookie: sid=%\r\nAccept: a/b"}`: `{"h":"Cookie: sid=[REDACTED:authorization:1]\r\nAccept: a/b"}`, `{"cmd":"curl -H \"Authorization: token %\" http://h/?a=b"}`: `{"cmd":"curl -H \"Authorization: token [REDACTED:authorization:1]\" http://h/?a=b"}`,
		`{"Cookie":"theme=dark"}`: `{"Cookie":"theme=dark"}`, `{"authorization":"none of it"}`: `{"authorization":"none of it"}`, `{"auth":"%"}`: `{"auth":"%"}`, `{"auth":{"sid":"%"}}`: `{"auth":{"sid":"%"}}`,
	} {
		in, want = strings.ReplaceAll(in, "%", randomText(32)), strings.ReplaceAll(want, "%", randomText(32))
		if got := string(redact.New(false).JSON(nil, []byte(in))); got != want {
			t.Errorf("JSON(%s) = %s, want %s", in, got, want)
		}
	}
}

func TestMultiPartSecretIsRedactedToTheEnd(t *testing.T) {
	head, body := "-----BEGIN RSA PRIVATE KEY-----", strings.Repeat("MIIEvQIB", 8)
	first, second := "ey"+"JhbGciOi"+randomText(12), "ey"+"JzdWIiOi"+randomText(12)
	assertMarked(t, "private_key",
		"<"+head+"\n"+body+"\n-----END RSA PRIVATE KEY----->\nand more", "<"+head+"\n"+body+">-and more", "<"+head+body[:32]+">", head+body[:31], head+"\nProc-Type: 4\n", "x "+head+" y", "-----BEGIN PUBLIC KEY-----\n"+body,
		"-----BEGIN PRIVATE -----\n"+body, "<"+head+"\n"+body+"\n-----END >", "----"+head[5:]+"\n"+body,
	)
	assertMarked(t, "jwt",
		"<"+first+"."+second+"."+randomText(40)+">. So", "<"+first+"."+second+"."+randomText(40)+">\nNext", "<"+first+"."+second+">.", "<"+first+"."+second+"."+randomText(40)+".a.b> x", "<"+first+".\r\n"+second+".\n    "+randomText(40)+">\n\nNext",
		first, first+" "+second, first+"."+randomText(3), "x"+first+"."+second, "<"+first+"."+randomText(12)+">", first+"\n"+strings.Repeat(" ", 30)+randomText(8),
	)
	assertMarked(t, "slack_token", "https://hooks.slack.com/services/<T0A1B2C3D/B4E5F6G7H/"+randomText(24)+">?x", "https://hooks.slack.com/services/T0A1B2C3D/B4E5F6G7", "https://hooks.slack.org/services/T0A1B2C3D/B4E5F6G7H/"+randomText(24))
	assertMarked(t, "url_credentials",
		"https://<a:b>@h", "https://<a:b@c>@h/x@y", "https://a:b/c@h", "https://a:@h", "https://<:b>@h", "https://<"+randomText(16)+">@h", "https://"+randomText(15)+"@h", "https://a:b c@h", "https://a:$b@h", "https://a:%b@h", "https://<a:%2Fb>@h", "https://a:*b@h",
		"https://h/?q=a:b@c", "https://h#a:b@c", "https://<"+strings.Repeat("a", 520)+":b>@h", "x=<a:b>@tcp(h)", "'<a:b>@unix(/s)", "-u <a:b1c2d3>", "-u \"<a:b1c2d3>\"", "-u a:bcdefg", "-u a:b1", "x-u a:b1c2d3", "-user a:b1c2d3",
	)
}
