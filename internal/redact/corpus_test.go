package redact

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
)

type generator struct {
	kind     kind
	checksum bool // the kind has a checksum, so a higher recall is required
	draw     func(r *rand.Rand) string
}

const (
	lowers = "abcdefghijklmnopqrstuvwxyz"
	uppers = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	alnum  = digits + lowers + uppers
)

func draw(r *rand.Rand, alphabet string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(b)
}

func pickOne(r *rand.Rand, list ...string) string { return list[r.IntN(len(list))] }

func luhnNumber(r *rand.Rand, prefix string, n int) string {
	d := []byte(prefix + draw(r, digits, n-len(prefix)))
	for c := byte('0'); c <= '9'; c++ {
		d[n-1] = c
		if hasLuhnDigit(d) {
			break
		}
	}
	return string(d)
}

func drawCard(r *rand.Rand) string {
	var d string
	switch r.IntN(6) {
	case 0:
		d = luhnNumber(r, fmt.Sprint(51+r.IntN(5)), 16)
	case 1:
		d = luhnNumber(r, fmt.Sprint(2221+r.IntN(499)), 16)
	case 2:
		d = luhnNumber(r, pickOne(r, "34", "37"), 15)
		if r.IntN(2) == 0 {
			return d[:4] + " " + d[4:10] + " " + d[10:]
		}
		return d
	case 3:
		d = luhnNumber(r, "6011", 16)
	default:
		d = luhnNumber(r, "4", 16)
	}
	if sep := pickOne(r, "", " ", "-"); sep != "" {
		return d[:4] + sep + d[4:8] + sep + d[8:12] + sep + d[12:]
	}
	return d
}

func drawIBAN(r *rand.Rand) string {
	country := pickOne(r, "DE", "FR", "GB", "NL", "ES", "IT", "CH", "NO", "MT")
	n := ibanLength(country)
	body := draw(r, digits, n-4)
	if country == "GB" || country == "NL" {
		body = draw(r, uppers, 4) + body[4:]
	}
	var numeric strings.Builder
	for _, c := range body + country + "00" {
		if c >= 'A' {
			fmt.Fprint(&numeric, c-'A'+10)
		} else {
			numeric.WriteRune(c)
		}
	}
	v, _ := new(big.Int).SetString(numeric.String(), 10)
	check := 98 - new(big.Int).Mod(v, big.NewInt(97)).Int64()
	out := fmt.Sprintf("%s%02d%s", country, check, body)
	if r.IntN(2) == 0 {
		return out
	}
	var parts []string
	for len(out) > 4 {
		parts, out = append(parts, out[:4]), out[4:]
	}
	return strings.Join(append(parts, out), " ")
}

func drawEmail(r *rand.Rand) string {
	local := draw(r, lowers, 1+r.IntN(8))
	if r.IntN(2) == 0 {
		local += pickOne(r, ".", "_", "-", "+") + draw(r, alnum, 1+r.IntN(6))
	}
	return local + "@" + draw(r, lowers+digits, 3+r.IntN(6)) + pickOne(r, ".com", ".org", ".co.uk", ".de", ".io", ".museum", "-mail.net")
}

func drawPhone(r *rand.Rand) string {
	a, x, l := fmt.Sprint(2+r.IntN(8))+draw(r, digits, 2), fmt.Sprint(2+r.IntN(8))+draw(r, digits, 2), draw(r, digits, 4)
	switch r.IntN(7) {
	case 0:
		return "+1" + a + x + l
	case 1:
		return "+1 (" + a + ") " + x + "-" + l
	case 2:
		return "(" + a + ") " + x + "-" + l
	case 3:
		return a + "-" + x + "-" + l
	case 4:
		return a + "." + x + "." + l
	case 5:
		return "+44 20 " + draw(r, digits, 4) + " " + l
	default:
		return "+49 " + "1" + draw(r, digits, 2) + " " + draw(r, digits, 7)
	}
}

func drawSSN(r *rand.Rand) string {
	return fmt.Sprintf("%03d-%02d-%04d", 1+r.IntN(665), 1+r.IntN(99), 1+r.IntN(9999))
}

func drawIP(r *rand.Rand) string {
	if r.IntN(3) == 0 {
		return fmt.Sprintf("2001:db8:%x:%x::%x", r.IntN(65536), r.IntN(65536), 1+r.IntN(65535))
	}
	return fmt.Sprintf("%d.%d.%d.%d", 11+r.IntN(100), r.IntN(256), r.IntN(256), 1+r.IntN(254))
}

func drawPEM(r *rand.Rand) string {
	name := pickOne(r, "RSA ", "EC ", "", "OPENSSH ")
	var b strings.Builder
	b.WriteString("-----BEGIN " + name + "PRIVATE KEY-----\n")
	for range 3 + r.IntN(5) {
		b.WriteString(draw(r, alnum+"+/", 64) + "\n")
	}
	b.WriteString("-----END " + name + "PRIVATE KEY-----")
	return b.String()
}

func jwtPart(r *rand.Rand, s string) string {
	return strings.TrimRight(base64.URLEncoding.EncodeToString([]byte(s+draw(r, alnum, 20))), "=")
}

// shapeGenerators returns generators for values that are found without context.
func shapeGenerators() []generator {
	id := func(prefix, alphabet string, n int) func(*rand.Rand) string {
		return func(r *rand.Rand) string { return prefix + draw(r, alphabet, n) }
	}
	return []generator{
		{openAIKey, false, func(r *rand.Rand) string { return pickOne(r, "sk-", "sk-proj-", "sk-svcacct-") + draw(r, alnum, 48) }},
		{anthropicKey, false, id("sk-"+"ant-api03-", alnum+"-_", 95)},
		{awsKey, false, func(r *rand.Rand) string { return pickOne(r, "AKIA", "ASIA") + draw(r, uppers+digits, 16) }},
		{githubToken, false, func(r *rand.Rand) string { return pickOne(r, "ghp_", "gho_", "ghs_", "ghu_") + draw(r, alnum, 36) }},
		{githubToken, false, func(r *rand.Rand) string { return "github_pat" + "_" + draw(r, alnum, 22) + "_" + draw(r, alnum, 59) }},
		{gitlabToken, false, id("glpat"+"-", alnum+"_-", 20)},
		{slackToken, false, func(r *rand.Rand) string {
			return "xox" + pickOne(r, "b", "p", "a") + "-" + draw(r, digits, 12) + "-" + draw(r, digits, 12) + "-" + draw(r, alnum, 24)
		}},
		{stripeKey, false, func(r *rand.Rand) string { return pickOne(r, "sk_", "rk_") + "live_" + draw(r, alnum, 24+r.IntN(60)) }},
		{googleKey, false, id("AI"+"za", alnum+"_-", 35)},
		{npmToken, false, id("npm"+"_", alnum, 36)},
		{pypiToken, false, id("pypi"+"-AgEIcHlwaS5vcmc", alnum+"_-", 80)},
		{huggingFaceToken, false, id("hf"+"_", alnum, 34)},
		{sendgridKey, false, func(r *rand.Rand) string { return "SG." + draw(r, alnum+"-_", 22) + "." + draw(r, alnum+"-_", 43) }},
		{twilioKey, false, func(r *rand.Rand) string { return pickOne(r, "AC", "SK") + draw(r, "0123456789abcdef", 32) }},
		{jwt, false, func(r *rand.Rand) string {
			return jwtPart(r, `{"alg":"HS256"`) + "." + jwtPart(r, `{"sub":"`) + "." + draw(r, alnum+"-_", 43)
		}},
		{privateKey, false, drawPEM},
		{email, false, drawEmail},
		{phone, false, drawPhone},
		{card, true, drawCard},
		{iban, true, drawIBAN},
		{ssn, false, drawSSN},
		{ip, false, drawIP},
	}
}

// contextGenerators returns generators for values that are found only in context. Each function draws a text and the
// value in the text.
func contextGenerators() map[kind]func(r *rand.Rand) (text, value string) {
	return map[kind]func(r *rand.Rand) (string, string){
		authorization: func(r *rand.Rand) (string, string) {
			if r.IntN(2) == 0 {
				v := base64.StdEncoding.EncodeToString([]byte(draw(r, lowers, 6) + ":" + draw(r, alnum, 12)))
				return "Authorization: Basic " + v, v
			}
			v := draw(r, alnum, 24)
			return pickOne(r, "Authorization: Bearer ", "authorization: bearer ", "-H 'Authorization: Bearer ") + v, v
		},
		urlCredentials: func(r *rand.Rand) (string, string) {
			v := draw(r, alnum, 12)
			return pickOne(r, "https", "postgres", "redis", "mongodb+srv") + "://" + draw(r, lowers, 5) + ":" + v + "@host.example:99/db", v
		},
		awsKey: func(r *rand.Rand) (string, string) {
			v := draw(r, alnum+"+/", 40)
			return pickOne(r, "aws_secret_access_key = ", "AWS_SECRET_ACCESS_KEY=", "secretAccessKey: \"") + v + pickOne(r, "", "\""), v
		},
		azureKey: func(r *rand.Rand) (string, string) {
			v := draw(r, alnum+"+/", 86) + "=="
			return "DefaultEndpointsProtocol=https;AccountName=" + draw(r, lowers, 8) + ";AccountKey=" + v, v
		},
		secret: func(r *rand.Rand) (string, string) {
			switch r.IntN(3) {
			case 0:
				v := draw(r, lowers, 6) + draw(r, digits, 2) + draw(r, "!@#^*", 1)
				return pickOne(r, "password=", "DB_PASSWORD=", "password: ", `"passwd": "`, "--password ") + v + pickOne(r, "", `"`), v
			case 1:
				v := hex.EncodeToString([]byte(draw(r, alnum, 16)))
				return pickOne(r, "api_key: ", `"apiKey": "`, "X-API-Key: ", "api-key: ", "API_KEY=") + v + pickOne(r, "", `"`), v
			default:
				v := draw(r, alnum, 32)
				return pickOne(r, "client_secret=", `"token": "`, "AUTH_TOKEN=", "secret: ") + v + pickOne(r, "", `"`), v
			}
		},
	}
}

// embedInJSON returns JSON with the text in prose, code, nested JSON, or a string with escapes.
func embedInJSON(r *rand.Rand, place int, text string) []byte {
	str := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	switch place {
	case 0: // prose
		return []byte(`{"role":"user","content":` + str("Hello, please use "+text+" for the deploy, thanks. ") + "}")
	case 1: // code
		return []byte(`{"role":"user","content":` + str("func main() {\n\tx := 1\n\t// "+text+"\n\treturn\n}\n") + "}")
	case 2: // JSON in JSON: tool arguments
		return []byte(`{"type":"function_call","arguments":` + str(`{"note":`+str("see "+text+" ok")+`,"n":[1,2]}`) + "}")
	case 3: // two levels
		return []byte(`{"arguments":` + str(`{"body":`+str(`{"note":`+str("a\tb\n"+text+"\nc")+`}`)+`}`) + "}")
	default: // every third byte escaped
		var b strings.Builder
		b.WriteString(`{"content":"` + "x ")
		for i, c := range []byte(text) {
			switch {
			case c == '/' && r.IntN(2) == 0:
				b.WriteString(`\/`)
			case c < ' ' || c == '"' || c == '\\' || i%3 == 1:
				fmt.Fprintf(&b, `\u%04x`, c)
			default:
				b.WriteByte(c)
			}
		}
		b.WriteString(` y"}`)
		return []byte(b.String())
	}
}

const placeCount = 5 // cases in embedInJSON

func flatten(raw []byte) string {
	s := string(raw)
	for range maxLevels {
		var l level
		if !l.unescape([]byte(s), 0) {
			break
		}
		s = string(l.buf)
	}
	return s
}

func TestMostValuesInEachKindAreRedacted(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const valuesPerKind = 250
	check := func(t *testing.T, k kind, want float64, draw func() (text, value string)) {
		t.Helper()
		found, missed := 0, []string{}
		for i := range valuesPerKind {
			text, value := draw()
			raw := embedInJSON(r, i%placeCount, text)
			out := New(true).JSON(nil, raw)
			if !json.Valid(out) {
				t.Fatalf("JSON(%s) =\n%s\nwant valid JSON", raw, out)
			}
			if !strings.Contains(flatten(out), value) && strings.Contains(string(out), "[REDACTED:"+k.String()+":") {
				found++
			} else {
				missed = append(missed, text+" -> "+string(out))
			}
		}
		if got := float64(found) / valuesPerKind; got < want {
			t.Errorf("%s: got recall %.3f, want at least %.3f; first missed texts: %q",
				k, got, want, missed[:min(5, len(missed))])
		}
	}
	for _, m := range shapeGenerators() {
		want := 0.97
		if m.checksum {
			want = 0.99
		}
		t.Run(m.kind.String(), func(t *testing.T) {
			check(t, m.kind, want, func() (string, string) { v := m.draw(r); return v, v })
		})
	}
	for k, f := range contextGenerators() {
		t.Run("in context/"+k.String(), func(t *testing.T) {
			check(t, k, 0.97, func() (string, string) { return f(r) })
		})
	}
}

func drawHarmlessLine(r *rand.Rand) string {
	h := func(n int) string { return draw(r, "0123456789abcdef", n) }
	switch r.IntN(14) {
	case 0:
		return "commit " + h(40)
	case 1:
		return "sha256:" + h(64)
	case 2:
		return fmt.Sprintf("id: %s-%s-4%s-a%s-%s", h(8), h(4), h(3), h(3), h(12))
	case 3:
		return fmt.Sprintf("github.com/a/b v%d.%d.%d-0.%d-%s h1:%s=", r.IntN(9), r.IntN(30), r.IntN(30), 20200101000000+r.IntN(1e9), h(12), draw(r, alnum+"+/", 43))
	case 4:
		return fmt.Sprintf("%d-%02d-%02dT%02d:%02d:%02d.%03dZ took %dms", 2000+r.IntN(30), 1+r.IntN(12), 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60), r.IntN(1000), r.IntN(99999))
	case 5:
		return fmt.Sprintf("if token == %q && x[%d] > %d.%d { return nil, errTokenMissing }", draw(r, lowers, 5), r.IntN(99), r.IntN(99), r.IntN(99))
	case 6:
		return fmt.Sprintf("const password = readPassword(os.Stdin) // step %d", r.IntN(99))
	case 7:
		return fmt.Sprintf("%d %d %d %d %d", r.IntN(1e6), r.IntN(1e6), r.IntN(1e9), 1700000000+r.IntN(1e6), r.IntN(100))
	case 8:
		return fmt.Sprintf("pip install x==%d.%d.%d.%d # S3, C4, EC2", r.IntN(20), r.IntN(20), r.IntN(20), r.IntN(20))
	case 9:
		return fmt.Sprintf("--- PASS: TestX/case_%d (%d.%02ds)", r.IntN(99), r.IntN(9), r.IntN(99))
	case 10:
		return fmt.Sprintf("0x%s: mov %%rax,0x%s(%%rbp) ; std::vector<int>::push_back", h(16), h(2))
	case 11:
		return fmt.Sprintf(`{"max_tokens": %d, "token": null, "key": "value", "password": {"type": "string"}}`, r.IntN(9999))
	case 12:
		return fmt.Sprintf("@app.route('/x/%d')  # user@host, see a.b@c, @types/node@%d.0.1", r.IntN(99), r.IntN(20))
	default:
		return fmt.Sprintf("ts=%d trace_id=%s span=%s dur=%d.%d", 1700000000000+r.Int64N(1e9), h(32), h(16), r.IntN(99), r.IntN(999999))
	}
}

func TestFalseRedactionsInHarmlessTextAreRare(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var b strings.Builder
	for b.Len() < 1<<20 {
		b.WriteString(drawHarmlessLine(r) + "\n")
	}
	text := b.String()
	redactor := New(true)
	redactor.Text(text)
	total := 0
	for k, n := range redactor.Counts() {
		t.Log(k, n)
		total += n
	}
	if testing.Verbose() {
		for line := range strings.Lines(text[:1<<16]) {
			if out := New(true).Text(line); out != line {
				t.Logf("%q", out)
			}
		}
	}
	if limit := len(text) / 10_000; total >= limit {
		t.Errorf("got %d false redactions in %d harmless bytes, want fewer than %d", total, len(text), limit)
	}
}
