package redact

import "strings"

const versionWords = "version ver v release build rel upgrade section chapter rfc oid firmware driver number"

const phoneWords = "phone phonenumber tel telefon telefono telefone telefoon telefonnummer telefonnr telefoonnummer mobile mobil mobilnummer mobiltelefon handy handynummer festnetz rufnummer " +
	"cell celular cellulare cellphone fax call calling sms whatsapp dial contact hotline landline msisdn gsm tlf téléphone tél telef teléfono móvil movil portable rückruf fon mob ligue appelez llámame llámanos chiamami durchwahl zentrale cel ext " +
	"callback ruf rufen rufe anruf anrufen natel bel bellen mobiel appeler appelle rappeler joindre joignable llamar llame llamad llama chiamare chiama chiamate ligar liga telemóvel zadzwoń dzwoń telefonu telefonem komórka kom volejte mobilu mobilnr telefonnr puhelin puh"

// Words that, before a number, show the number's kind.
//
//nolint:gochecknoglobals // read only
var (
	anyPhoneWords      = newWordList(phoneWords)
	tenDigitPhoneWords = newWordList(phoneWords + " my")
	contactWords       = newWordList("my our his her reach ring text me reception switchboard desk office support helpline assistance assistenza assistance accueil empfang sekretariat büro unter erreichbar") // before a number that begins like a phone number
	orderWords         = newWordList("order invoice transaction tracking ticket customer shipment booking reference ref receipt")
	partWords          = newWordList("part p/n pn sku item model catalog catalogue serial product order invoice")
	cardWords          = newWordList("card visa mastercard maestro amex pan")
	ssnWords           = newWordList("ssn social security")
	ipWords            = newWordList("ip ipv addr host hostname server client peer from remote address node nameserver dns gateway ping ssh agent interface listen bind")

	changeWords = newWordList("from upgrade upgraded upgrading update updated bump bumps bumped downgrade downgraded")
)

const alphabetLen = 26

type wordList [alphabetLen][]string

func newWordList(words string) *wordList {
	var l wordList
	for w := range strings.FieldsSeq(words) {
		l[w[0]-'a'] = append(l[w[0]-'a'], w)
	}
	return &l
}

func (l *wordList) has(word []byte) bool {
	if len(word) == 0 || lower(word[0])-'a' >= alphabetLen {
		return false
	}
	for _, w := range l[lower(word[0])-'a'] {
		if len(w) == len(word) && startsFold(word, 0, w) {
			return true
		}
	}
	return false
}

// hasWordBefore reports whether one of the words starts in the 24 bytes before i, on the same line. The search stops at
// a placeholder, because [REDACTED:phone:1] must not make the next number a phone number.
func (m *matcher) hasWordBefore(i int, words *wordList) bool {
	const window = 24
	s := m.text
	for j := i - 1; j >= max(m.lastEnd, i-window) && s[j] != '\n'; j-- {
		letter := lower(s[j]) - 'a'
		if letter >= alphabetLen || len(words[letter]) == 0 || !startsWord(s, j) && !(isUpper(s[j]) && isLower(s[j-1])) {
			continue
		}
		for _, w := range words[letter] {
			if startsFold(s, j, w) && mayEndWord(s, j+len(w)) {
				return true
			}
		}
	}
	return false
}

// mayEndWord reports whether a word can end at i, or continue with an ending such as s or a capital. So "from" matches,
// and "fromage" does not.
func mayEndWord(s []byte, i int) bool {
	c := byteAt(s, i)
	return !isLower(c) || c == 's' || startsWith(s, i, "ed") || startsWith(s, i, "ress") || startsWith(s, i, "ephone")
}
