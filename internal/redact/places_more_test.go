package redact_test

import "testing"

// In these texts, < and > mark a value that must be redacted. A text without the marks must stay unchanged.
func TestValuesInScriptsAndSentencesAreRedacted(t *testing.T) {
	t.Parallel()
	const key = "aB3dE5fG7hI9jK1lM3nO5pQ7rS9"
	assertMarked(t, "secret",
		`page.getByLabel('Password').fill('<hunter22>')`, `page.fill('#password', '<hunter22>')`, `find_element(By.ID, "passwd").send_keys("<hunter22>")`, `get('input[name=password]').type('<hunter22>')`,
		`getByLabel('Password').fill(hunter22)`, `getByLabel('User').fill('hunter22')`, `fill('password', 'hunter22', 'x')`,
		"username bob password 7 <Hunter22>", "password 8 letters", "enable secret 5 <"+key+">",
		"$ cat /run/secrets/api_token\n<"+key+">\n", "$ pass show work/api-token\n<"+key+">\n", "$ cat api_token.txt\n"+key, "$ ls api_token\n"+key[:3]+" and more\n",
		"run it with DB_PASSWORD=<Kx9vq&Lm42pt> now", "use DB_PASSWORD=<Kx9vq)Lm42pt>", "use DB_PASSWORD=<Kx9vq;Lm42pt>.", "use PGPASSWORD=<Kx9vq[Lm42>", "my password is <Tr0ub4dor&3>",
		"password <Winter2024&Summer>", "f(password=args[0])", "connect(password=<pass12>,host=h2)", "open https://h/?password=<abc123>&b", "use PASSWORD=<pass12>&&ls", "use PASSWORD=<pass12>;x=1",
		"use MY_API_KEY=<Kx9vqLm42ptRz>", "api_key=getKey2Value", "https://h/?api_key=<Kx9vqLm42ptRz>&user=1",
		"the pw is <cobaltGlacier56>", "guest wifi, pw <cobaltGlacier56>", "the pass is <gravel-raven-dolphin-kettle>", "pw of the lab", "the pass is complete", "pwd is /home/u1", "the pass is run2",
		"le mot de passe de la base est <hunter22>", "la contraseña del panel es <hunter22>", "A senha do roteador é <hunter22>, anota", "le mot de passe, de la base, est hunter22", "le mot de passe oublié est hunter22",
		"Mein altes Passwort war <Wolke_1927#> und weg", "Passwort war hunter22", "the pin/password was <4nch0r!143>, all is fine",
		"Der Token für die Prüfung: <"+key+">", "name=\"api.sharedSecret\" type=\"String\" value=\"<"+key+">\"", "name=\"requestId\" type=\"String\" value=\""+key+"\"",
		"new PDO('mysql:host=h;dbname=b', 'bob', '<hunter22>')", "SECRET_KEY = '<django-insecure-o^az+tftqpk(vhzy*q1%la(234>'", "TOKEN = '^(?:[a-z0-9]+[A-Z]|[!@#$%^&*]{4,}|hunter22)$'", "SECRET_KEY = 'see (section 1), then $HOME/x *twice*'",
		"the master_key: !!binary |\n  <BUKTLAwwtNSBh1UkfY+7DLr+2K6rLcYmnJoEqlGo1UY=>\n", "consul agent -encrypt=</icUIDhFbdo+m30WFYfdW5STzegl3PwCVPu1UYs64RU=>", "-encrypt=true",
		"gh secret set NPM -b \"<"+key+">\"", "git checkout -b "+key, "public key token in use: PublicKeyToken=b77a5c561934e089",
	)
	assertMarked(t, "phone", "<(03) 9708 4003>", "<(0161) 496 0123>", "<(11) 97448-5713>", "(11) 7448-571", "(12) 34567-8901", "<07832 621345>", "<07832 621 345>", "07832 6213456", "<021-65975735>", "<0571-8765432>", "001-65975735", "order 021-65975735",
		"<04.42.30.93.44>", "04.42.30.93.44.5", "4.42.30.93.44", "Herr Lorenz (<0221 899701>)", "f(0221 899701)", "拨打办公室 <(021) 5432 1098>")
	assertMarked(t, "url_credentials", "postgres://USER:PASSWORD@HOST/DB", "postgres://<bob:hunter22>@h/d")
	assertMarked(t, "card", "0010: 0300 3e00 0100 4111 1111 1111 1111", "card <4111 1111 1111 1111>")
}
