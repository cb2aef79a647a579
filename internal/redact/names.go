package redact

import (
	"bytes"
	"strings"
)

type keyClass uint8

const (
	noClass       keyClass = iota
	passwordClass          // accepts short values
	secretClass            // values must look random
	keyNameClass           // name ends in "key"; values must look random and not like an id
	bareKeyClass           // the name "key"; values also need both cases and digits
	awsClass
	azureClass
	basicClass      // user:password in base64
	seedClass       // a crypto wallet's seed words
	walletClass     // an Ethereum private key; other values of such names are addresses
	routingKeyClass // a PagerDuty key; a message broker's routing keys are not secret
	headerClass     // such as Authorization; some words in the value may be credentials
	phoneClass
	ssnClass
	orderClass // an order number, not a card number
)

func (c keyClass) isSecret() bool { return c >= passwordClass && c <= headerClass }

func (c keyClass) kind() kind {
	switch c { //nolint:exhaustive // any other class is a plain secret
	case awsClass:
		return awsKey
	case azureClass:
		return azureKey
	case basicClass:
		return authorization
	default:
		return secret
	}
}

// classifyKey is classifyWord for a quoted key. As a key, "pass" means a password, and not a test result as in prose.
func classifyKey(key []byte) keyClass {
	if len(key) == 4 && startsFold(key, 0, "pass") {
		return passwordClass
	}
	return classifyWord(key)
}

// classifyWord classifies a name such as DB_PASSWORD, clientSecret or x-api-key by its end.
func classifyWord(w []byte) keyClass {
	const maxLen = 32
	for len(w) > 2 && isDigit(w[len(w)-1]) { // PASSWORD2
		w = w[:len(w)-1]
	}
	if len(w) > 2 && w[len(w)-1] == '_' { // PASSWORD_2
		w = w[:len(w)-1]
	}
	if len(w) < 2 || !mayEndName(w[len(w)-1]) || isLetter(w[len(w)-2]) && !nameEndings.tails.match(w, len(w)) {
		return noClass
	}
	var buf [maxLen]byte
	i := maxLen
	for j := len(w) - 1; j >= 0 && i > 0; j-- {
		if c := w[j]; c != '_' && c != '-' && c != '.' && c != ' ' {
			i--
			buf[i] = lower(c)
		}
	}
	class := classifyName(buf[i:])
	if class == passwordClass && labelsPassword(buf[i:]) {
		return noClass
	}
	return class
}

// labelsPassword reports whether a lower-case name is for a message about passwords, such as forgotpassword.
func labelsPassword(name []byte) bool {
	for _, word := range [...]string{"forgot", "invalid", "incorrect", "wrong", "missing", "lost", "toggle", "show", "hide", "validate", "expired"} {
		if len(name) > len(word) && (string(name[:len(word)]) == word || word == "forgot" && bytes.Contains(name, []byte(word))) {
			return true
		}
	}
	return false
}

// ending is a text with which names end, such as "password" in DB_PASSWORD, and the class of such names.
type ending struct {
	text          string
	class         keyClass
	isWholeName   bool // the name must equal text
	fourthFromEnd byte // compared first, because it excludes most names; 0 for a shorter text
}

type endings struct {
	byLast      [256][]ending
	tails       nameTails // all names that have a class
	secretTails nameTails // all secret names
}

// nameTails has the last three letters of names: nameTails[last][second last] has one bit for each possible third-last
// letter.
type nameTails [alphabetLen][alphabetLen]uint32

func (t *nameTails) add(name string) {
	n := len(name)
	third := uint32(1<<alphabetLen - 1) // a name with two letters
	if n > 2 {
		third = 1 << (name[n-3] - 'a')
	}
	t[name[n-1]-'a'][name[n-2]-'a'] |= third
}

// match reports whether a name can end at end. The test is cheap, and excludes most names in code.
func (t *nameTails) match(s []byte, end int) bool {
	if end < 2 {
		return false
	}
	last, secondLast := (s[end-1]|0x20)-'a', (s[end-2]|0x20)-'a'
	if last >= alphabetLen || secondLast >= alphabetLen {
		return false
	}
	letterBits := t[last][secondLast]
	third := end - len("_id")
	if third > 0 && (s[third] == '_' || s[third] == '-' || s[third] == '.') {
		third--
	}
	if third >= 0 && letterBits != 0 {
		if letter := (s[third] | 0x20) - 'a'; letter < alphabetLen {
			return letterBits>>letter&1 != 0
		}
	}
	return letterBits != 0
}

//nolint:gochecknoglobals // written once here, read only
var nameEndings = func() (t endings) {
	for _, row := range []struct {
		class keyClass
		names string // the first matching row decides; = means that the whole name must match
	}{
		{noClass, "=pass bypass compass"},
		{routingKeyClass, "routingkey"},
		{walletClass, "=accounts wallet privatekeytoaccount"},
		{noClass, "publickey publickeytoken pubkey primarykey foreignkey partitionkey cachekey sortkey rowkey objectkey s3key idempotencykey translationkey"},
		{noClass, "hotkey monkey turkey donkey whiskey jockey hockey i18nkey messagekey msgkey publishablekey sitekey hostkey hashkey rangekey"},
		{noClass, "dedupkey uniquekey indexkey fieldkey propkey mapkey groupkey columnkey eventkey statekey querykey lookupkey filekey pathkey datakey shortcutkey"},
		{passwordClass, "password passwd pwd pass passphrase passcode passwort senha contrasena wachtwoord motdepasse =passe psk requirepass masterauth =pw rootpw adminpw dbpw userpw kennwort =clave =heslo =parola =salasana =sifre passord kodeord adgangskode lozinka =senord =sandi =mdp"},
		{passwordClass, "passwordprod passworddev passwordold passwordnew pswd passwrd"},
		{awsClass, "secretaccesskey awssecretkey awssessiontoken"},
		{azureClass, "accountkey sharedaccesskey subscriptionkey azureapikey azureopenaikey azurekey =sig"},
		{basicClass, "=auth basicauth"},
		{headerClass, "authorization cookie"},
		{secretClass, "credential credentials secret token =jeton apikey accesskey secretkey privatekey"},
		{secretClass, "authkey encryptionkey signingkey masterkey sessionkey secretkeybase signature"},
		{secretClass, "=gitlabsession =jsessionid =phpsessid =aspnetsessionid tokenprod tokendev secretprod secretdev apikeyprod apikeydev tokenstring tokenvalue secretvalue secretstring creds =bearer =totp tokens secrets apikeys accesskeys =secretid instrumentationkey licensekey integrationkey sonarlogin keyseed consumerkey bearertoken oauthbearer oauth2bearer githubpat gitlabpat azurepat adopat asanapat jirapat confluencepat bitbucketpat devopspat devopsextpat"},
		{seedClass, "mnemonic seedphrase recoveryphrase secretphrase mnemonicphrase seedwords recoverywords =seed"},
		{bareKeyClass, "=key"},
		{keyNameClass, "key salt =encrypt"},
		{ssnClass, "socialsecurity socialsecuritynumber =ssn userssn customerssn"},
		{orderClass, "orderid ordernumber orderno invoiceid invoicenumber transactionid trackingid trackingnumber ticketid customerid shipmentid =order"},
		{phoneClass, "phone mobile phonenumber mobilenumber contactnumber =tel =cell =fax =msisdn contactphone phoneno mobileno telephone"},
	} {
		for name := range strings.FieldsSeq(row.names) {
			text, whole := strings.CutPrefix(name, "=")
			e := ending{text: text, class: row.class, isWholeName: whole}
			if len(text) > 3 {
				e.fourthFromEnd = text[len(text)-4]
			}
			last := text[len(text)-1]
			t.byLast[last] = append(t.byLast[last], e)
			if row.class != noClass {
				t.tails.add(text)
			}
			if row.class.isSecret() {
				t.secretTails.add(text)
			}
		}
	}
	for _, end := range [...]string{"ssel", "api", "ifre"} { // Schlüssel, clé API, şifre; see classifyForeignLabel
		t.secretTails.add(end)
	}
	return t
}()

func classifyName(n []byte) keyClass {
	fourth := byte(0)
	if len(n) > 3 {
		fourth = n[len(n)-4]
	}
	for _, e := range nameEndings.byLast[n[len(n)-1]] {
		if e.fourthFromEnd != 0 && e.fourthFromEnd != fourth {
			continue
		}
		if len(n) >= len(e.text) && string(n[len(n)-len(e.text):]) == e.text && (!e.isWholeName || len(n) == len(e.text)) {
			return e.class
		}
	}
	return noClass
}

// mayEndSecretName reports whether a secret's name can end at end, judging by the last three letters.
func mayEndSecretName(s []byte, end int) bool { return nameEndings.secretTails.match(s, end) }

// mayEndName reports whether a name with a keyClass can end in b. The test is cheap, and excludes most names.
func mayEndName(b byte) bool { return nameEndings.byLast[b|0x20] != nil || isDigit(b) }
