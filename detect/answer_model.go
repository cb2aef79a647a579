package detect

import (
	_ "embed"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
)

// A domain tool does anything other than running commands or handling files, pages or notes. For example, it books a
// table. The tool reports a failure in the application's words or fields, and content may contain the word "failed". A
// logistic regression judges the answers without any failure sign from this package.

// answerWeights has one line per feature, with the feature and its weight. The weight is positive if the feature is
// more frequent in failures. TestAnswerWeightsAreTrainedOnTheAnswers trains the weights on testdata/answers.
//
//go:embed answer_weights.tsv
var answerWeights string

// answerModel is a logistic regression over the features of an answer.
type answerModel struct {
	features map[uint64]uint16 // index in weights, by the hash of the feature
	weights  []float32
}

func readAnswerModel(table string) (*answerModel, error) {
	m := &answerModel{features: map[uint64]uint16{}}
	for line := range strings.Lines(table) {
		feature, number, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		weight, err := strconv.ParseFloat(number, 32)
		if !ok || err != nil || len(m.weights) > math.MaxUint16 {
			return nil, fmt.Errorf("answer_weights.tsv: line %q: want a feature, a tab and a number, in at most 65,536 lines", line)
		}
		m.features[xxhash.Sum64String(feature)] = uint16(len(m.weights)) //nolint:gosec // checked above
		m.weights = append(m.weights, float32(weight))
	}
	return m, nil
}

// Bounds for the text of an answer.
const (
	minAnswer      = 5    // bytes; a shorter answer, such as null or 0, is not judged
	maxAnswer      = 1000 // bytes; a longer answer is content, and is not judged
	maxFound       = 300  // the same for a search
	maxAnswerWords = 150
	maxFirstWords  = 12 // words that also are features of the start of the answer
)

// minFailureScore is the lowest score of a failure. With this score, a model without the author's answers finds more
// than half of the failures in testdata/answers, and takes one of 20 successes for a failure.
const minFailureScore = 1.3

// reportsFailureInWords reports whether an answer is a failure according to the model. A page, a screen, a user's
// answer and the state of a running task are content.
func (c *toolCall) reportsFailureInWords(text string) bool {
	limit := maxAnswer
	if c.nameMatches("looks-for") {
		limit = maxFound
	}
	asksUser := c.nameHas("ask") && c.nameHas("user", "human", "question")
	if c.purpose != purposeOther || len(text) < minAnswer || len(text) > limit || asksUser || c.pressesKey() ||
		strings.Contains(text, "│") || c.phrases.isUnfinished(text) || c.foundNothing(text) {
		return false
	}
	return c.phrases.answers.score(c, text) >= minFailureScore
}

// foundNothing reports whether the result is a search's object with an empty list of hits.
func (c *toolCall) foundNothing(text string) bool {
	if !c.nameMatches("looks-for") {
		return false
	}
	v, ok := parseLenient(text)
	hits, _ := v.get("results", "hits", "items", "matches", "documents", "data")
	return ok && hits.kind == arrayValue && len(hits.vals) == 0
}

// score returns the log-odds of a failure.
func (m *answerModel) score(c *toolCall, text string) float32 {
	var found []uint16
	readAnswer(c, text, func(feature []byte) {
		if i, ok := m.features[xxhash.Sum64(feature)]; ok {
			found = append(found, i)
		}
	})
	slices.Sort(found)
	score := float32(0)
	for _, i := range slices.Compact(found) {
		score += m.weights[i]
	}
	return score
}

// readAnswer calls visit with each feature of an answer to a call. A feature can come several times.
func readAnswer(c *toolCall, text string, visit func(feature []byte)) {
	r := answerReader{visit: visit, argWords: map[string]bool{}}
	for _, w := range c.nameWords {
		if len(w) >= minStemWord {
			r.nameStems = append(r.nameStems, stem(w))
		}
	}
	for _, arg := range c.args.vals {
		for w := range answerWords(arg.text()) {
			r.argWords[w] = true
		}
	}
	r.add("bias")
	r.add("size ", strconv.Itoa(bits.Len(uint(len(text)))))
	if c.changesState() {
		r.add("changes")
	}
	r.readWords(text)
	if v, ok := parseLenient(text); ok {
		r.add("json")
		r.readFields(v, 0)
	}
}

// answerReader reads the features of an answer.
type answerReader struct {
	visit     func(feature []byte)
	buf       []byte
	argWords  map[string]bool // words in the call's arguments
	nameStems []string        // beginnings of the words in the tool's name
}

func (r *answerReader) add(parts ...string) {
	r.buf = r.buf[:0]
	for _, part := range parts {
		r.buf = append(r.buf, part...)
	}
	r.visit(r.buf)
}

func (r *answerReader) readWords(text string) {
	words := slices.Collect(answerWords(text))
	previous := ""
	for n, w := range words[:min(len(words), maxAnswerWords)] {
		w = r.normalise(w)
		r.add("word ", w)
		if len(w) > minStemWord+2 && w[0] != '<' {
			r.add("stem ", stem(w))
		}
		if n < maxFirstWords {
			r.add("first ", w)
		}
		if previous != "" {
			r.add("pair ", previous, " ", w)
		}
		previous = w
	}
}

// readFields reads the fields of an object, and of the objects in the object.
func (r *answerReader) readFields(v lenientValue, depth int) {
	const maxFields, maxObjects, maxLevel = 20, 3, 3
	if depth > maxLevel {
		return
	}
	if v.kind == arrayValue {
		for _, element := range v.vals[:min(len(v.vals), maxObjects)] {
			r.readFields(element, depth+1)
		}
		return
	}
	for i, key := range v.keys[:min(len(v.keys), maxFields)] {
		words := nameWords(key)
		for j, w := range words {
			words[j] = r.normaliseName(w)
		}
		name, last := strings.Join(words, "_"), ""
		if len(words) > 0 {
			last = words[len(words)-1]
		}
		value := v.vals[i]
		switch value.kind {
		case boolValue:
			r.addField(name, last, strconv.FormatBool(value.isTrue))
		case noValue:
			r.addField(name, last, "null")
		case numberValue:
			r.addField(name, last, r.normalise(value.raw))
		case stringValue:
			r.readString(name, last, value.text())
		case arrayValue:
			r.addField(name, last, "["+strconv.Itoa(min(len(value.vals), 2))+"]")
			r.readFields(value, depth+1)
		case objectValue:
			r.add("field ", name)
			r.readFields(value, depth+1)
		}
	}
}

// readString reads a string field. A short string is a status with words as features.
func (r *answerReader) readString(name, last, text string) {
	const maxStatusWords = 4
	words := slices.Collect(answerWords(text))
	switch {
	case len(words) == 0:
		r.addField(name, last, "empty")
		return
	case len(words) <= maxStatusWords:
		for _, w := range words {
			w = r.normalise(w)
			r.add("value ", w)
			r.add("last ", last, "=", w)
		}
	}
	r.add("field ", name)
}

func (r *answerReader) addField(name, last, value string) {
	r.add("any ", value)
	if strings.HasSuffix(last, "ed") {
		r.add("done ", value)
	}
	r.add("field ", name, "=", value)
	r.add("last ", last, "=", value)
}

// normalise replaces a word from the arguments, from the tool's name or with digits by a placeholder, so that the words
// of one application do not become features.
func (r *answerReader) normalise(w string) string {
	switch {
	case len(w) > 2 && r.argWords[w]:
		return "<arg>"
	case strings.Trim(w, "0") == "":
		return "0"
	case strings.Trim(w, "0123456789") == "":
		return "#"
	case strings.ContainsAny(w, "0123456789"):
		return "#a"
	}
	return r.normaliseName(w)
}

func (r *answerReader) normaliseName(w string) string {
	if len(w) < minStemWord || !slices.Contains(r.nameStems, stem(w)) {
		return w
	}
	switch {
	case strings.HasSuffix(w, "ed"):
		return "<name>ed"
	case strings.HasSuffix(w, "ing"):
		return "<name>ing"
	}
	return "<name>"
}

const minStemWord = 4 // bytes

func stem(w string) string { return cutText(w, 5) }

// answerWords returns the words of a text in lower case. Each character of a script without spaces and each symbol for
// success or failure is a word.
func answerWords(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		low := strings.ReplaceAll(strings.ToLower(text), "’", "'")
		start := -1
		for i, c := range low {
			if unicode.IsLetter(c) && !hasNoBlanks(c) || unicode.IsDigit(c) || unicode.IsMark(c) || c == '\'' && start >= 0 {
				if start < 0 {
					start = i
				}
				continue
			}
			if start >= 0 && !yield(strings.TrimRight(low[start:i], "'")) {
				return
			}
			start = -1
			if (hasNoBlanks(c) || strings.ContainsRune("✓✔✅❌✗✘⚠⛔🚫", c)) && !yield(low[i:i+utf8.RuneLen(c)]) {
				return
			}
		}
		if start >= 0 {
			yield(strings.TrimRight(low[start:], "'"))
		}
	}
}

func hasNoBlanks(c rune) bool {
	const firstThai = '\u0e01'
	return c >= firstThai && unicode.In(c, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai)
}
