package detect

import "strings"

// What people say is read here; their wordings are classes of phrases.tsv.

// disapproves: plain disapproval, wherever it stands.
func (p *people) disapproves(said *speech) bool {
	return said.phrase(p.disapproval...) || said.hasWord(p.disapprovalAnywhere...)
}

// declines: the turn begins with a no.
func (p *people) declines(opening string) bool {
	return startsWord(opening, p.no...) && !startsWord(opening, p.notANo...)
}

// forbids: an order not to do something sets the last answer right.
func (p *people) forbids(opening string) bool {
	return startsWord(opening, p.orderNotTo...) && !startsWord(opening, p.noOrder...)
}

// offersAnother: behind the no stands what is wanted.
func (p *people) offersAnother(said *speech) bool {
	return p.asksAnother(said) || said.phrase(p.wish...)
}

// asksAnother: another way is asked for.
func (p *people) asksAnother(said *speech) bool {
	return said.phrase(p.another...) || p.tweaks(said) || said.hasWord(p.anotherAnywhere...)
}

// tweaks: a little more of this, a little less of that.
func (p *people) tweaks(said *speech) bool {
	return said.phrase(p.tweak...) && !strings.HasSuffix(said.text, "thanks")
}

// doubts: the turn begins by questioning what was done.
func (p *people) doubts(opening string) bool {
	return startsWord(opening, p.doubt...) && !startsWord(opening, p.noDoubt...)
}

// praises: plain approval of what was done.
func (p *people) praises(said *speech) bool {
	if said.phrase(p.praise...) {
		return !said.hasWord(p.noPraise...)
	}
	return said.hasWord(p.praiseAnywhere...)
}

// thankful: thanks are said.
func (p *people) thankful(said *speech) bool {
	return said.phrase(p.thanks...) || said.hasWord(p.thanksAnywhere...)
}

// agrees: the turn begins with a yes.
func (p *people) agrees(opening string) bool {
	if startsWord(opening, p.agreement...) {
		return true
	}
	for _, begun := range p.agreementBegun {
		if strings.HasPrefix(opening, begun) {
			return true
		}
	}
	return false
}
