package redact_test

import (
	"strings"
	"testing"

	"precept/internal/redact"
)

const (
	uuidText = "3f2b8c1d-9a4e-4c7b-8d6f-0e1a2b3c4d5e"
	seedText = "lamp orbit candy merge trophy acid rural fluid basket idle onion vague"
)

func TestSeedPhrasesAreRedacted(t *testing.T) {
	assertRedacted(t, "secret", "seed phrase: "+seedText, `mnemonic = "`+seedText+`"`, `{"recoveryPhrase":"`+seedText+`"}`, "mnemonic: "+seedText+" # dev")
	assertKept(t, "seed phrase: twelve words", `mnemonic = "vfmadd231ps"`, "seed = 42", "the text is "+seedText)
}

func TestSecretNameWithSuffixIsRecognised(t *testing.T) {
	assertRedacted(t, "secret", "TOKEN_STAGING="+randomText(40), `apiKeyV2x: "`+randomText(40)+`"`, "STRIPE_SECRET_TEST = "+randomText(40))
	assertKept(t, "TOKEN_HASH="+randomText(40), "secret_id_ref="+uuidText, "token_endpoint: "+randomText(40), "TOKEN_STAGING=staging-of-the-token")
}

func TestSecretInListsElementsAndTablesIsRedacted(t *testing.T) {
	assertRedacted(t, "secret", "tokens:\n  - "+randomText(40), `api_keys = ["`+randomText(40)+`"]`, "<ns:ApiKey>"+randomText(40)+"</ns:ApiKey>", "<token><![CDATA["+randomText(40)+"]]></token>",
		`<property name="password"><value>Teapot.9b</value></property>`, `<entry key="db.password">Teapot.9b</entry>`, `("stripe", "secret_key", "`+randomText(40)+`")`,
		`variable "api_key" {`+"\n  type = string\n  default = \""+randomText(40)+"\"\n}", "|token|"+randomText(40)+"|", "API key\n"+randomText(40)+"\n", "api_token,"+randomText(40)+"\n")
	assertKept(t, "tokens="+randomText(40), "token\nabcdefgh\n", "tokens: [a, b]", `output "token" { value = var.token }`)
}

func TestSecretInTestAssertionIsRedacted(t *testing.T) {
	assertRedacted(t, "secret", `assertEqual(cfg.secret, "`+randomText(40)+`")`, `assert.Equal(t, "`+randomText(40)+`", got.Token)`, `expect(cfg.secret).toBe("`+randomText(40)+`")`)
	assertKept(t, `assert.Equal(t, "refresh", got.Token)`, `expect(cfg.secret).toBe("refresh_token_1")`)
}

func TestKubernetesSecretDataIsRedacted(t *testing.T) {
	assertRedacted(t, "secret", "apiVersion: v1\nkind: Secret\nmetadata:\n  name: db\ndata:\n  user: Ym9ieTE4Nzc=\n", "kind: Secret\ntype: Opaque\ndata:\n  config: 'aGVsbG8gd29ybGQ='\n")
	assertKept(t, "kind: Secret\nmetadata:\n  name: database\n  namespace: frontend\n", "kind: ConfigMap\ndata:\n  user: Ym9ieTE4Nzc=\n", "kind: Secret\ndata:\n  a: Zm9v\n---\ndata:\n  user: Ym9ieTE4Nzc=\n")
}

func TestSecretInProseIsRedacted(t *testing.T) {
	assertRedacted(t, "secret", "key for the geocoder is "+randomText(40), "the token that I got back was "+randomText(40), "use "+randomText(40)+" as the api key", randomText(40)+" is my api token", "token - "+randomText(40))
	assertKept(t, "the token in commit "+randomText(40), "token for the user is missing", "password was reset2 days ago")
}

func TestPunctuatedAndBase32KeysAreRedacted(t *testing.T) {
	const salt = "dlGyb}W~{{&i!w>2>,x=0vgx+-BGzV5ZXv=$2=$,0egSmpo#38(s}^$i1{nfs7Dn"
	assertRedacted(t, "secret", "define('AUTH_KEY', '"+salt+"');", "define('NONCE_SALT', '"+salt+"');", "SECRET_KEY=i@uu)zh)5@8r59wuiom)w-mx6zokjm)$r+xhzew^(s4f2xby59", "totp secret: J36U4NAWKFS5ONZQ")
	assertKept(t, "salt: 8 bytes", "secret: MYSECRETPLACEHOL", "token = a(b[1]) + c(d[2]) * e{3}")
}

// In code, a word with one dot may be a variable.
func TestPasswordWithDotIsRedactedOutsideCode(t *testing.T) {
	assertRedacted(t, "secret", "temp password: Teapot.Nine9", "[client]\nuser=root\npassword=teapot.nine9\n", "wachtwoord: T3apot.nine", "db.example.net:5432:shop:app:teapot.Nine9", "root password → teapot.Nine9", "| pw | t3apot.x |", "user;pw\nbob;Teapot.9\n")
	assertKept(t, "  password = settings.db9", "password=config.db1.pw", "| pwd | print working directory |", "build,pass,fail\nx86,12,3\n")
}

func TestPasswordInLoginCallIsRedacted(t *testing.T) {
	assertRedacted(t, "secret", `driver.login("bob", "Teapot.9b")`, `DriverManager.getConnection(url, "sa", "Teapot.9b")`, `new NetworkCredential("bob", "Teapot.9b")`, "SET PASSWORD FOR 'a' = PASSWORD('Teapot.9b')")
	assertKept(t, `login("user", "password")`, `signIn("github", { callbackUrl: "/" })`)
	assertRedacted(t, "url_credentials", "curl -u "+randomText(32)+": https://h")
}

func TestPublicKeysAreKept(t *testing.T) {
	assertKept(t, "Public key ping-sha256: pL1+qb9HTMRZJmuC/bB/ZI9d302BYrrqiVuRyW+DGrU=")
}

func TestPhoneIsRedactedAfterForeignLabels(t *testing.T) {
	assertRedacted(t, "phone", "Durchwahl: 089/4567-123", "cel: 55 1234 5678", "llámame al 655 443 322")
	assertKept(t, "article 310-555-0192-B")
}

func TestCacheKeysAreKept(t *testing.T) {
	const digest = "9b1d5f0c3a7e4826b0d4f8a2c6e1937d5b0f4a8c2e6d1937b5f0a4c8e2d6193a"
	assertKept(t, "saved with key: macOS-pip-3.12-"+digest, "hit for key: setup-go-Linux-x64-go-1.22-"+digest, "restored key: v1-deps-"+digest[:40], "key: Linux-"+digest)
	assertRedacted(t, "secret", "MAIL_KEY=app-"+digest, "MAIL_KEY=live-eu-"+digest[:32], "MAIL_KEY="+digest)
}

func TestFormTextUnderPasswordKeyIsKept(t *testing.T) {
	assertKept(t, `{"password": "Mot de passe oublié ?"}`, `{"new_password": "Neues Kennwort"}`, `{"password": "Wachtwoord vergeten?"}`, `{"password": "Пароль"}`, `{"pwd":"请输入密码"}`, `{"password": "Bitte eingeben"}`, `{"password": "Mindestens 8 Zeichen"}`, `{"password": "Really sure?"}`)
	assertRedacted(t, "secret", `{"password": "center stage horse"}`, `{"password": "meinkennwort"}`, `{"password": "Blue Moon 77?"}`, `{"password": "teapot?"}`)
}

func TestTemplatesAreKept(t *testing.T) {
	assertKept(t, "password: {{ .Values.cache.password | sha256sum }}", "pass: <%= config.password | md5hex1 %>", "pw: #{settings.db.password | enc64}", "secret: {{ randAlphaNum 32 | b64enc }}",
		"mysql://user:pass@hostname:3306/db", "redis://default:password@hostname:6379", "amqp://username:password@host/v", "user:password@tcp(host:port)/db")
	assertRedacted(t, "secret", "{{ x }} | password | Teapot.9b |")
	assertRedacted(t, "url_credentials", "amqp://user:password@rabbit1.corp:5672/", "mysql://bob:password@host/db", "bob:teapot9b@tcp(host:3306)/db")
}

func TestDescriptiveTableIsKept(t *testing.T) {
	assertKept(t, "| Name | Needed | Meaning |\n|---|---|---|\n| API_URL | yes | address |\n| DB_PASSWORD | yes | password of the owner |\n| CACHE_TTL9 | no | days |\n", "| host | password |\n|---|---|\n| a | DB_PASSWORD |\n")
	assertRedacted(t, "secret", "| host | password |\n|---|---|\n| a | Teapot.9b |\n", "see: a | b\n| host | password |\n| a | Teapot.9b |\n")
}

func TestNetworksAreKept(t *testing.T) {
	assertKept(t, "pods: 10.244.0.0/16", "net 203.0.113.64/26", "0.0.0.0/0", "198.51.100.0/24,")
	assertRedacted(t, "ip", "10.244.0.9/16", "203.0.113.64/32", "203.0.113.64/25", "http://203.0.113.64/24h", "198.51.100.0")
}

func TestPasswordWithPunctuationInProseIsRedacted(t *testing.T) {
	t.Parallel()
	assertMarked(t, "secret", "the password is <Lachs&Minze83> since Monday", "log in as qa, password: <k0libri(Mond)>. Then", "it opens with the password <rT8mQwLzXcVb> only", "mit dem Passwort <Ginkgo4711x> anmelden",
		"[smtp]\nuser = bob\npassword = <;Linde8=Ahorn>\ntls = on\n", "net use * \\\\srv\\data <Teapot.9b/7> /user:bob", "net use X: \\\\fs\\share2b /user:bob",
		"password is foo&bar=1", "{ user, password: h4sh(Salt) }", "password: sha256(Salt).", "with the password policy and the password manager", "with the password field2 and more", "with the password sha256-hashed")
}

func TestPasswordAfterForeignLinkWithColonIsRedacted(t *testing.T) {
	t.Parallel()
	assertMarked(t, "secret", "Le mot de passe du wifi est : <Canard-58!>", "La contraseña de la red es: <Pato58Azul>", "A senha do painel é: <pato.58azul>", "La password del server è: <Anatra58!x>", "Het wachtwoord van de router is: <Eend58geel>",
		"Das Kennwort für den Drucker lautet: <Ente58gelb>", "Das Passwort für den Drucker ist : <Ente58gelb>", "le mot de passe est : obligatoire", "la contraseña es: obligatoria")
}

func TestPasswordAfterQualifiedConstantIsRedacted(t *testing.T) {
	t.Parallel()
	assertMarked(t, "secret", `env.put(Context.SECURITY_CREDENTIALS, "<Pf3rd!Stall>")`, `p.put(Config.DB_PASSWORD, "<Teapot.9b>")`, `f(Mode.SEND_CREDENTIALS, "same-origin")`)
}

func TestCapitalsBelowPasswordInTableAreRedacted(t *testing.T) {
	t.Parallel()
	assertMarked(t, "secret", "| host | password |\n|---|---|\n| a | QWRTZUIP |\n")
	assertRedacted(t, "secret", "| host | password |\n|---|---|\n| a | Teapot.9b |\n| b | QWRTZUIP |\n")
	if out := redact.New(true).Text("| host | password |\n|---|---|\n| a | Teapot.9b |\n| b | QWRTZUIP |\n| c | DISABLED |\n"); strings.Contains(out, "QWRTZUIP") || !strings.Contains(out, "DISABLED") {
		t.Errorf("Text = %q, want QWRTZUIP redacted, and DISABLED kept", out)
	}
	assertKept(t, "'PASSWORD',\n'AVAILABLE',\n'BACKGROUND',\n")
}

func TestNationalPhoneNumberAfterLabelIsRedacted(t *testing.T) {
	t.Parallel()
	assertMarked(t, "phone", "ruf mich mal an: <0176 5550142>", `"callback": "<079 555 01 42>"`, "Bureau: <+33 (0)1 70 55 01 42>", "<+41 (0)44 555 01 42>", "chiamare lo <06 5550 1423> interno 3", "Bel ons op <020-5550142> (keuze 1)", "Reception: <020 7946 0958> ext. 4",
		"звоните <8 921 555-01-42> вечером", "<8 921 555-01-42>", "numer telefonu: <22 555 01 42>", "erreichbar unter <0176 5550142>", "+1 2 3 4 5 6 7 8 9", "8 800 55-01-42", "office open 01.02.2026 12:30", "unter 0001 0002 0003", "12 555 01 42 items", "numer zamówienia: 22 555 01 42")
}

func TestKeyOfFurtherVendorIsRedacted(t *testing.T) {
	t.Parallel()
	const hex32, key64 = "4f1c9e07b2a85d36e0f7a1c4928b3d65", "0x4f1c9e07b2a85d36e0f7a1c4928b3d654f1c9e07b2a85d36e0f7a1c4928b3d6a"
	assertMarked(t, "secret", `{"routing_key": "<`+hex32+`>"}`, "routing_key=orders.eu.created2", "routing_key="+uuidText, "https://eth-sepolia.g.alchemy.com/v2/<"+randomText(32)+">", "wss://mainnet.infura.io/ws/v3/<"+hex32+">",
		"https://mainnet.infura.io/v3/YOUR_INFURA_PROJECT_ID", "ASANA_PAT=<1/1200000000000042:"+hex32+">", `accounts: ["<`+key64+`>"]`, `new ethers.Wallet("<`+key64+`>")`, `accounts: ["`+key64[:42]+`"]`, "wallet: "+key64, "pat: "+randomText(32))
	assertMarked(t, "url_credentials", "java -jar jenkins-cli.jar -auth <bot:11"+hex32+"> build x", "tool -auth ldap://host:389 -auth none")
	assertMarked(t, "authorization", "Authorization: Bearer <1/1200000000000042:"+hex32+">")
}
