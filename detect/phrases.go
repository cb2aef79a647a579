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

// The lists are a phrase a line: its class, its language, the phrase and the text that needs it,
// between tabs. A phrase with a blank at an end stands in quotes.
var (
	//go:embed phrases.tsv
	phrasesText string // what people, programs and agents say
	//go:embed calls.tsv
	callsText string // what tools, arguments, programs and fields are called
)

// wording are the phrases that detect listens for.
//
//nolint:gochecknoglobals // immutable, read at first use
var wording = sync.OnceValue(func() *phrases {
	list, err := readLists()
	if err != nil {
		panic(err) // the files are a part of the program, and a test reads them
	}
	return compile(list)
})

// phrases are wordings by what they mean. Where the order counts, it is that of the file.
type phrases struct {
	lists map[string][]string        // by class
	sets  map[string]map[string]bool // the same, to be looked up

	// Those that nearly every line is held against, by their first byte.
	errors, errorEnds, errorAlone prefixes
	unable, invalid, command      prefixes
	errorLine, shell              prefixes
	missing                       prefixes // without the blank that all of them begin with
	strong, weak                  prefixes

	refusals    []refusalWording
	synthetic   []meaning // texts in the user's role that an agent wrote begin so
	says, roles []meaning // of agents' housekeeping
}

// is says whether the word stands in a list.
func (p *phrases) is(list, word string) bool { return p.sets[list][word] }

// isKey says whether the name of an argument or a field stands in a list of keys.
func (p *phrases) isKey(list, key string) bool { return p.is("key "+list, strings.ToLower(key)) }

// areKeys says whether all names stand in a list of keys.
func (p *phrases) areKeys(list string, keys []string) bool {
	return !slices.ContainsFunc(keys, func(k string) bool { return !p.isKey(list, k) })
}

// meaning is a phrase with what it says: the rule that it speaks for, or a kind of request.
type meaning struct{ rule, text string }

// prefixes are phrases by their first byte, which tells most of them apart.
type prefixes [256][]meaning

func (p *prefixes) add(phrase, rule string) {
	p[phrase[0]] = append(p[phrase[0]], meaning{rule, phrase})
}

// of are the phrases that s, which is not empty, may begin with.
func (p *prefixes) of(s string) []meaning { return p[s[0]] }

// opens says whether s begins with one of the phrases.
func (p *prefixes) opens(s string) bool { return p.rule(s) != "" }

// rule is that of the first phrase with which s, which is not empty, begins; "" when there is none.
func (p *prefixes) rule(s string) string {
	for _, m := range p.of(s) {
		if strings.HasPrefix(s, m.text) {
			return m.rule
		}
	}
	return ""
}

// listed is a line of a list.
type listed struct {
	class  string // the first word of it says where the phrase goes
	phrase string
	text   string // the text that needs it
	line   string // where it stands
}

// readLists reads both lists.
func readLists() ([]listed, error) {
	said, err := readList("phrases.tsv", phrasesText)
	if err != nil {
		return nil, err
	}
	called, err := readList("calls.tsv", callsText)
	return append(said, called...), err
}

func readList(file, text string) ([]listed, error) {
	var out []listed
	unescape := strings.NewReplacer(`\n`, "\n", `\t`, "\t")
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		at := fmt.Sprintf("%s:%d", file, n)
		fields := strings.Split(line, "\t")
		if len(fields) != 4 || slices.Contains(fields, "") {
			return nil, fmt.Errorf("%s: want class, language, phrase and case, between tabs", at)
		}
		phrase := fields[2]
		if phrase[0] == '"' {
			var err error
			if phrase, err = strconv.Unquote(phrase); err != nil {
				return nil, fmt.Errorf("%s: the phrase: %w", at, err)
			}
		}
		out = append(out, listed{fields[0], phrase, unescape.Replace(fields[3]), at})
	}
	return out, nil
}

// compile makes of a list what is searched.
func compile(list []listed) *phrases {
	p := &phrases{lists: map[string][]string{}, sets: map[string]map[string]bool{}}
	prefixed := map[string]*prefixes{
		"error": &p.errors, "error-ends": &p.errorEnds, "error-alone": &p.errorAlone,
		"unable": &p.unable, "invalid": &p.invalid, "command": &p.command, "missing": &p.missing,
		"error-line": &p.errorLine, "shell": &p.shell, "fails": &p.strong, "reports": &p.weak,
	}
	for _, l := range list {
		class, more, _ := strings.Cut(l.class, " ")
		switch class {
		case "refusal":
			by, rule, _ := strings.Cut(more, " ")
			p.refusals = append(p.refusals, refusalWording{l.phrase, Refuser(by), rule})
		case "synthetic":
			p.synthetic = append(p.synthetic, meaning{more, l.phrase})
		case "side-says":
			p.says = append(p.says, meaning{more, l.phrase})
		case "side-is":
			p.roles = append(p.roles, meaning{more, l.phrase})
		case "error-word":
			p.errors.add(l.phrase, class)
			p.errorLine.add(l.phrase, class)
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
		}
	}
	return p
}

// refusalWording is one harness's sentence. It must stand at the start of the result, or of one of
// its first lines.
type refusalWording struct {
	text string // lower case
	by   Refuser
	rule string
}
