package redact_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"precept/internal/redact"
)

// secrets returns texts by kind, with the secret between < and >. A bar splits vendor keys, so that secret scanners do
// not report this repository. § and # stand for a token's characters, and * for a line in a key.
func secrets() map[string][]string {
	list := map[string][]string{
		"secret": {
			"password:\n<hunter22>\n", "the password is <hunter22>", "<hunter22> is the password", `["X-Api-Key","<§>"]`, "db.example:5432:shop:bob:<hunter22>",
			"DB_PASSWORD=<hunter22>", "jdbc:postgresql://h/db?user=x&password=<hunter22>", "User ID=sa;Password=<P@ssw0rd!>;Encrypt=True", "export SECRET_KEY='<§>'", "SECRET_KEY_BASE=<##>",
			"//packages.example.org/:_authToken=<#>", "PGPASSWORD=<hunter22> psql", "<password><hunter22></password>", "X-Amz-Signature=<##>", "X-Goog-Signature=<##>", "PRIVATE-TOKEN: <§>", "X-Vault-Token: <§>",
			"<do|p_v1_##>", "<do|o_v1_##>", "<lin|_api_§>", "<nt|n_§>", "<fig|d_§>", "<PM|AK-#-#>", "<NR|AK-§>", "<hv|s.§§>", "<hv|b.§§>", "<dp|.pt.§>", "<pu|l-#>", "<gl|c_§>", "<gl|sa_§_#>", "<sn|trys_§§>", "<sn|tryu_#>",
			"<ruby|gems_#>", "<sq0|atp-§>", "<sq0|csp-§>", "<dap|i#>", "<AGE-SECRET|-KEY-1§>", "<r|8_§>", "<nv|api-§>", "<f|w_§>", "<tv|ly-§>", "<lsv2|_pt_#_#>", "<lsv2|_sk_#_#>", "<ji|na_§>", "<c|sk-§>", "<tg|p_v1_§>", "<pc|sk_§>",
			"<sb|p_#>", "<sb_|secret_§>", "<vc|p_§>", "<nf|p_§>", "<ph|x_§>", "<cf|ut_§>", "<ts|key-auth-§>", "<ts|key-api-§>", "<CF|PAT-§>", "<ATA|TT3xFfGF0§>", "<ATC|TT3xFfGF0§>", "<sh|pss_#>", "<sh|pca_#>", "<sh|ppa_#>", "<dckr|_oat_§>",
		},
		"gitlab_token": {"<gl|agent-§>", "<gl|ft-§>", "<gl|soat-§>", "<gl|ffct-§>", "<gl|imt-§>", "<gl|pat-§>"}, "slack_token": {"<xox|c-123-§>", "<xox|d-§>", "xoxe.<xox|p-1-§>"},
		"google_key": {"<AI|za§>", "<ya|29.§§>", "<GOC|SPX-§>"}, "huggingface_token": {"<h|f_§>", "<api|_org_§>"}, "github_token": {"https://<gh|p_§>@github.com/x"}, "openai_key": {"OPENAI_API_KEY=<s|k-proj-§>"},
		"url_credentials": {
			"postgresql+psycopg2://<app:s3cr3t>@db/x", "mongodb+srv://<u:p@ss>@cluster0.mongodb.net", "amqp://<guest:guest1>@h", "<app:hunter22>@tcp(db:3306)/x", "dsn=<app:hunter22>@unix(/tmp/s)/x",
			"curl -u <admin:hunter22> https://h", `curl --user "<admin:hunter22>" https://h`, "curl -su x -u <admin:hunt:er22>",
		},
		"authorization": {
			"Authorization: Basic <YWRtaW46aHVudGVyMiE=>", "authorization: token <§>", "Authorization: ApiKey <§>.", "_auth=<YWRtaW46aHVudGVyMiE=>", "Set-Cookie: sid=<§; HttpOnly>", "Cookie: theme=dark; connect.sid=<s%3A§.§>", "curl -H 'Cookie: sessionid=<#>' http://h/",
		},
		"azure_key": {"AccountName=x;AccountKey=<§§A==>;EndpointSuffix=x", "Endpoint=sb://x/;SharedAccessKey=<§1=>", "Ocp-Apim-Subscription-Key: <#>"},
		"jwt": {
			"<ey|JhbGciOiJIUzI1NiJ9.ey|JzdWIiOiIxMjM0NTY3ODkwIn0.§>", "<ey|JhbGciOiJIUzI1NiJ9.\ney|JzdWIiOiIxMjM0NTY3ODkwIn0.\n§>", "<ey|JhbGciOiJIUzI1NiJ9.ey|JzdWIiOiIxMjM0N\r\n  TY3ODkwIn0.§>\nand so on",
		},
		"private_key": {
			"<-----BEGIN RSA PRIVATE KEY-----\r\n*\r\n*\r\n-----END RSA PRIVATE KEY----->\r\n", "<-----BEGIN OPENSSH PRIVATE KEY-----\n*\n-----END OPENSSH PRIVATE KEY----->", "key: <LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQpNSUlFb3dJQkFBS0NBUUVB>",
			"> <-----BEGIN PRIVATE KEY-----\n> *\n> -----END PRIVATE KEY----->", "+<-----BEGIN EC PRIVATE KEY-----\n+*\n+-----END EC PRIVATE KEY----->", "<-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: x\n\n*\n-----END PGP PRIVATE KEY BLOCK----->",
		},
		"email": {"<bøb@exämple.com>", "<用户@例子.公司>", "mailto:<bob@example.com>?subject=x"},
		"card":  {"pay <4111.1111.1111.1111>", "pay <4111\u00a01111\u00a01111\u00a01111>"},
		"phone": {
			"<+49 (0)30 901820>", "<+33 6 12 34 56 78>", "tel: <030/901820>", "Tel.: <030-901820>", "phone: <06 12 34 56 78>", "phone <06.12.34.56.78>", "mobile <07700 900123>", "<+81-3-1234-5678>", "<+86 138 0013 8000>", "<+91 98765 43210>",
			"<+55 (11) 91234-5678>", "<+7 (495) 123-45-67>", "<+61 2 1234 5678>", "<+972-50-123-4567>", "Telefon: <030 901820>", "Handy: <0171 1234567>", "téléphone: <01 23 45 67 89>", "teléfono <91 123 45 67>", "whatsapp <0171/1234567>",
		},
		"iban": {"iban=<de89370400440532013000>", "<gb82 west 1234 5698 7654 32>"}, "ip": {"[<2001:db8::1>]:443", "<::ffff:192.0.2.128>", "<2001:DB8::1>/32", "<64:ff9b::192.0.2.33>"},
	}
	fill := strings.NewReplacer("|", "", "§", "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5", "#", "9f86d081884c7d659a2feaa0c55ad015", "*", "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj")
	for _, texts := range list {
		for i := range texts {
			texts[i] = fill.Replace(texts[i])
		}
	}
	return list
}

// splitMarked returns a text without marks, the secret in the text, and the text with % in place of the secret.
func splitMarked(text string) (in, value, want string) {
	from := strings.Index(text, "<")
	if strings.HasPrefix(text, "<password>") {
		from = len("<password>")
	}
	to := strings.LastIndex(text, ">")
	if strings.HasSuffix(text, "</password>") {
		to = strings.LastIndex(text, "></")
	}
	return text[:from] + text[from+1:to] + text[to+1:], text[from+1 : to], text[:from] + "%" + text[to+1:]
}

func TestEachSecretKindIsRedacted(t *testing.T) {
	for kind, texts := range secrets() {
		for _, text := range texts {
			in, _, want := splitMarked(text)
			want = strings.Replace(want, "%", redact.Placeholder+kind+":1]", 1)
			if got := redact.New(true).Text(in); got != want {
				t.Errorf("Text(%q) = %q, want %q", in, got, want)
			}
			if twice := redact.New(true).Text(want); twice != want {
				t.Errorf("second redaction: Text(%q) = %q, want it unchanged", want, twice)
			}
		}
	}
}

func TestSecretInNestedJSONIsRedacted(t *testing.T) {
	var all []string
	for _, texts := range secrets() {
		all = append(all, texts...)
	}
	slices.Sort(all)
	rapid.Check(t, func(t *rapid.T) {
		in, value, _ := splitMarked(rapid.SampledFrom(all).Draw(t, "text"))
		in = rapid.SampledFrom([]string{"", "so: ", "line\n", "\"", "é "}).Draw(t, "before") + in
		depth := rapid.IntRange(1, 4).Draw(t, "depth")
		raw := []byte(in)
		for range depth {
			raw, _ = json.Marshal(string(raw))
		}
		member := `{"content":` + string(raw) + `,"n":[1]}`
		if rapid.Bool().Draw(t, "key") {
			member = `{` + string(raw) + `:{"a":null}}`
		}
		out := redact.New(true).JSON(nil, []byte(member))
		if !json.Valid(out) {
			t.Fatalf("JSON(%s) = %s, want valid JSON", member, out)
		}
		plain := string(out)
		for range depth {
			plain = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n", `\r`, "\r").Replace(plain)
		}
		if strings.Contains(plain, value) || !strings.Contains(plain, redact.Placeholder) {
			t.Fatalf("JSON(%s) = %s, want the value redacted", member, out)
		}
	})
}

func TestHarmlessTextsAreKept(t *testing.T) {
	const hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b"
	for _, text := range []string{
		hash, "commit " + hash, "sha256:" + hash + hash[:24], "12345678-1234-4234-8234-123456789abc", "2026-11-24T13:12:18.123456Z", "1732453938123", "v1.2.3-rc.4+build.5", "go1.24.3", "lodash@4.17.21", "@types/node@20.1.2", "1.2.3.4.5",
		"0x7fff5fbff8c0", "12:34:56.789", "00:1A:2B:3C:4D:5E", "-rw-r--r-- 1 root root 4111 Nov 24", `ETag: "33a64df551425fcc55e4d42a148795d9f25f89d4"`, "index 83db48f..bf2a1c3 100644", "token_count: 12345", "max_tokens=1024", `"token": "<eos>"`,
		"pos=(123, 456, 7890)", "[0.123456789, 0.987654321, 1234567.89]", "6.02214076e23", "16777216 4294967296 18446744073709551615", "id: 1234567890123456789", "msg_01ABCdefGHIjklMNOpqrSTU", "toolu_01A09q90qw90lq917835lq9", "call_abc123DEF456ghi789JKL",
		"chatcmpl-9abcDEF123ghiJKL", "resp_67ccd2bed1ec8190b14f964abc054267", "arn:aws:iam::123456789012:role/x", "docker pull ubuntu@sha256:" + hash, "def password(self):", "token = tokenizer.next()", "password?: string;", "api_key: Optional[str] = None",
		"user@host:~/dir$ ls", "@app.route('/x')", "a[1]@b.c()", "555 0100", "20261124131218", "24.11.2026", "isbn 978-3-16-148410-0", "rgba(255, 255, 255, 0.5)", "Basic understanding", "http://localhost:8080/a@b", "scp a.txt bob@host:/tmp", "https://example.com/@user/post",
		"E11000 duplicate key", "GB29 is the", "auth: true", "author: bob", "pass: 12 fail: 3", "PWD=/home/x/y1", "TOKEN=${TOKEN}", "password=****", "password=<password>", "1e3 2e4", "Foo::Bar::baz", "@@ -123,4567 +123,4567 @@", "1,234,567.89", "0.1.2.3",
		"docker run -u 1000:1000 x", "docker run --user 1000:1000 x", "sort -u a:b", "git push -u origin main:dev", "sudo -u root ls:", "-u", "-u :x1y2z3", "x@tcp(db)", "@tcp(a:b)", "u:${PW}@tcp(db)", "List<Token> tokens", "if password>hunter22 {",
		"cookie: yes", "cookies: a=b", "Cookie: theme=dark; lang=en", "Set-Cookie: seen=1; Path=/; Max-Age=31536000", "authorization: required by the server", "auth=none", "auth: c29tZSB0ZXh0", "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSURkekNDQWwrZ0F3SUJBZ0lF",
		"LS0tLS1CRUdJTi", "eyJhbGciOi.\nNext line", "call by 12/31/2026", "phone 1/24/2026 x", "tel 12/345678", "12.34.56", "fw_version_2_of_the_board_support", "r8_is", "api_v1_of_the_server", "glc_" + strings.Repeat("a", 30), "sk-" + strings.Repeat("a-", 40) + "1",
	} {
		if got := redact.New(true).Text(text); got != text {
			t.Errorf("Text(%q) = %q, want it unchanged", text, got)
		}
	}
	for _, image := range []string{"data:image/png;base64," + strings.Repeat("iVBORw0KGgo", 300), strings.Repeat("AKIA+4111111111111111/", 200)} {
		if got := redact.New(true).Text(image); got != image {
			t.Errorf("long base64: Text = %.80q, want it unchanged", got)
		}
	}
}

// The redactor scans long base64 only if it begins like a PEM block.
func TestLongBase64KeyIsRedacted(t *testing.T) {
	long := "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCk1JSUV2UUlCQURBTg" + strings.Repeat("QUJD", 1000)
	if got, want := string(redact.New(false).JSON(nil, []byte(`{"data":"`+long+`"}`))), `{"data":"`+redact.Placeholder+`private_key:1]"}`; got != want {
		t.Errorf("private key in base64: JSON = %.80s, want %s", got, want)
	}
}

func TestIBANSpellingsHaveSameNumber(t *testing.T) {
	if got := redact.New(true).Text("DE89 3704 0044 0532 0130 00 de89370400440532013000"); got != "[REDACTED:iban:1] [REDACTED:iban:1]" {
		t.Errorf(`one IBAN in two spellings: Text = %q, want "[REDACTED:iban:1] [REDACTED:iban:1]"`, got)
	}
}
