package detect

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Each line in phrases.tsv and calls.tsv has a class, a language, a phrase and a test case, separated by tabs. The
// class is the name of a list of phrases. Without the phrase, the test case would be judged differently. A phrase that
// begins or ends with a space is in double quotes.
var (
	//go:embed phrases.tsv
	phrasesText string
	//go:embed calls.tsv
	callsText string
)

//nolint:gochecknoglobals // immutable, read at the first use
var compiledPhrases = sync.OnceValue(func() *phrases {
	list, err := readLists()
	if err != nil {
		panic(err) // cannot happen, because a test reads the embedded files
	}
	p := compile(list)
	if p.answers, err = readAnswerModel(answerWeights); err != nil {
		panic(err) // as above
	}
	return p
})

// phrases holds the phrases in both files.
type phrases struct {
	lists map[string][]string // by class; comments in the files explain each list
	sets  map[string]map[string]bool

	toolLists map[string][]string // by a word in a tool's name: the "tool" lists that contain this word

	waitCommands, pollCommands, launchers commandList

	message messagePhrases
	line    linePhrases

	refusals                 []refusalWording
	synthetic                []ruledPhrase // the beginnings of user messages that a harness wrote
	sideSentences, sideRoles []ruledPhrase // sentences and roles in agents' side requests
	chatInstructions         []ruledPhrase // instructions for housekeeping in chat front ends

	answers *answerModel
}

// messagePhrases are the phrases for phrases.errorMessageRule.
type messagePhrases struct {
	errors, errorEnds, errorAlone prefixes
	unable, invalid               prefixes
	missing                       prefixes // phrases that can be inside a message; stored without the leading space
}

// linePhrases are the phrases for phrases.gradeLine.
type linePhrases struct {
	command, errorLine, shell, strong, weak prefixes
}

func (p *phrases) inList(list, word string) bool { return p.sets[list][word] }

// isKey reports whether key is in the "key LIST" list in calls.tsv.
func (p *phrases) isKey(list, key string) bool { return p.inList("key "+list, strings.ToLower(key)) }

func (p *phrases) areKeys(list string, keys []string) bool {
	return !slices.ContainsFunc(keys, func(k string) bool { return !p.isKey(list, k) })
}

// ruledPhrase is a phrase with the rule, or the kind of side request, that applies if a text has the phrase.
type ruledPhrase struct{ rule, text string }

// prefixes holds phrases by their first byte.
type prefixes [256][]ruledPhrase

func (p *prefixes) add(phrase, rule string) {
	p[phrase[0]] = append(p[phrase[0]], ruledPhrase{rule, phrase})
}

func (p *prefixes) byFirstByte(s string) []ruledPhrase {
	if s == "" {
		return nil
	}
	return p[s[0]]
}

func (p *prefixes) match(s string) bool { return p.rule(s) != "" }

func (p *prefixes) rule(s string) string {
	for _, m := range p.byFirstByte(s) {
		if strings.HasPrefix(s, m.text) {
			return m.rule
		}
	}
	return ""
}

type listLine struct {
	class    string // the first word selects a field in phrases
	phrase   string
	testCase string
	position string // file:line
}

func readLists() ([]listLine, error) {
	phrases, err := readList("phrases.tsv", phrasesText)
	if err != nil {
		return nil, err
	}
	calls, err := readList("calls.tsv", callsText)
	return append(phrases, calls...), err
}

func readList(file, text string) ([]listLine, error) {
	var out []listLine
	unescape := strings.NewReplacer(`\n`, "\n", `\t`, "\t")
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		position := fmt.Sprintf("%s:%d", file, n)
		fields := strings.Split(line, "\t")
		if len(fields) != 4 || slices.Contains(fields, "") {
			return nil, fmt.Errorf("%s: want class, language, phrase and case, between tabs", position)
		}
		phrase := fields[2]
		if phrase[0] == '"' {
			var err error
			if phrase, err = strconv.Unquote(phrase); err != nil {
				return nil, fmt.Errorf("%s: the phrase: %w", position, err)
			}
		}
		out = append(out, listLine{fields[0], phrase, unescape.Replace(fields[3]), position})
	}
	return out, nil
}

func compile(list []listLine) *phrases {
	p := &phrases{
		lists: map[string][]string{}, sets: map[string]map[string]bool{}, toolLists: map[string][]string{},
		waitCommands: commandList{}, pollCommands: commandList{}, launchers: commandList{}, answers: &answerModel{},
	}
	prefixed := map[string]*prefixes{
		"error": &p.message.errors, "error-ends": &p.message.errorEnds, "error-alone": &p.message.errorAlone,
		"unable": &p.message.unable, "invalid": &p.message.invalid, "command": &p.line.command, "missing": &p.message.missing,
		"error-line": &p.line.errorLine, "shell": &p.line.shell, "fails": &p.line.strong, "reports": &p.line.weak,
	}
	for _, l := range list {
		class, more, _ := strings.Cut(l.class, " ")
		switch class {
		case "refusal":
			refuser, rule, _ := strings.Cut(more, " ")
			p.refusals = append(p.refusals, refusalWording{l.phrase, Refuser(refuser), rule})
		case "synthetic":
			p.synthetic = append(p.synthetic, ruledPhrase{more, l.phrase})
		case "side-says":
			p.sideSentences = append(p.sideSentences, ruledPhrase{more, l.phrase})
		case "side-is":
			p.sideRoles = append(p.sideRoles, ruledPhrase{more, l.phrase})
		case "side-order":
			p.chatInstructions = append(p.chatInstructions, ruledPhrase{more, l.phrase})
		case "error-word":
			p.message.errors.add(l.phrase, class)
			p.line.errorLine.add(l.phrase, class)
		case "waits":
			p.waitCommands.addPattern(l.phrase)
		case "polls":
			p.pollCommands.addPattern(l.phrase)
		case "carries":
			p.launchers.addPattern(l.phrase)
		default:
			if to := prefixed[class]; to != nil {
				to.add(strings.TrimPrefix(l.phrase, " "), cmp.Or(more, class))
				continue
			}
			p.lists[l.class] = append(p.lists[l.class], l.phrase)
			if p.sets[l.class] == nil {
				p.sets[l.class] = map[string]bool{}
			}
			p.sets[l.class][l.phrase] = true
			if class == "tool" {
				p.toolLists[l.phrase] = append(p.toolLists[l.phrase], more)
			}
		}
	}
	return p
}

// refusalWording is the beginning of a harness's refusal line.
type refusalWording struct {
	text    string
	refuser Refuser
	rule    string
}
