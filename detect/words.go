package detect

import "strings"

// The wordings of people. English first; of other languages the few words that need no grammar.

// disapproves: plain disapproval, wherever it stands.
func disapproves(said *speech) bool {
	if said.phrase(
		"that's wrong", "thats wrong", "that is wrong", "this is wrong", "it's wrong", "is incorrect", "that's incorrect", "that's not right", "that is not right", "not what i asked", "not what i wanted", "not what i meant",
		"that's not it", "that's horrible", "that's terrible", "that's bad", "this is bad", "looks wrong", "doesn't look right", "does not look right", "doesn't work", "does not work", "didn't work", "did not work", "not working",
		"isn't working", "won't work", "doesn't compile", "does not compile", "doesn't build", "still fails", "still failing", "still broken", "still wrong", "still doesn't", "still does not", "still not", "still the same",
		"still looks", "still getting", "still have the", "still see", "still crashes", "still an error", "same error", "same problem", "same issue", "error again", "you broke", "you messed", "you fucked", "broke it", "it broke",
		"is broken", "it crashed", "got a crash", "it crashes", "crashes when", "gives an error", "throws an error", "got an error", "getting an error", "i get an error", "i got this error", "it fails", "it failed", "fails with", "wtf", "w.t.f", "what the fuck",
		"what the hell", "fucking hell", "undo that", "undo this", "undo it", "i undid", "i reverted", "revert that", "revert this", "revert it", "useless", "frustrating", "ridiculous", "unacceptable", "disappointed", "i don't like", "i hate",
		"não funciona", "nao funciona", "não funcionou", "deu erro", "segue erro", "segue o erro", "está errado", "no funciona", "está mal", "ça ne marche pas", "ne fonctionne pas", "funktioniert nicht", "geht nicht", "das ist falsch", "non funziona", "не работает") {
		return true
	}
	return said.hasWord("错了", "不对", "不行", "不工作", "違う", "違います", "動かない", "動きません")
}

// declines: the turn begins with a no.
func declines(opening string) bool {
	return startsWord(opening, "no", "nope", "nah", "not really", "wrong", "incorrect", "stop", "cancel that", "abort", "undo", "revert", "never mind", "nevermind", "absolutely not", "of course not", "try again",
		"não", "nao", "nein", "non", "нет", "pare", "stopp", "para") && !startsWord(opening, "no problem", "no worries", "no need", "no idea", "no preference", "no rush", "no changes", "no, that's all", "no that's all", "no, thanks", "no thanks",
		"no, thank you", "no thank you", "no, that will be all", "no, that is all", "no, nothing else", "no more", "non-", "no other", "stop words", "no, i think that")
}

// forbids: "don't do x": an order that sets the last answer right.
func forbids(opening string) bool {
	return startsWord(opening, "don't", "dont", "do not", "never", "stop using", "não use", "não faça", "nicht", "ne pas", "no uses", "please don't", "please do not") &&
		!startsWord(opening, "don't worry", "dont worry", "don't know", "do not know", "don't mind")
}

// offersAnother: behind the no stands what is wanted.
func offersAnother(said *speech) bool {
	return another(said) || said.phrase("use", "should", "i want", "i'd like", "i would like", "please", "make", "put", "mock", "->", "it's", "the right")
}

// another: another way is asked for.
func another(said *speech) bool {
	if said.phrase("instead", "rather than", "i meant", "i mean", "what i meant", "should be", "should have", "should not", "shouldn't", "shouldn't it", "you forgot", "you missed", "you didn't", "you did not", "you haven't",
		"you should", "you were supposed", "you need to", "not like that", "like this", "like it was", "as before", "as it was", "change it back", "put it back", "that's not the", "that is not the",
		"wrong file", "wrong place", "wrong directory", "wrong one", "misunderstand", "misunderstanding", "misunderstood", "mix-up", "mixup", "confusion", "not quite", "double-check", "double check", "are you sure", "belongs in", "must be", "needs to be",
		"em vez de", "ao invés", "deveria", "en lugar de", "en vez de", "debería", "stattdessen", "sollte", "plutôt", "au lieu", "devrait", "invece") {
		return true
	}
	return tweaks(said) || said.hasWord("应该", "而不是", "ではなく")
}

// tweaks: a little more of this, a little less of that.
func tweaks(said *speech) bool {
	return said.phrase("a little", "a bit", "slightly", "too dim", "too bright", "too dark", "too long", "too short", "too much", "too many", "too big", "too small", "too slow", "too verbose", "too complex", "too complicated", "not enough",
		"brighter", "dimmer", "darker", "simpler", "shorter", "less verbose", "more concise", "even better") && !strings.HasSuffix(said.text, "thanks")
}

// doubts: the turn begins by questioning what was done.
func doubts(opening string) bool {
	return startsWord(opening, "actually", "wait", "hold on", "but", "why did you", "why are you", "why do you", "why would", "why didn't", "why don't you", "why not", "can't we", "can't you", "couldn't we", "couldn't you", "shouldn't",
		"isn't", "aren't", "instead", "not", "i think it", "i thought", "i said", "i asked", "i told you", "put it", "make it", "move it", "you haven", "you havn", "you didn", "you forgot", "again",
		"na verdade", "mas", "espera", "eigentlich", "aber", "en fait", "mais", "pero", "en realidad", "warum hast du", "pourquoi", "por que você") &&
		!startsWord(opening, "not sure", "not yet", "wait for", "actually, i've changed my mind", "actually, i changed my mind", "actually i've changed my mind", "again, thank")
}

// praises: plain approval of what was done.
func praises(said *speech) bool {
	if said.phrase("looks good", "looks great", "look good", "that works", "it works now", "works now", "it works", "works great", "works perfectly", "working now", "that's it", "that did it", "that fixed it", "it's fixed", "well done", "good job", "great job",
		"nice work", "great work", "good work", "lgtm", "ship it", "love it", "i like it", "exactly what i", "much better", "awesome", "excellent", "perfect", "beautiful", "brilliant", "amazing", "fantastic", "sounds good", "sounds great", "it's good", "all good",
		"perfeito", "ficou bom", "ficou ótimo", "funcionou", "está bom", "perfecto", "genial", "parfait", "super", "perfekt", "sehr gut", "funktioniert jetzt", "ottimo", "perfetto", "отлично") {
		return !said.hasWord("if it works", "make sure it works", "how it works", "check if it works", "see if it works", "whether it works", "n't perfect", "not perfect", "superclass", "super(")
	}
	return said.hasWord("很好", "完美", "いいね", "完璧")
}

// thankful: thanks are said.
func thankful(said *speech) bool {
	return said.phrase("thanks", "thank you", "thx", "ty", "thank u", "much appreciated", "appreciate it", "appreciate your help", "cheers", "obrigado", "obrigada", "valeu", "gracias", "merci", "danke", "vielen dank", "grazie", "спасибо", "dziękuję", "bedankt", "tack") ||
		said.hasWord("谢谢", "ありがとう", "감사")
}

// contrast: what follows takes back what went before.
func contrast(said *speech) bool {
	return said.phrase("but", "however", "although", "except", "unfortunately", "instead", "though", "mas", "pero", "aber", "mais")
}

// agrees: the turn begins with a yes.
func agrees(opening string) bool {
	return startsWord(opening, "yes", "yep", "yeah", "yup", "ya", "sure", "ok", "okay", "k", "kk", "alright", "all right", "right", "correct", "exactly", "absolutely", "definitely", "of course", "certainly", "great", "good", "nice", "cool", "fine",
		"go ahead", "go for it", "please do", "please proceed", "please go ahead", "proceed", "do it", "do that", "do both", "do all", "let's do", "that's fine", "that is fine", "that's correct", "that is correct", "that's right", "that sounds",
		"sounds", "looks", "approved", "agreed", "i agree", "i confirm", "confirmed", "confirm", "leave it", "makes sense", "yes,", "sim", "isso", "pode", "claro", "si", "sí", "vale", "dale", "ja", "genau", "klar", "oui", "d'accord", "да", "хорошо", "va bene") ||
		strings.HasPrefix(opening, "是") || strings.HasPrefix(opening, "好") || strings.HasPrefix(opening, "はい") || strings.HasPrefix(opening, "可以")
}

// goesOn: go on as proposed. A bare "continue" resumes; it praises nothing.
func goesOn(opening string) bool {
	return startsWord(opening, "please continue with", "continue with", "let's go", "let's proceed", "please implement", "implement it", "yes please")
}
