package redact_test

import (
	"encoding/json"
	"strings"
	"testing"

	"precept/internal/redact"
)

// In these texts, < and > mark a secret that must be redacted. A text without the marks, such as prose about passwords,
// must stay unchanged.
func TestSecretNextToNameIsRedacted(t *testing.T) {
	t.Parallel()
	const key = "aB3dE5fG7hI9jK1lM3nO5pQ7rS9"
	assertMarked(t, "secret",
		// prose
		"<hunter22> is the password", "use `<hunter22>` as the password for it", "\"<hunter22>\" is my root password.", "<hunter22> is our Password, sorry",
		"the password is <hunter22>, ok", "The root password is: <hunter22>", "my password for the VPN is <hunter22!>", "we set the password to <hunter22>", "a passphrase for the key to `hunter22`", "Das Passwort lautet: <hunter22>",
		"the password is hashed", "the password is base64 encoded", "the password is 8-character or more", "the password is AES256 encrypted", "OAuth2 is the password-less way", "SHA256 is the password hash",
		"PR1234 is the password reset", "argon2id is the password", "utf8mb4 as the password", "line12 is the password", "it is the password", "password v2.1.3", "password sha256", "password hunter22 and more",
		"hunter22 is. The password", "hunter22 is the\npassword", "the password. It is hunter22", "compass is the hunter22", "password policy hunter22x",
		// files and commands
		"machine h login bob password <hunter22>", "the machine has a login form password correcthorse", "ALTER USER bob PASSWORD 'required'", "the password 'correcthorse'",
		"echo <hunter22> | docker login -u bob", "echo 'root:<hunter22>' | chpasswd", "echo root:<correcthorse> | chpasswd", `{\"command\":\"echo \\\"root:<ab,cd1x>\\\" | chpasswd\"}`, "echo correcthorse | cat", "echo root | chpasswd", "cat hunter22 | chpasswd", "echo hunter22 | docker ps", "the AUTH hunter22", "AUTH LOGIN", "AUTH of hunter22 and more", "s/x/$5$6/", "cost $6$ and a word",
		"araña: hunter22", "passe partout: hunter22", "https://h/x?key=short1", "key=<"+key+">", "key="+strings.ToLower(key), "x?monkey="+key, "npw=hunter22", "&key="+key[:12],
		"login bob\n  password <hunter22>\n", "login bob password hunter22", "ENV DB_PASSWORD <hunter22>", "requirepass <hunter22>", "DB_PASSWORD:        <hunter22>", "| Password | <hunter22> |",
		"ALTER USER bob WITH ENCRYPTED PASSWORD '<hunter22>'", "IDENTIFIED WITH x BY '<hunter22>'", "identified by `hunter22`", "CREATE USER bob IDENTIFIED BY <hunter22>;", "identified by hunter22", "sorted by 'hunter22'", "aws configure set aws_access_key <"+key+">", "user_access_key of bob",
		"db.example:5432:*:bob:<hunter22>", "localhost:*:shop:bob:<hunter22>", "main.go:123:shop:bob:hunter22", "db:5432:shop:hunter22", "db:5432:1:bob:hunter22", "a:db:5432:shop:bob:hunter22", "fd00:1234:b:c:cafe1", "db:5*:a:b:hunter22",
		"echo <hunter22> | sudo -S ls", "echo '<correcthorse>' | sudo -S ls", "sudo -S ls hunter22", "keytool -storepass <hunter22>", "ls -password-file hunter22",
		// lists and calls
		`["X-Api-Key","<`+key+`>"]`, `[ "X-Api-Key", "<`+key+`>" ]`, "[\n  \"X-Api-Key\",\n  \"<"+key+">\"\n]", `('DB_PASSWORD', '<hunter22>')`, `os.Setenv("DB_PASSWORD", "<hunter22>")`, `define('DB_PASSWORD', '<hunter22>');`,
		`["password","username"]`, `["password","hunter22","x"]`, `["id","password","hunter22"]`, `["X-Api-Key",'`+key+`']`, `"X-Api-Key","`+key+`"`, `["X-Request-Id","`+key+`"]`, `["password",hunter22]`,
		`ds.setPassword("<hunter22>")`, `b.password("<hunter22>")`, `withToken("<`+key+`>")`, `getPassword("hunter22")`, `password("hunter22")`, `u.findPassword("hunter22")`,
		`password = "x" -> "hunter22"`, `f() -> "hunter22"`,
		`{"password":{"sensitive":true,"value":"<hunter22>"}}`, `{"password":{"type":"string"},"user":{"value":"hunter22"}}`, `{"user":{"value":"hunter22"}}`,
		// secrets on the line after the name
		"password:\n<hunter22>\n", "Password:\r\n\r\n    <hunter22>\r\n", "password: |\n  <hunter22>\n", "password: >-\n    <hunter22>", "api_key:\n  <"+key+">\n",
		"password:\n  type1: string\n", "password:\n  hunter22 and more\n", "password:\n- hunter22\n", "password =\n  hunter22\n", "if password:\n    user1=x2\n", "password: |\n", "secret:\n  name-of-it-1\n", "password:"+strings.Repeat("\n", 60)+"hunter22",
		// bold, coloured or full-width text, and other alphabets
		"**Password:** <hunter22>", "**Password**: `<hunter22>`", "password: \x1b[1;32m<hunter22>\x1b[0m", "password：<hunter22>", "пароль: <hunter22>", "密码：<hunter22>", "パスワード: <hunter22>", "senha=<hunter22>", "слово: hunter22",
		"DB_PASSWORD=<correcthorse>", "DB_PASSWORD: <correcthorse>", `DB_PASSWORD="<correcthorse>"`, "DB_PASSWORD=required", "DB_PASSWORD=conf.password", "DB_PASSWORD=short", "DB_PASSWORD = correcthorse", "PASSWORD: correcthorse", "password=correcthorse",
		"password=<$ecret99!>", "password=$SECRET99", "password=$secret!",
		"https://discord.com/api/webhooks/<123456789012345678/"+key+">", "https://api.telegram.org/bot<123456789:"+key+">", "bot<1234567890:AAikEAvstqVVPqzPptEJQzhkPkenG5ZFJoC>", "robot1234567890:AAikEAvstqVVPqzPptEJQzhkPkenG5ZFJoC", "https://discord.com/api/webhooks/123",
	)
	assertMarked(t, "secret", "DB_PASSWORD=DB_PASSWORD", "DB_PASSWORD=<hunter22>", `"invalid_password": "Ugyldig kode"`, `forgot_password = "Kode 22 a"`, `"password": "Passord"`, "emit(EVENT_PASSWORD, code)", `emit(event_PASSWORD, "hunter22")`, "Passwords must contain:\n\neight\n", "Your password:\n\nhunter22 or more\n")
	assertMarked(t, "url_credentials", "https://bob:REPLACE_WITH_PASSWORD@h/")
	assertMarked(t, "url_credentials", "sqlplus <scott/hunter22>@//db/x", "jdbc:oracle:thin:<scott/hunter22>@db:1521", "user/hunter22@x.1", "sqlplus scott@db", "curl -u <admin:correcthorse> x", "curl --user <admin:correcthorse> x", "curl -u user:password x", "curl -u admin:$PW x", "curl x; su -u bob:correcthorse", "curl -u<admin:hunter22> x", "curl --user=<admin:hunter22> x", "curl --proxy-user <a:hunter22> x")
	assertMarked(t, "authorization", `("Cookie", "sid=<`+key+`>")`, `["Authorization","Token <`+key+`>"]`, `["Authorization","none"]`)
	assertMarked(t, "jwt", "<eyJhbGciOiJIUzI1NiJ9\n.eyJzdWIiOiIxMjM0NTY3ODkwIn0\n."+key+">", "<eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx\nMjM0NTY3ODkwIn0.aB3dE5fG7hI9jK1\n1M3nO5pQ7rS9>\n")
	assertMarked(t, "private_key", "  1\t<-----BEGIN RSA PRIVATE KEY-----\n  2\tMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj\n  3\tAgEA>")
}

// An empty result means that the input must not change.
func TestSecretInNameValuePairIsRedactedInJSON(t *testing.T) {
	t.Parallel()
	const key = "aB3dE5fG7hI9jK1lM3nO5pQ7rS9"
	for in, want := range map[string]string{
		`{"h":[["X-Api-Key", "` + key + `"],["Accept","x/y"]]}`: `{"h":[["X-Api-Key", "[REDACTED:secret:1]"],["Accept","x/y"]]}`,
		`["DB_PASSWORD","hunter22"]`:                            `["DB_PASSWORD","[REDACTED:secret:1]"]`,
		`["Cookie","a=b; sid=` + key + `"]`:                     `["Cookie","a=b; sid=[REDACTED:authorization:1]"]`,
		`{"required":["password","username"]}`:                  "",
		`{"db_password":{"type":"string","value":"hunter22"}}`:  `{"db_password":{"type":"string","value":"[REDACTED:secret:1]"}}`,
		`{"password":{"a":{}},"value":"hunter22"}`:              "",
		`{"password":{"value":"read about it here at length"}}`: "",
		`["password","hunter22","x"]`:                           "",
		`["id","password","hunter22"]`:                          "",
		`{"password":[],"x":["hunter22"]}`:                      "",
		`[["password"],"hunter22"]`:                             "",
	} {
		if want == "" {
			want = in
		}
		if got := string(redact.New(true).JSON(nil, []byte(in))); got != want || !json.Valid([]byte(got)) {
			t.Errorf("JSON(%s) = %s, want %s (valid JSON)", in, got, want)
		}
	}
}

func TestEncodedAndTypographicCharactersAreRead(t *testing.T) {
	t.Parallel()
	const key = "aB3dE5fG7hI9jK1lM3nO5pQ7rS9"
	assertMarked(t, "secret", "q=password%3D<hunter22>%26x%3D1", "password%3d<hunter22>", "u=%3Fapi_key%3D<"+key+">%26b", "%7B%22password%22%3A%22<hunter22>%22%7D", "x%253Ftoken%253D<"+key+">", "password%3", "passwords%3Dhunter22")
	assertMarked(t, "authorization", "Authorization%3A%20Bearer%20<"+key+">")
	assertMarked(t, "url_credentials", "https%3A%2F%2F<admin%3Ahunter22>%40db.example.com", "https://<admin:p%40ss%2Fw0rd>@host/x")
	for _, blank := range []string{"\u00a0", "\u202f", "\u2009", "\u2007", "\u3000", "."} {
		join := func(text string) string { return strings.ReplaceAll(text, "_", blank) }
		assertMarked(t, "card", join("pay <4111_1111_1111_1111> now"))
		assertMarked(t, "iban", join("<DE89_3704_0044_0532_0130_00>"))
		assertMarked(t, "phone", join("<+33_6_12_34_56_78>"), join("tel. <01_23_45_67_89>"))
		if blank != "." {
			assertMarked(t, "ssn", join("ssn <078_05_1120>"))
		}
	}
	for _, hyphen := range []string{"\u2010", "\u2011", "\u2013"} {
		assertMarked(t, "phone", "call <415"+hyphen+"555"+hyphen+"0100>")
		assertMarked(t, "ssn", "<078"+hyphen+"05"+hyphen+"1120>")
	}
	assertMarked(t, "email", "<bob＠example.com>", "<bob%40example.com>")
	assertMarked(t, "card", "<４１１１１１１１１１１１１１１１>", "4111\u20141111\u20141111\u20141111")
	if got := redact.New(true).Text("DE89\u00a03704\u00a00044\u00a00532\u00a00130\u00a000 DE89370400440532013000"); got != "[REDACTED:iban:1] [REDACTED:iban:1]" {
		t.Errorf("one IBAN in two spellings: Text = %q, want [REDACTED:iban:1] twice", got)
	}
	for _, in := range []string{`{"q":"pay 4111\u00a01111\u00a01111\u00a01111 and password%3Dhunter22"}`, `{"a":"{\"q\":\"pay 4111\\u00a01111\\u00a01111\\u00a01111 and password%3Dhunter22\"}"}`} {
		got := string(redact.New(true).JSON(nil, []byte(in)))
		if want := "pay [REDACTED:card:1] and password%3D[REDACTED:secret:1]"; !strings.Contains(got, want) || !json.Valid([]byte(got)) {
			t.Errorf("JSON(%s) = %s, want valid JSON with %q", in, got, want)
		}
	}
}

func TestTruncatedTextRedactsPartialValues(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"the password is hunter2", "password:\nhunter2", "password%3Dhunter2", "machine h login bob password hunter2", "pay 4111\u00a01111\u00a01111\u00a011", "pay 4111.1111.11", "DE89\u202f3704\u202f0044"} {
		if got := redact.New(true).TruncatedText(text); strings.Contains(got, "hunter") || strings.Contains(got, "1111") || strings.Contains(got, "3704") {
			t.Errorf("TruncatedText(%q) = %q, want no part of the value", text, got)
		}
	}
}

func TestCredentialPlaceholdersAreKept(t *testing.T) {
	for _, text := range []string{"curl -u <user:password> https://h.example/x", "curl -u \"${A:-${A1}}:${B:-${B1}}\" x"} {
		if got := redact.New(true).Text(text); got != text {
			t.Errorf("Text(%q) = %q, want it unchanged", text, got)
		}
	}
}
