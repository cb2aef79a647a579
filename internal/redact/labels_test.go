package redact

import (
	"strings"
	"testing"
)

const alnum40 = "q7ZtB2mKx9VwL4nRc8HdY3pJs6FgT1aUe5WiO0kN"

func TestTokenAfterLabelIsRedacted(t *testing.T) {
	t.Parallel()
	for _, label := range []string{
		"CLOUD_TOKEN → ", "API_SECRET ⇒ ", "api token -> ", "| Mail key | ", "| Maps API key | `", "the upload key ", "this is my key ",
		"CLOUD_TOKEN ➜ ", "CLOUD_TOKEN --> ", "Token: <", "key for the robot: ", "jeton : ", "le jeton d'accès est ", "Der Token lautet ",
		"私钥：", "секретный ключ: ", "| robot | api key |\n|---|---|\n| r2 | ", "the secret for our billing hook: ", "token of the second robot: ", "secret (staging): ", "api key (old) - ",
		"API-Schlüssel: ", "Zugangsschlüssel = ", "clé API : ", "chave de API: ", "Der API-Schlüssel lautet ", "API キー: ", "APIキーは", "令牌为 ", "access token 是 ",
	} {
		if out := New(true).Text(label + alnum40 + "` | x"); strings.Contains(out, alnum40[:12]) {
			t.Errorf("token after %q: Text = %q, want the token redacted", label, out)
		}
	}
}

func TestProseAfterSecretNameIsKept(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"the cache key " + alnum40, "| Partition key | " + alnum40 + " |", "the public key " + alnum40,
		"the secret for the hook: see the vault", "token (string): the value to send", "password (optional) - a text of 8 letters",
		"API_TOKEN → see the vault", "token -> tokenizer", "we log in with a name / a password", "either / or",
		"passphrase: the words must be in small letters", "Passphrase: required for every release",
		`f("bob", "hunter22")`, "token=HTTPServerV2Handlers", "ghp_" + strings.Repeat("x", 36),
		`password: "choose a new one"`, `password = "fields do not match"`, "password for the site: see below", "run --password=config.db1.pass",
		"fe80::/10 is local", "tokens of “quoted” words", "10.0.0.0/8 and 192.168.0.0/16 are private",
	} {
		if out := New(true).Text(text); out != text {
			t.Errorf("Text(%q) = %q, want it unchanged", text, out)
		}
	}
}

func TestPasswordInLoginOrPassphraseIsRedacted(t *testing.T) {
	t.Parallel()
	for text, password := range map[string]string{
		"sign in with carla / Mond.77Licht":              "Mond.77Licht",
		"credentials: carla / Mond77Licht!":              "Mond77Licht!",
		"password (temporary): Mond-77x":                 "Mond-77x",
		"Das Kennwort lautet Mond77Licht":                "Mond77Licht",
		"contraseña: Luna.77Azul":                        "Luna.77Azul",
		"密码：Luna.77Azul":                                 "Luna.77Azul",
		"passphrase: paper cloud engine violet":          "paper cloud engine violet",
		"key_passphrase=paper-cloud-engine-violet":       "paper-cloud-engine-violet",
		`my passphrase is "paper cloud engine violet"`:   "paper cloud engine violet",
		`HTTPBasicAuth("carla", "moon77light")`:          "moon77light",
		`requests.get(u, auth=("carla", "moon77light"))`: "moon77light",
		"echo carla:Mond.77 | chpasswd":                  "Mond.77",
		"password for staging: Mond!77licht":             "Mond!77licht",
		"the password is now Mond.77!licht":              "Mond.77!licht",
		"user carla, password Mond!77licht.":             "Mond!77licht",
		"changed the password from x to Mond!77licht":    "Mond!77licht",
		`password: "paper cloud engine violet"`:          "paper cloud engine violet",
		"wget --password=Mond.7x u":                      "Mond.7x",
		"helm install --set db.password=Mond.7x r":       "Mond.7x",
		"docker run -e DB_PASSWORD=Mond.7licht i":        "Mond.7licht",
		"- name: DB_PASSWORD\n  value: Mond.7x":          "Mond.7x",
		"パスワードは「Mond77licht」です":                          "Mond77licht",
		"the password is “Mond77licht”":                  "Mond77licht",
		"hasło: Mond77licht":                             "Mond77licht",
		"WLAN-Schlüssel: Mond77licht":                    "Mond77licht",
		"SID_TOKEN=kQmZbxWPTRvLcNdfGhJsYoiEaU7u":         "kQmZbxWPTRvLcNdfGhJsYoiEaU7u",
		"API_TOKEN=bxkqrtzwfe123456":                     "bxkqrtzwfe123456",
	} {
		if out := New(true).Text(text); strings.Contains(out, password) {
			t.Errorf("Text(%q) = %q, want %q redacted", text, out, password)
		}
	}
}

// A Chinese identity number is redacted only if its check digit is valid, and a Japanese or Korean identity number only
// after a label that names it.
func TestNationalIdentityNumbersAreRedacted(t *testing.T) {
	t.Parallel()
	for text, number := range map[string]string{
		"身份证号码：11010519491231002X": "11010519491231002X",
		"id 440308199901101512":    "440308199901101512",
		"マイナンバーは 1234-5678-9018":   "1234-5678-9018",
		"個人番号: 123456789018":       "123456789018",
		"주민등록번호 900101-2345678":    "900101-2345678",
	} {
		if out := New(true).Text(text); strings.Contains(out, number) {
			t.Errorf("Text(%q) = %q, want the number redacted", text, out)
		}
	}
	for _, text := range []string{"id 110105194912310021", "id 440308199913101512", "lot 900101-2345678", "1234 5678 9018 units", "id 1112223334445556667"} {
		if out := New(true).Text(text); out != text {
			t.Errorf("Text(%q) = %q, want it unchanged", text, out)
		}
	}
}

func TestPhoneBeforeLabelOrWithSpacesIsRedacted(t *testing.T) {
	t.Parallel()
	for text, number := range map[string]string{
		"07700 900123 is my mobile number": "900123",
		"Telefon: 030 / 901820":            "901820",
		"Tel. 0664 - 1234567":              "1234567",
	} {
		if out := New(true).Text(text); strings.Contains(out, number) {
			t.Errorf("Text(%q) = %q, want the number redacted", text, out)
		}
	}
	for _, text := range []string{"07700 9001234 is my order", "030 / 901820 parts", "size 300 400 5000", "295 410 6000 mm"} {
		if out := New(true).Text(text); out != text {
			t.Errorf("Text(%q) = %q, want it unchanged", text, out)
		}
	}
}
