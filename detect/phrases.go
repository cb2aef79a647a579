package detect

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// phrasesText is a phrase a line: its class, its language, the phrase and the text that needs it,
// between tabs. A phrase with a blank at an end stands in quotes.
//
//go:embed phrases.tsv
var phrasesText string

// wording are the phrases that detect listens for.
//
//nolint:gochecknoglobals // immutable, read at first use
var wording = sync.OnceValue(func() *phrases {
	list, err := readPhrases(phrasesText)
	if err != nil {
		panic(err) // the file is a part of the program, and a test reads it
	}
	p, err := compile(list)
	if err != nil {
		panic(err)
	}
	return p
})

// phrases are wordings by what they mean, compiled to what is searched fastest. Where the order
// counts, it is that of the file.
type phrases struct {
	people
	prose
	refusals  []refusalWording
	synthetic []syntheticWording
	side
}

// people are the wordings of people: English first; of other languages the few words that need no
// grammar.
type people struct {
	disapproval, disapprovalAnywhere []string // plain disapproval, wherever it stands
	no, notANo                       []string // the turn begins with a no, or so it seems
	orderNotTo, noOrder              []string // "don't do x" sets the last answer right
	wish                             []string // behind the no stands what is wanted
	another, anotherAnywhere         []string // another way is asked for
	tweak                            []string // a little more of this, a little less of that
	doubt, noDoubt                   []string // the turn begins by questioning what was done
	praise, praiseAnywhere, noPraise []string // plain approval of what was done
	thanks, thanksAnywhere           []string
	contrast                         []string // what follows takes back what went before
	agreement, agreementBegun        []string // the turn begins with a yes
	yes                              []string // that is one without a question, too
	goOn                             []string // as proposed; a bare "continue" resumes, and praises nothing
	newGoal                          []string // nobody wants the old one any more
	fact                             []string // a person answers a question with something about them
	question                         []string // the agent asks whether to go on
	sound                            []string // with which people begin
}

// prose are the wordings of messages that say what went wrong.
type prose struct {
	errors, errorEnds, errorAlone prefixes
	unable, invalid               prefixes
	command                       prefixes
	missing                       prefixes // without the blank that all of them begin with
	complaint, noComplaint        []string
	shell                         []string
}

// side are the wordings of agents' housekeeping.
type side struct {
	says, is                []sideText
	title, titleOf, summary []string
	commit, commitOf        []string
}

// syntheticWording begins a text in the user's role that an agent wrote.
type syntheticWording struct{ rule, text string }

// prefixes are phrases by their first byte, which tells most of them apart.
type prefixes [256][]string

func (p *prefixes) add(phrase string) { p[phrase[0]] = append(p[phrase[0]], phrase) }

// of are the phrases that s, which is not empty, may begin with.
func (p *prefixes) of(s string) []string { return p[s[0]] }

// opens says whether s begins with one of the phrases.
func (p *prefixes) opens(s string) bool {
	for _, phrase := range p.of(s) {
		if strings.HasPrefix(s, phrase) {
			return true
		}
	}
	return false
}

// listed is a line of a list.
type listed struct {
	class  string // the first word of it says where the phrase goes
	phrase string
	text   string // the text that needs it
	line   int
}

// readPhrases reads a list.
func readPhrases(text string) ([]listed, error) {
	var out []listed
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		fields := strings.Split(line, "\t")
		if len(fields) != 4 || slices.Contains(fields, "") {
			return nil, fmt.Errorf("phrases.tsv:%d: want class, language, phrase and case, between tabs", n)
		}
		phrase, err := phraseOf(fields[2])
		if err != nil {
			return nil, fmt.Errorf("phrases.tsv:%d: the phrase: %w", n, err)
		}
		out = append(out, listed{fields[0], phrase, strings.ReplaceAll(fields[3], `\n`, "\n"), n})
	}
	return out, nil
}

// compile makes of a list what is searched.
func compile(list []listed) (*phrases, error) {
	p := &phrases{}
	classes := p.classes()
	for i := range list {
		class, more, _ := strings.Cut(list[i].class, " ")
		add := classes[class]
		if add == nil {
			return nil, fmt.Errorf("phrases.tsv:%d: there is no class %q", list[i].line, class)
		}
		add(list[i].phrase, more)
	}
	return p, nil
}

// phraseOf undoes the quotes of a phrase.
func phraseOf(field string) (string, error) {
	if strings.HasPrefix(field, `"`) {
		return strconv.Unquote(field)
	}
	return field, nil
}

// classes says where the phrases of a class go; more is what the class says of them beside.
func (p *phrases) classes() map[string]func(phrase, more string) {
	words := func(to *[]string) func(string, string) {
		return func(phrase, _ string) { *to = append(*to, phrase) }
	}
	begins := func(to *prefixes) func(string, string) {
		return func(phrase, _ string) { to.add(phrase) }
	}
	return map[string]func(phrase, more string){
		"disapproval": words(&p.disapproval), "disapproval-anywhere": words(&p.disapprovalAnywhere),
		"no": words(&p.no), "not-a-no": words(&p.notANo), "order-not-to": words(&p.orderNotTo), "no-order": words(&p.noOrder),
		"wish": words(&p.wish), "another-way": words(&p.another), "another-way-anywhere": words(&p.anotherAnywhere),
		"tweak": words(&p.tweak), "doubt": words(&p.doubt), "no-doubt": words(&p.noDoubt),
		"praise": words(&p.praise), "praise-anywhere": words(&p.praiseAnywhere), "no-praise": words(&p.noPraise),
		"thanks": words(&p.thanks), "thanks-anywhere": words(&p.thanksAnywhere), "contrast": words(&p.contrast),
		"agreement": words(&p.agreement), "agreement-begun": words(&p.agreementBegun), "yes": words(&p.yes), "go-on": words(&p.goOn),
		"new-goal": words(&p.newGoal), "fact": words(&p.fact), "question": words(&p.question), "sound": words(&p.sound),
		"error": begins(&p.errors), "error-ends": begins(&p.errorEnds), "error-alone": begins(&p.errorAlone),
		"unable": begins(&p.unable), "invalid": begins(&p.invalid), "command": begins(&p.command),
		"missing":   func(phrase, _ string) { p.missing.add(phrase[1:]) },
		"complaint": words(&p.complaint), "no-complaint": words(&p.noComplaint), "shell": words(&p.shell),
		"synthetic": func(phrase, rule string) { p.synthetic = append(p.synthetic, syntheticWording{rule, phrase}) },
		"refusal": func(phrase, more string) {
			by, rule, _ := strings.Cut(more, " ")
			p.refusals = append(p.refusals, refusalWording{phrase, Refuser(by), rule})
		},
		"side-says":  func(phrase, kind string) { p.says = append(p.says, sideText{kind, phrase}) },
		"side-is":    func(phrase, kind string) { p.is = append(p.is, sideText{kind, phrase}) },
		"side-title": words(&p.title), "side-title-of": words(&p.titleOf), "side-summary": words(&p.summary),
		"side-commit": words(&p.commit), "side-commit-of": words(&p.commitOf),
	}
}
