package redact

// Placeholder starts every placeholder. No match extends over a placeholder.
const Placeholder = "[REDACTED:"

type kind uint8

const (
	noKind kind = iota
	email
	phone
	card
	iban
	ssn
	ip
	anthropicKey // before openAIKey, because sk-ant- begins with openAIKey's prefix sk-
	openAIKey
	awsKey
	githubToken
	gitlabToken
	slackToken
	stripeKey
	googleKey
	azureKey
	npmToken
	pypiToken
	huggingFaceToken
	sendgridKey
	twilioKey
	jwt
	privateKey
	authorization
	urlCredentials
	secret
	fragment
	kindCount
)

type kindRow struct {
	name        string // used in placeholders, counts and metrics
	description string // for the documentation
	personal    bool   // personal data, which not every Redactor replaces; see New
	examples    []example
	anchors     []anchor
	prefixes    []prefix
}

// example is a text and the redacted form. An empty form means no change.
type example struct{ in, out string }

// String returns the kind's name.
func (k kind) String() string { return kindNames[k] }

//nolint:gochecknoglobals // written once here, read only
var kindNames = func() (out [kindCount]string) {
	for k, row := range kindTable() {
		out[k] = row.name
	}
	return out
}()

// kindTable lists all redacted kinds. A new kind needs a constant above, a row here, and examples.
func kindTable() [kindCount]kindRow {
	t := [kindCount]kindRow{noKind: {name: "none"}, fragment: {
		name: "cut", description: "the last word of a text that was cut, if the word may be the start of another kind",
	}}
	addPersonalKinds(&t)
	addVendorKinds(&t)
	addMoreVendorKinds(&t)
	addHeaderKinds(&t)
	addOtherKinds(&t)
	return t
}

// addPersonalKinds adds the personal data rows. Their anchors are checked first, because the colon in an IP address
// must be checked before the colon in an assignment.
func addPersonalKinds(t *[kindCount]kindRow) {
	// Four kinds share the anchor for a digit run, so that the run is read once.
	run := anchor{name: "digits", bytes: digits, prev: isWordBoundary, next: anyOf(digits + ".-/ "), check: (*matcher).digitValue}
	local := func(b byte) bool { return byteClass[b]&localByte != 0 }
	isHex := func(b byte) bool { return byteClass[b]&hexByte != 0 }
	t[email] = kindRow{name: "email", description: "an address with a domain", personal: true, anchors: []anchor{
		{name: "@", bytes: "@", prev: local, next: func(b byte) bool { return isAlnum(b) || b >= 0x80 }, check: (*matcher).email},
	}, examples: emailExamples()}
	t[phone] = kindRow{name: "phone", description: "a number that begins with `+`, has the North American form, or follows a word such as `phone`", personal: true, anchors: []anchor{
		{name: "+, (", bytes: "+(", prev: isWordBoundary, next: isDigit, check: (*matcher).phone},
		run,
	}, examples: phoneExamples()}
	t[card] = kindRow{name: "card", description: "a number in the range and length of a payment card, with a correct check digit (Luhn)", personal: true, anchors: []anchor{run}, examples: []example{
		{"card 4111 1111 1111 1111 exp 12/27", "card [REDACTED:card:1] exp 12/27"},
		{"card 4111111111111112", ""}, // one wrong digit
		{"x := -4576982950128230565", ""},
	}}
	t[iban] = kindRow{name: "iban", description: "a country code with the right length and check digits (mod 97)", personal: true, anchors: []anchor{
		{name: "a country's digits", bytes: digits, prev: func(b byte) bool { return isUpper(b) || isLower(b) }, next: isDigit, check: (*matcher).iban},
	}, examples: []example{
		{"to DE89 3704 0044 0532 0130 00 now", "to [REDACTED:iban:1] now"},
		{"DE88370400440532013000", ""}, // one wrong digit
	}}
	t[ssn] = kindRow{name: "ssn", description: "3-2-4 digits in the issued ranges; without dashes only after a word such as `ssn`", personal: true, anchors: []anchor{run}, examples: []example{
		{"ssn 078-05-1120", "ssn [REDACTED:ssn:1]"},
		{"550e8400-e29b-41d4-a716-446655440000", ""},
	}}
	t[ip] = kindRow{name: "ip", description: "an IPv4 or IPv6 address, except loopback addresses, networks such as 10.2.0.0/16, masks and version numbers", personal: true, anchors: []anchor{
		{
			name: "groups of hex", bytes: ":", prev: func(b byte) bool { return isWordBoundary(b) || isHex(b) },
			next: func(b byte) bool { return b == ':' || isHex(b) }, check: (*matcher).ipv6,
		}, run,
	}, examples: ipExamples()}
}

func emailExamples() []example {
	return []example{
		{"mail bob.smith+x@corp.example.com, please", "mail [REDACTED:email:1], please"},
		{"?q=bob%40example.com&x=1", "?q=[REDACTED:email:1]&x=1"},
		{"Ask bob@example.com.", "Ask [REDACTED:email:1]."},
		{`{\"to\":\"bob\u0040example.com\"}`, `{\"to\":\"[REDACTED:email:1]\"}`},
		{`x\nbob@example.com\n`, `x\n[REDACTED:email:1]\n`},
		{"git@github.com:a/b.git", ""},
		{"logo@2x.png", ""},
		{"left-pad@1.3.0 and @types/node@18", ""},
	}
}

func phoneExamples() []example {
	return []example{
		{"+1 (415) 555-0100, (415) 555-0100, 415-555-0100", "[REDACTED:phone:1], [REDACTED:phone:2], [REDACTED:phone:2]"},
		{"555-123-4567 or 123-456-7890", "[REDACTED:phone:1] or [REDACTED:phone:2]"},
		{"+33 6 12 34 56 78, +44 (0)20 7946 0958, +49-30-901820", "[REDACTED:phone:1], [REDACTED:phone:2], [REDACTED:phone:3]"},
		{"My number is 415 555 0100, thanks", "My number is [REDACTED:phone:1], thanks"},
		{"tel. 030 901820 or 00493090182012", "tel. [REDACTED:phone:1] or 00493090182012"},
		{`"id":"call_1234567890123", call_0049309018 and call 0049309018`, `"id":"call_1234567890123", call_0049309018 and call [REDACTED:phone:1]`},
		{"300 415 555 0100 12 and 200  300 4000", ""},
		{"21:00:57 +1130 2010, m=+123.456789000", ""},
		{"2026-01-31 10:20:30 1700000000", ""},
	}
}

func ipExamples() []example {
	return []example{
		{"host 203.0.113.7:8080 and 10.1.2.3/24", "host [REDACTED:ip:1]:8080 and [REDACTED:ip:2]/24"},
		{"from 2001:db8::8a2e:370:7334 and ::1", "from [REDACTED:ip:1] and ::1"},
		{"127.0.0.1 0.0.0.0 1.2.3.4 v10.20.30.40 Chrome/120.0.12.9 1.10.20.30.40", ""},
		{"std::vec a::b 12:30:45 aa:bb:cc:dd:ee:ff", ""},
		{"see 31.7.8.1 and 2.5.4.10", ""},
	}
}

// Keys in examples are concatenated, so that secret scanners do not report this repository.
const (
	hex32   = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"
	alnum36 = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
)

func addVendorKinds(t *[kindCount]kindRow) {
	t[anthropicKey] = kindRow{name: "anthropic_key", description: "`sk-ant-`, with 16 bytes or more after `sk-`", examples: []example{
		{"sk-" + "ant-api03-" + alnum36, "[REDACTED:anthropic_key:1]"},
	}, prefixes: []prefix{{text: "sk-", bodyStart: "ant-", class: tokenByte, minBytes: 16, needsDigit: true}}}
	// CSS has classes such as sk-fading-circle, so a key needs a digit.
	t[openAIKey] = kindRow{name: "openai_key", description: "`sk-` and 16 bytes that include a digit", examples: []example{
		{"k=" + "sk-" + "proj-" + alnum36, "k=[REDACTED:openai_key:1]"},
		{"sk-fading-circle-before", ""},
	}, prefixes: []prefix{{text: "sk-", class: tokenByte, minBytes: 16, needsDigit: true}}}
	t[awsKey] = kindRow{name: "aws_key", description: "20 capitals and digits that begin with `AKIA`, `ASIA`, `ABIA`, `ACCA` or `A3T`; the value of a secret access key or a session token", examples: []example{
		{"id " + "AKIA" + "IOSFODNN7ABCDEFG" + ".", "id [REDACTED:aws_key:1]."},
		{"aws_secret_access_key = " + "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYzzzzzzKEY", "aws_secret_access_key = [REDACTED:aws_key:1]"},
	}, anchors: []anchor{{name: "AKIA", bytes: "A", prev: isWordBoundary, next: anyOf("KSBC3"), check: (*matcher).awsID, findsVendorKey: true}}}
	t[githubToken] = kindRow{name: "github_token", description: "`ghp_` and related prefixes, `github_pat_`", examples: []example{
		{"token=" + "ghp" + "_" + alnum36, "token=[REDACTED:github_token:1]"},
	}, prefixes: append(expandPrefix(prefix{class: alnumByte, minBytes: 20}, "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
		prefix{text: "github_pat_", class: tokenByte, minBytes: 20})}
	t[gitlabToken] = kindRow{name: "gitlab_token", description: "`glpat-` and related prefixes", examples: []example{
		{"PRIVATE-TOKEN: " + "glpat" + "-" + alnum36[:20], "PRIVATE-TOKEN: [REDACTED:gitlab_token:1]"},
	}, prefixes: expandPrefix(prefix{class: tokenByte, minBytes: 16}, "glpat-", "glcbt-", "glptt-", "gldt-", "glrt-", "glft-", "glsoat-", "glimt-", "glagent-", "glffct-", "glwt-")}
	t[slackToken] = kindRow{name: "slack_token", description: "`xoxb-` and related prefixes, `xapp-`; the path of a webhook", examples: []example{
		{"xox" + "b-123456789012-" + alnum36, "[REDACTED:slack_token:1]"},
		{"https://hooks.slack.com/services/" + "T0A1B2C3D/B4E5F6G7H/" + alnum36[:24], "https://hooks.slack.com/services/[REDACTED:slack_token:1]"},
	}, anchors: []anchor{urlAnchor()}, prefixes: append(expandPrefix(prefix{class: tokenByte, minBytes: 12}, "xoxa-", "xoxb-", "xoxc-", "xoxd-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xoxx-"),
		prefix{text: "xapp-", class: tokenByte, minBytes: 16})}
	t[stripeKey] = kindRow{name: "stripe_key", description: "`sk_live_`, `rk_live_`, `sk_test_`, `rk_test_`, `whsec_`", examples: []example{
		{"sk" + "_live_" + alnum36, "[REDACTED:stripe_key:1]"},
	}, prefixes: append(expandPrefix(prefix{class: alnumByte, minBytes: 16}, "sk_test_", "rk_test_", "sk_live_", "rk_live_", "sk_prod_", "rk_prod_"),
		prefix{text: "whsec_", class: base64Byte, minBytes: 20})}
	t[googleKey] = kindRow{
		name: "google_key", description: "`AIza` and 30 bytes; `GOCSPX-` or `ya29.` and 20 bytes; `AQ.` and 30 bytes", examples: []example{
			{"key=" + "AI" + "za" + alnum36[:35], "key=[REDACTED:google_key:1]"},
		}, prefixes: []prefix{{text: "AIza", class: tokenByte, minBytes: 30}, {text: "GOCSPX-", class: tokenByte, minBytes: 20}, {text: "ya29.", class: tokenByte, minBytes: 20}, {text: "AQ.", class: tokenByte, minBytes: 30, needsDigit: true}},
	}
}

func addMoreVendorKinds(t *[kindCount]kindRow) {
	t[azureKey] = kindRow{name: "azure_key", description: "a secret that contains `Q~`; 84 letters and digits that contain `JQQJ99`; the value of an account key or a signature", examples: []example{
		{"AccountName=x;AccountKey=Ab1/Cd2+Ef3gHi4jKl5mNo6pQr7sTu8v==;End", "AccountName=x;AccountKey=[REDACTED:azure_key:1];End"},
		{"https://x.blob.example/c?sv=2024&sig=a1B2c3D4%2Fe5F6g7H8%3D&se=1", "https://x.blob.example/c?sv=2024&sig=[REDACTED:azure_key:1]&se=1"},
		{"id abc8" + "Q~" + alnum36[:34], "id [REDACTED:azure_key:1]"},
		{"pat " + alnum36 + alnum36[:16] + "JQQ" + "J99" + alnum36[:26], "pat [REDACTED:azure_key:1]"},
	}, anchors: []anchor{
		{name: "Q~", bytes: "~", prev: anyOf("Q"), next: isKeyByte, check: (*matcher).azureSecret},
		{name: "QJ", bytes: "J", prev: anyOf("Q"), next: anyOf("9"), check: (*matcher).azureServiceKey},
	}}
	t[npmToken] = kindRow{name: "npm_token", description: "`npm_` and 24 bytes", examples: []example{
		{"npm" + "_" + alnum36, "[REDACTED:npm_token:1]"},
	}, prefixes: []prefix{{text: "npm_", class: alnumByte, minBytes: 24}}}
	t[pypiToken] = kindRow{name: "pypi_token", description: "`pypi-AgE`, with 16 bytes or more after `pypi-`; `pypi-` and 50 bytes", examples: []example{
		{"pypi" + "-AgEIcHlwaS5vcmc" + alnum36, "[REDACTED:pypi_token:1]"},
		{"pypi-attestations-and-publishers is a package", ""},
	}, prefixes: []prefix{{text: "pypi-", bodyStart: "AgE", class: tokenByte, minBytes: 16}, {text: "pypi-", class: tokenByte, minBytes: 50}}}
	t[huggingFaceToken] = kindRow{name: "huggingface_token", description: "`hf_` or `api_org_` and 20 bytes", examples: []example{
		{"hf" + "_" + alnum36, "[REDACTED:huggingface_token:1]"},
	}, prefixes: expandPrefix(prefix{class: alnumByte, minBytes: 20}, "hf_", "api_org_")}
	t[sendgridKey] = kindRow{name: "sendgrid_key", description: "`SG.` and two 16-byte parts", examples: []example{
		{"SG" + "." + alnum36[:22] + "." + alnum36, "[REDACTED:sendgrid_key:1]"},
	}, anchors: []anchor{{name: "SG.", bytes: "S", prev: isWordBoundary, next: anyOf("G"), check: (*matcher).sendgrid, findsVendorKey: true}}}
	t[twilioKey] = kindRow{name: "twilio_key", description: "`AC` or `SK` and 32 hex digits", examples: []example{
		{"sid " + "AC" + hex32, "sid [REDACTED:twilio_key:1]"},
	}, anchors: []anchor{{name: "AC", bytes: "AS", prev: isWordBoundary, next: anyOf("CK"), check: (*matcher).twilio, findsVendorKey: true}}}
}

func urlAnchor() anchor {
	return anchor{name: "://", bytes: ":", prev: isAlnum, next: anyOf("/"), check: (*matcher).url}
}

func dashesAnchor() anchor {
	return anchor{name: "dashes", bytes: "-", prev: func(b byte) bool { return isWordBoundary(b) && b != '-' }, next: anyOf("-"), check: (*matcher).pemOrFlag}
}

func addHeaderKinds(t *[kindCount]kindRow) {
	t[jwt] = kindRow{name: "jwt", description: "two, three or five parts with dots between them; the first begins with `eyJ`", examples: []example{
		{"eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJ" + "zdWIiOiIxMjM0NTY3ODkwIn0." + alnum36, "[REDACTED:jwt:1]"},
	}, anchors: []anchor{{name: "eyJ", bytes: "J", prev: anyOf("y"), next: isKeyByte, check: (*matcher).jwt, findsVendorKey: true}}}
	t[privateKey] = kindRow{name: "private_key", description: "a PEM block with a body, or its base64 form; the private lines of a PuTTY key", examples: []example{
		{"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nabc=\n-----END PRIVATE KEY-----\n", "[REDACTED:private_key:1]\n"},
		{"client-key-data: LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCk1JSUV2UUlCQURBTg==", "client-key-data: [REDACTED:private_key:1]"},
		{"certificate: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUV2UUlCQURBTg==", ""},
		{"Private-Lines: 1\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcw\nPrivate-MAC: 0a1b", "Private-Lines: 1\n[REDACTED:private_key:1]\nPrivate-MAC: 0a1b"},
		{"Private-Lines: 1\nPrivate-MAC: 0a1b", ""},
		{`strings.Contains(s, "-----BEGIN PRIVATE KEY-----")`, ""},
	}, anchors: []anchor{
		dashesAnchor(),
		{name: "LS0t", bytes: "L", prev: isWordBoundary, next: anyOf("S"), check: (*matcher).wrappedPEM},
		{name: "Private-Lines", bytes: "L", prev: anyOf("-"), next: anyOf("i"), check: (*matcher).putty},
	}}
	t[authorization] = kindRow{name: "authorization", description: "the value after `Bearer`; the value after `Basic` or `auth`, if the value decodes to `user:password`; any other random word in an Authorization or Cookie header", examples: []example{
		{"Authorization: Bearer abcdef0123456789", "Authorization: Bearer [REDACTED:authorization:1]"},
		{"authorization: basic dXNlcjpwYXNzd29yZA==", "authorization: basic [REDACTED:authorization:1]"},
		{"Cookie: theme=dark; sid=" + alnum36 + "; a=b", "Cookie: theme=dark; sid=[REDACTED:authorization:1]"},
		{`{"auth":"dXNlcjpwYXNzd29yZA=="}`, `{"auth":"[REDACTED:authorization:1]"}`},
		{"Authorization: Bearer $TOKEN", ""},
		{"Basic authentication is", ""},
	}, anchors: []anchor{{name: "Bearer", bytes: "Bb", prev: isWordBoundary, next: anyOf("eEaA"), check: (*matcher).authScheme}}}
}

func addOtherKinds(t *[kindCount]kindRow) {
	beforeSeparator := func(b byte) bool {
		return mayEndName(b) || b == 'I' || isQuote(b) || b == ' ' || b == ':' || b == '=' || b == '!' || b == ']' || b == '*' || b >= 0x80
	}
	t[urlCredentials] = kindRow{name: "url_credentials", description: "`user:password`, or a user name that looks random, before the host; `user:password` after `-u` or `--user`", examples: []example{
		{"postgres://app:s3cr3t@db:5432/x", "postgres://[REDACTED:url_credentials:1]@db:5432/x"},
		{"https://a1B2c3D4e5F6g7H8@host/x https://bob@host/x", "https://[REDACTED:url_credentials:1]@host/x https://bob@host/x"},
		{"curl -u admin:hunter22 https://host", "curl -u [REDACTED:url_credentials:1] https://host"},
		{"app:hunter22@tcp(db:3306)/x", "[REDACTED:url_credentials:1]@tcp(db:3306)/x"},
		{"postgres://app:${PW}@db/x", ""},
		{"curl -u admin:correcthorse h", "curl -u [REDACTED:url_credentials:1] h"},
		{"docker run -u 1000:1000 x; su -u bob:correcthorse", ""},
	}, anchors: []anchor{
		urlAnchor(), dashesAnchor(),
		{name: "-u", bytes: "-", prev: isWordBoundary, next: anyOf("u"), check: (*matcher).userFlag},
		{name: "@tcp", bytes: "@", prev: func(b byte) bool { return b > ' ' }, next: func(b byte) bool { return isAlnum(b) || b == '/' }, check: (*matcher).dataSource},
	}}
	t[secret] = kindRow{
		name: "secret", description: "the value of a name such as `password` or of a password flag; keys from about 130 other vendors and crypt(3) hashes, recognised by the prefix", examples: secretExamples(),
		anchors: []anchor{
			{name: "name:", bytes: ":", prev: beforeSeparator, next: func(b byte) bool { return b != ':' && b != '=' && b != '/' }, check: (*matcher).assignment},
			{name: "<name>", bytes: ">", prev: mayEndName, next: func(b byte) bool { return isKeyByte(b) || b == '\n' || b == '<' }, check: (*matcher).assignment},
			{name: "name=", bytes: "=", prev: func(b byte) bool { return beforeSeparator(b) || b == '?' || b == '+' || b == '.' }, next: func(b byte) bool { return b != '=' }, check: (*matcher).assignment},
			{name: "name(", bytes: "(", prev: mayEndName, next: isQuote, check: (*matcher).assignment},
			{name: "[name, value]", bytes: ",", prev: func(b byte) bool { return isQuote(b) || isUpper(b) }, next: func(b byte) bool { return b <= ' ' || isQuote(b) }, check: (*matcher).listItem},
			{name: "old -> new", bytes: ">", prev: anyOf("-"), next: anyOf(" "), check: (*matcher).arrowValue},
			{name: "→", bytes: "\xe2", prev: beforeSeparator, next: anyOf("\x86\x87\x9e"), check: (*matcher).typesetArrow},
			{name: "login key", bytes: "gu", prev: anyOf("oa"), next: anyOf("it"), check: (*matcher).loginKey},
			{name: "user / password, /rp", bytes: "/", prev: anyOf(" "), next: anyOf(" rRpPuUaAeEdD"), check: (*matcher).slash},
			{name: "name (remark):", bytes: ":-", prev: anyOf(" )"), next: anyOf(" "), check: (*matcher).valueAfterRemark},
			{name: "password", bytes: "sS", prev: anyOf("sS"), next: anyOf("wWpPcC_kK ,;|\t\r\n"), check: (*matcher).bareName},
			{name: "pwd", bytes: "wW", prev: anyOf("pP"), next: func(b byte) bool { return b == 'd' || b == 'D' || isWordBoundary(b) }, check: (*matcher).bareName},
			{name: "token, key, secret", bytes: "kKeEcC", prev: anyOf("oOkKeE"), next: anyOf("eEyYrR"), check: (*matcher).bareSecret},
			{name: "identified by", bytes: "yY", prev: anyOf("bB"), next: anyOf(" "), check: (*matcher).sqlPassword},
			{name: "host:port", bytes: ":", prev: isAlnum, next: anyOf(digits + "*"), check: (*matcher).pgpassValue},
			{name: "name, value", bytes: "vV", prev: isWordBoundary, next: anyOf("aA"), check: (*matcher).pairValue},
			{name: "-p, -a", bytes: "-", prev: anyOf(" "), next: anyOf("paPwksdNKbAX156U"), check: (*matcher).passwordFlag},
			{name: "| chpasswd, chpasswd <<<", bytes: "|<", prev: anyOf(" <"), next: func(b byte) bool { return b == ' ' || isQuote(b) }, check: (*matcher).inputPassword},
			{name: "add_user", bytes: "_", prev: anyOf("dea"), next: anyOf("up"), check: (*matcher).accountPassword},
			{name: "AUTH", bytes: "H", prev: anyOf("T"), next: anyOf(" "), check: (*matcher).redisAuth},
			{name: "<string>, <entry key=name>", bytes: ">", prev: func(b byte) bool { return b == 'g' || isQuote(b) }, next: isKeyByte, check: (*matcher).entryValue},
			{name: "is, in European languages", bytes: "ei\xc3", prev: anyOf(" "), next: anyOf("s\xa8\xa9"), check: (*matcher).foreignLink},
			{name: "lautet; is, in Asian languages", bytes: "u\xaf\x94\xba", prev: anyOf("a\x98\x81\x8a\xb8"), next: anyByte, check: (*matcher).foreignLink},
			{name: "SecureString", bytes: "-", prev: anyOf("o"), next: anyOf("S"), check: (*matcher).secureString},
			dashesAnchor(),
			{name: "part.part", bytes: ".", prev: isAlnum, next: isAlnum, check: (*matcher).dottedKey, findsVendorKey: true},
			{name: "bot:key", bytes: ":", prev: isDigit, next: anyOf("A"), check: (*matcher).botToken, findsVendorKey: true},
			{name: "app|secret", bytes: "|%", prev: isDigit, next: isAlnum, check: (*matcher).appToken, findsVendorKey: true},
			{name: "-us12, _mmk, NRAL", bytes: "skL", prev: anyOf("umA"), next: func(b byte) bool { return isDigit(b) || isWordBoundary(b) }, check: (*matcher).suffixedKey, findsVendorKey: true},
		},
		prefixes: furtherPrefixes(),
	}
}

func secretExamples() []example {
	return []example{
		{`password = "hunter2"`, `password = "[REDACTED:secret:1]"`},
		{"DB_PASSWORD=hunter2 run", "DB_PASSWORD=[REDACTED:secret:1] run"},
		{"  password: hunter2\n", "  password: [REDACTED:secret:1]\n"},
		{"<password>hunter22</password>", "<password>[REDACTED:secret:1]</password>"},
		{`{"name": "DB_PASSWORD", "value": "hunter2"}`, `{"name": "DB_PASSWORD", "value": "[REDACTED:secret:1]"}`},
		{"mysql --password hunter2 -u x", "mysql --password [REDACTED:secret:1] -u x"},
		{`{"cmd":"mysqldump -u root -phunter22 shop"}`, `{"cmd":"mysqldump -u root -p[REDACTED:secret:1] shop"}`},
		{"echo hunter22 | docker login --password-stdin", "echo [REDACTED:secret:1] | docker login --password-stdin"},
		{"echo 'root:hunter22' | chpasswd", "echo 'root:[REDACTED:secret:1]' | chpasswd"},
		{"> AUTH hunter22\nAUTH default hunter22\n", "> AUTH [REDACTED:secret:1]\nAUTH default [REDACTED:secret:1]\n"},
		{"root:$6$saltsalt$" + alnum36 + ":19000:0", "root:[REDACTED:secret:1]:19000:0"},
		{"<key>Password</key>\n<string>hunter22</string>", "<key>Password</key>\n<string>[REDACTED:secret:1]</string>"},
		{"sshpass -p 'hunter22' ssh bob@host", "sshpass -p '[REDACTED:secret:1]' ssh bob@host"},
		{"mysql -h 10.2.0.4 -u root -phunter22 shop", "mysql -h [REDACTED:ip:1] -u root -p[REDACTED:secret:1] shop"},
		{`schtasks /create /ru CORP\batch /rp hunter22`, `schtasks /create /ru CORP\batch /rp [REDACTED:secret:1]`},
		{`net use Z: \\fs\x /user:bob hunter22 /persistent:yes`, `net use Z: \\fs\x /user:bob [REDACTED:secret:1] /persistent:yes`},
		{"net user bob hunter22 /add", "net user bob [REDACTED:secret:1] /add"},
		{"net user bob /add; ls /rp hunter22", ""},
		{"lftp -u bob,hunter22 sftp://host", "lftp -u bob,[REDACTED:secret:1] sftp://host"},
		{"smbclient //fs/x -U 'bob%hunter22'", "smbclient //fs/x -U 'bob%[REDACTED:secret:1]'"},
		{"psql -U bob%hunter22", ""},
		{"mount -o username=bob,password=hunter.Two2,vers=3.0", "mount -o username=bob,password=[REDACTED:secret:1],vers=3.0"},
		{"the password was rotated, now Hunter22!x", "the password was rotated, now [REDACTED:secret:1]"},
		{`{"JSESSIONID": "` + hex32 + `"}`, `{"JSESSIONID": "[REDACTED:secret:1]"}`},
		{"rabbitmqctl add_user bob hunter22", "rabbitmqctl add_user bob [REDACTED:secret:1]"},
		{"vncpasswd -f <<< 'hunter22' > passwd", "vncpasswd -f <<< '[REDACTED:secret:1]' > passwd"},
		{"wc -c <<< 'hunter22'", ""},
		{`ssh-keygen -N "purple monkey dishwasher"`, `ssh-keygen -N "[REDACTED:secret:1]"`},
		{"openssl passwd -6 'hunter22'", "openssl passwd -6 '[REDACTED:secret:1]'"},
		{"redis-cli -h cache -a hunter22 ping", "redis-cli -h cache -a [REDACTED:secret:1] ping"},
		{"docker login -u bob -p hunter22 host", "docker login -u bob -p [REDACTED:secret:1] host"},
		{"mysql -u root -p shop && mkdir -p work/dir2", ""},
		{"cd mysql; cp -p hunter22 there", ""},
		{`setPassword("hunter22") getPassword("hunter23")`, `setPassword("[REDACTED:secret:1]") getPassword("hunter23")`},
		{`[["X-Api-Key", "` + alnum36 + `"]]`, `[["X-Api-Key", "[REDACTED:secret:1]"]]`},
		{`~ password = "hunter21" -> "hunter22"`, `~ password = "[REDACTED:secret:1]" -> "[REDACTED:secret:2]"`},
		{"hunter22 is the password", "[REDACTED:secret:1] is the password"},
		{"CREATE USER bob IDENTIFIED BY 'hunter22'", "CREATE USER bob IDENTIFIED BY '[REDACTED:secret:1]'"},
		{"db.example:5432:shop:bob:hunter22", "db.example:5432:shop:bob:[REDACTED:secret:1]"},
		{"?q=password%3Dhunter22%26x", "?q=password%3D[REDACTED:secret:1]%26x"},
		{`{"password":"hun\"ter2","x":1}`, `{"password":"[REDACTED:secret:1]","x":1}`},
		{
			"gsk" + "_" + alnum36 + " xai" + "-" + alnum36 + " shpat" + "_" + hex32,
			"[REDACTED:secret:1] [REDACTED:secret:2] [REDACTED:secret:3]",
		},
		{"the api token is " + alnum36, "the api token is [REDACTED:secret:1]"},
		{"API_TOKEN → " + alnum36, "API_TOKEN → [REDACTED:secret:1]"},
		{"token (staging): " + alnum36, "token (staging): [REDACTED:secret:1]"},
		{"vault login " + alnum36 + " snyk auth " + alnum36, "vault login [REDACTED:secret:1] snyk auth [REDACTED:secret:1]"},
		{"log in with bob / hunter22!", "log in with bob / [REDACTED:secret:1]"},
		{"my API key `" + alnum36 + "`", "my API key `[REDACTED:secret:1]`"},
		{"ENV APP_SECRET " + alnum36, "ENV APP_SECRET [REDACTED:secret:1]"},
		{"STRIPE_KEY=" + alnum36, "STRIPE_KEY=[REDACTED:secret:1]"},
		{"cache_key=" + alnum36, ""},
		{"DB_PASSWORD=a.b&C9,x", "DB_PASSWORD=[REDACTED:secret:1]"},
		{"password: \"2 blue cats\"", "password: \"[REDACTED:secret:1]\""},
		{"password: \"Enter 8 letters\"", ""},
		{"user,password\nbob,hunter22\nup,to\n", "user,password\nbob,[REDACTED:secret:1]\nup,to\n"},
		{"INSERT INTO u (name, api_token) VALUES ('bob', '" + alnum36 + "')", "INSERT INTO u (name, api_token) VALUES ('bob', '[REDACTED:secret:1]')"},
		{"bot 123456789:A" + alnum36, "bot [REDACTED:secret:1]"},
		{"id " + alnum36[:14] + ".atlasv1." + alnum36 + alnum36, "id [REDACTED:secret:1]"},
		{"id " + hex32 + "-us12 x", "id [REDACTED:secret:1] x"},
		{"le mot de passe est hunter22", "le mot de passe est [REDACTED:secret:1]"},
		{"密码是hunter22。", "密码是[REDACTED:secret:1]。"},
		{`ConvertTo-SecureString "hunter22"`, `ConvertTo-SecureString "[REDACTED:secret:1]"`},
		{`<entry key="token">` + alnum36 + `</entry>`, `<entry key="token">[REDACTED:secret:1]</entry>`},
		{`let password: string = "hunter22"`, `let password: string = "[REDACTED:secret:1]"`},
		{"env['DB_PASSWORD'] || 'hunter22'", "env['DB_PASSWORD'] || '[REDACTED:secret:1]'"},
		{"user,pwd\nbob,hunter22\n", "user,pwd\nbob,[REDACTED:secret:1]\n"},
		{"id v4.local." + alnum36 + " k2.secret." + alnum36 + " k4.public." + alnum36, "id [REDACTED:secret:1] [REDACTED:secret:2] k4.public." + alnum36},
		{"data-config=\"{&quot;password&quot;: &quot;Hunter2xx9&quot;}\"", "data-config=\"{&quot;password&quot;: &quot;[REDACTED:secret:1]&quot;}\""},
		{"password=3D\"Hunter2xx9\"", "password=3D\"[REDACTED:secret:1]\""},
		{`"password":["Ab12kk3", "Zx81kk2"]`, `"password":["[REDACTED:secret:1]", "[REDACTED:secret:2]"]`},
		{"app 123456789012345|" + alnum36, "app [REDACTED:secret:1]"},
		{"id scauth_abc12.d3f4.acc_a1b2c3d4e5." + alnum36, "id [REDACTED:secret:1]"},
		{"ID/PW: bob / hunter22", "ID/PW: bob / [REDACTED:secret:1]"},
		{"password := os.Getenv(\"X\")", ""},
		{"password: arn:aws:secretsmanager:r:1:secret:db1", ""},
		{"DB_PASSWORD=%DB_PASSWORD%", ""},
		{"--- PASS: TestA1_b2_c3_d4_e5 (0.00s)", ""},
		{`env("PWD=" + dir1 + "x")`, ""},
	}
}

func expandPrefix(template prefix, texts ...string) []prefix {
	out := make([]prefix, len(texts))
	for i, text := range texts {
		out[i] = template
		out[i].text = text
	}
	return out
}

const digits = "0123456789"
