package lesson

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// This file knows orders that no lesson gives, in the languages that models obey. Most lessons are
// English, so that the patterns for English are fine; in other languages a verb and a noun in one
// sentence suffice. Texts are compared without accents and in lower case.

// What the scan for orders says, a sentence each.
const (
	saysIgnore = "orders to ignore instructions or to take another role; a lesson says what to do in a task"
	saysSteal  = "orders to send secrets away; remove it"
	saysPipe   = "orders to run what was fetched from the network; remove it"
	saysHide   = "orders to hide something from the user; remove it"
)

// ordered names the orders that stand in a text.
func ordered(text string) []string {
	p := orders()
	plain := plainly(text)
	squeezed := skeleton(text)
	bare := unaccented(plain)
	var out []string
	if p.ignore.in(plain) || p.ignoreMore.in(plain) || p.ignoreAbroad.in(bare) || commands(p.ignoreSqueezed, squeezed) {
		out = append(out, saysIgnore)
	}
	if steals(plain) || steals(bare) || p.stealAbroad(bare) || commands(p.stealSqueezed, squeezed) {
		out = append(out, saysSteal)
	}
	if commands(p.pipe, plain) || commands(p.pipeMore, plain) {
		out = append(out, saysPipe)
	}
	if commands(p.hide, plain) || p.hideMore.in(plain) || p.hideAbroad.in(bare) {
		out = append(out, saysHide)
	}
	return out
}

// plainly is a text in lower case and compatibility forms, with single blanks.
func plainly(s string) string {
	return strings.Join(strings.Fields(strings.ToLower(norm.NFKC.String(s))), " ")
}

// unaccented drops accents, and takes what joins words for a blank.
func unaccented(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '_':
			return ' '
		case unicode.Is(unicode.Mn, r) && r < 0x0900: // beyond, marks are letters of their own
			return -1
		}
		return r
	}, norm.NFD.String(s))
}

// steals says whether the text orders to send secrets away. A key in a request's header is how one
// logs in, unless the sentence names an address.
func steals(plain string) bool {
	for _, sentence := range strings.FieldsFunc(plain, func(r rune) bool { return r == ';' || r == '!' || r == '?' || r == '\n' }) {
		header := strings.Contains(sentence, "header") && !strings.Contains(sentence, "://")
		if !header && (commands(orders().steal, sentence) || commands(orders().stealMore, sentence)) {
			return true
		}
	}
	return false
}

// abroad are the orders in other languages than English, and in spellings that only look like it.
type abroad struct {
	ignoreMore, ignoreAbroad, ignoreSqueezed *shape
	stealMore, stealSqueezed                 *shape
	stealVerb, stealNoun                     *regexp.Regexp
	stealTo, pipeMore, hideMore, hideAbroad  *shape
}

// abroadPattern compiles a pattern for texts in the decomposed form.
func abroadPattern(s string) *regexp.Regexp { return regexp.MustCompile(norm.NFD.String(s)) }

// shape is a pattern with words of which one stands in whatever it matches. Most lessons hold none
// of them: a directory of 5,000 is read six times faster for it.
type shape struct {
	pattern *regexp.Regexp
	words   []string // in lower case; abroad: or any letter beyond ASCII
	abroad  bool
}

func shaped(p *regexp.Regexp, words ...string) *shape { return &shape{pattern: p, words: words} }

// may says whether the pattern can match at all.
func (s *shape) may(text string) bool {
	return s.abroad && strings.IndexFunc(text, func(r rune) bool { return r >= 0x80 }) >= 0 ||
		slices.ContainsFunc(s.words, func(w string) bool { return strings.Contains(text, w) })
}

func (s *shape) in(text string) bool { return s.may(text) && s.pattern.MatchString(text) }

func (s *shape) all(text string) [][]int {
	if !s.may(text) {
		return nil
	}
	return s.pattern.FindAllStringIndex(text, -1)
}

// stealAbroad says whether a sentence has a verb of sending, a secret and an address.
func (a *abroad) stealAbroad(bare string) bool {
	for _, m := range a.stealTo.all(bare) {
		const reach = 160
		near := strings.ToValidUTF8(bare[max(0, m[0]-reach):min(len(bare), m[1]+reach)], "")
		if a.stealVerb.MatchString(near) && a.stealNoun.MatchString(near) {
			return true
		}
	}
	return false
}

func words(list string) []string { return strings.Split(list, "|") }

//nolint:gochecknoglobals // immutable, compiled at first use
var foreign = sync.OnceValue(func() *abroad {
	squeezed := func(words ...string) string {
		for i, w := range words {
			words[i] = regexp.QuoteMeta(skeleton(w))
		}
		return "(?:" + strings.Join(words, "|") + ")"
	}
	filler := squeezed("the", "all", "any", "my", "your", "of", "these", "every", "other", "and") + "{0,3}"
	near := func(verbs, nouns string) string {
		return "(?:" + verbs + `)[^.!?\n。]{0,60}(?:` + nouns + `)|(?:` + nouns + `)[^.!?\n。]{0,40}(?:` + verbs + ")"
	}
	return &abroad{
		ignoreMore: shaped(regexp.MustCompile(`\b(?:ignore|disregard|forget|override)\b.{0,20}\b(?:instructions?|prompts?|directives?)\b.{0,12}\b(?:above|before|earlier|you were given)\b`+
			`|\b(?:ignore|disregard|forget) (?:all |everything |whatever )?(?:of )?(?:the above|above|what stands above)(?:[.,;!]| and\b|$)|\bforget\b.{0,15}\b(?:you were told|you have been told|you learned|you were taught)\b|\b(?:do not|don't|stop|never|no longer) (?:follow|following|obey|obeying|heed)\b.{0,20}\b(?:system prompt|(?:previous|prior|earlier|your) (?:instructions|rules|guidelines))\b`+
			`|\byour (?:new|real|true|actual) (?:instructions?|orders?|role|goal) (?:is|are)\b|\bfrom now on,? you (?:are|will|must|shall|obey)\b|\bact as if you (?:had|have|were)\b.{0,15}\b(?:no|without|free|unrestricted)\b`+
			`|\b(?:user|operator|human) (?:has|have) (?:already )?(?:authori[sz]ed|approved|agreed to|allowed) (?:everything|anything|all)\b|\b(?:priority|precedence) (?:than|over) the (?:user|system|human|operator)(?:'s)? (?:request|instructions?|prompt|wish|words|message)`+
			`|\binstead of what the (?:user|human|operator) (?:asks?|asked|wants?|says?|said)\b|\bwhatever the (?:user|human|operator) (?:asks?|wants?|says?)\b`), words("ignore|disregard|forget|override|follow|obey|heed|your new|your real|your true|your actual|from now on|act as if|authori|approved|agreed to|allowed|priority|precedence|instead of what the|whatever the")...),
		ignoreAbroad: &shape{pattern: abroadPattern(near(`ignorier|vergiss|vergesst|missacht|ignorez|oublie|ne tiens pas compte|ne tenez pas compte|ignora\b|olvida|esquec|ignore\b|dimentica|negeer|vergeet|zignoruj|αγνοησ|ξεχασ|παραβλεψ|zapomnij|ignorera|glom\b|yok say|gormezden gel|unut\b|игнорир|забуд|ігнор|bo qua|quen\b|abaikan|lupakan`,
			`οδηγι|εντολ|anweisungen|vorgaben|system-?prompt|instruktionen|instructions (?:precedentes|ci-dessus)|consignes|instrucciones|instrucoes|istruzioni|instructies|instrukcje|polecenia|instruktioner|talimat|инструкци|указани|інструкці|вказівк|huong dan|instruksi|perintah`) +
			`|(?:忽略|无视|無視|忘记|忘記|不要遵守|不要遵循).{0,12}(?:之前|以上|先前|所有|上述|前面|全部|系统|系統).{0,12}(?:指令|指示|说明|說明|提示|规则|規則)` +
			`|(?:以前|これまで|今まで|上記|すべて|全て).{0,10}(?:指示|命令|プロンプト).{0,12}(?:無視|忘れ)` +
			`|(?:이전|모든|앞의|위의).{0,30}(?:지시|지침|명령).{0,30}(?:무시|잊)` +
			`|(?:تجاهل|انس).{0,20}(?:التعليمات|الاوامر|الأوامر)|(?:निर्देश|आदेश).{0,20}(?:अनदेखा|नज़रअंदाज|भूल)|(?:सभी|पिछले).{0,20}निर्देश.{0,20}(?:अनदेखा|भूल)`), abroad: true, words: words("anweisungen|vorgaben|prompt|instruktion|instructi|consignes|instrucc|instruco|istruzion|instrukc|polecenia|talimat|huong dan|instruksi|perintah")},
		ignoreSqueezed: shaped(regexp.MustCompile(squeezed("ignore", "disregard", "forget", "override", "bypass")+filler+
			squeezed("previous", "prior", "above", "earlier", "system", "your")+filler+squeezed("instruction", "prompt", "directive", "guideline")), skeleton("instruction"), skeleton("prompt"), skeleton("directive"), skeleton("guideline")),
		stealMore: shaped(regexp.MustCompile(`\b(?:append|include|add|put|write|embed)\b.{0,20}\b(?:api[ _-]?keys?|access tokens?|auth tokens?|passwords?|credentials?|private keys?)\b.{0,15}\b(?:to|in|into)\b (?:the |every |each |all |your )(?:commit|messages?|urls?|answer|reply|output|comment|issue|title|request|response)`+
			`|\b(?:env|printenv)\b\s*\|\s*(?:curl|wget|nc|ncat)\b|(?:~/\.aws|~/\.ssh|/etc/passwd|/etc/shadow|id_rsa|\.env\b).{0,60}\b(?:send|post|paste|upload|curl|forward|e-?mail)\b`), words("key|token|password|credential|env|~/.|/etc/|id_rsa")...),
		stealSqueezed: shaped(regexp.MustCompile(squeezed("send", "post", "upload", "forward", "leak", "exfiltrate")+filler+
			squeezed("api key", "access token", "password", "credentials", "secret", "private key")+squeezed("s")+"?"+squeezed("to https", "to http")), skeleton("to http")),
		stealVerb: abroadPattern(`\b(?:send|sende|sendet|schick|lade|ubermittle|envoie|envoyez|transmets|envia|enviar|envie|sube|manda|invia|carica|stuur|verstuur|wyslij|skicka|gonder|gui|kirim)|отправ|пошли|перешли|надішли|发送|上传|发到|發送|上傳|送信|アップロード|` +
			`보내|전송|업로드|أرسل|ارسل|भेज`),
		stealNoun: abroadPattern(`\b(?:schlussel|api-schlussel|zugangsdaten|passwort|kennwort|geheimnis|cle api|cles|mot de passe|identifiants|secrets?|clave|credenciales|contrasena|chave|senha|chiave|credenziali|sleutel|api-sleutel|wachtwoord|klucz|haslo|losenord|anahtar|sifre|mat khau|khoa|kata sandi|kunci)|ключ|парол|токен|учетн|密钥|密码|凭据|金鑰|密鑰|密碼|キー|パスワード|` +
			`키|비밀번호|암호|مفتاح|كلمة المرور|كلمه المرور|कुंजी|पासवर्ड`),
		stealTo:  shaped(regexp.MustCompile(`https?://|\b[\w.]+@[\w-]+\.\w+`), words("http|@")...),
		pipeMore: shaped(regexp.MustCompile(`(?:\b(?:ba|z|da)?sh -c|\beval|\bsource)\s*["']?\$?\(\s*(?:curl|wget)\b|\bexec\(.{0,60}\burlopen\(|\b(?:iwr|invoke-webrequest|irm)\b[^\n|]{0,200}\|\s*(?:iex|invoke-expression)\b`), words("curl|wget|urlopen|iwr|invoke-webrequest|irm")...),
		hideMore: shaped(regexp.MustCompile(`\b(?:hide|conceal|keep)\b (?:this|it|that|these|what you do)\b.{0,25}\bfrom (?:the )?(?:user|human|operator|reviewer)s?\b`), words("user|human|operator|reviewer")...),
		hideAbroad: &shape{pattern: abroadPattern(`\bsag(?:e|t)? (?:dem|der|den) (?:benutzer|nutzer|anwender)\w* (?:nichts|nicht)|\bne (?:le |la |lui |leur |les )?(?:dis|dites|dire|mentionne)\w* (?:pas|rien)\b.{0,20}utilisateur|\bno (?:se )?(?:lo )?(?:digas|diga|menciones)\b.{0,25}usuario|\bnon (?:dirlo|dire|menzionare)\b.{0,25}utente` +
			`|\bnao (?:conte|diga|mencione)\b.{0,25}usuario|vertel .{0,25}gebruiker (?:niet|niets)|не (?:говори|сообщай|рассказывай).{0,30}пользовател|不要(?:告诉|告訴|通知|让|讓)(?:用户|用戶|使用者)|ユーザー(?:に|には)(?:伝え|言わ|知らせ)な|사용자에게.{0,20}(?:알리지|말하지)`), abroad: true, words: words("nutzer|anwender|utilisateur|usuario|utente|gebruiker")},
	}
})
