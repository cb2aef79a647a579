//go:build !race

package detect

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

//nolint:gochecknoglobals // flag of the test binary
var updateAnswers = flag.Bool("answers.update", false, "train the model and write answer_weights.tsv")

// labelledAnswer is a line in testdata/answers.
type labelledAnswer struct {
	ID     string          `json:"id"`
	Tool   string          `json:"tool"`
	Args   json.RawMessage `json:"args"`
	Result string          `json:"result"`
	Label  string          `json:"label"` // ok | error

	author   string   // the file's name
	features []string // without duplicates
	decided  bool     // a rule decides, so the model does not judge the answer
}

func (a *labelledAnswer) failed() bool { return a.Label == "error" }

func readAnswers(t testing.TB) []*labelledAnswer {
	t.Helper()
	files, err := filepath.Glob("testdata/answers/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("testdata/answers: got files %q, error %v, want at least one file", files, err)
	}
	var out []*labelledAnswer
	p := *compiledPhrases()
	p.answers = &answerModel{}
	for _, file := range files {
		in, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(in)
		for lines.Scan() {
			a := &labelledAnswer{author: strings.TrimSuffix(filepath.Base(file), ".jsonl")}
			if err := json.Unmarshal(lines.Bytes(), a); err != nil {
				t.Fatalf("%s: got error %v, want JSON in each line", file, err)
			}
			a.read(&p)
			out = append(out, a)
		}
		if err := in.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// read sets features and decided. The phrases in p must not include a model.
func (a *labelledAnswer) read(p *phrases) {
	j := a.judge(p)
	a.decided = j.Outcome != OK || j.Rule != "" && j.Rule != "json" || len(a.Result) > maxAnswer
	call, seen := p.analyseCall(a.Tool, string(a.Args)), map[string]bool{}
	readAnswer(&call, strings.TrimSpace(a.Result), func(feature []byte) {
		if f := string(feature); !seen[f] {
			seen[f] = true
			a.features = append(a.features, f)
		}
	})
}

func (a *labelledAnswer) judge(p *phrases) Judgement {
	call := p.analyseCall(a.Tool, string(a.Args))
	return p.classify(&call, a.Result, 0)
}

// trainAnswers returns the weights of a logistic regression with L2 regularisation, as a table for readAnswerModel. The
// training is deterministic. It uses AdaGrad.
func trainAnswers(answers []*labelledAnswer) string {
	const minCount, epochs, rate, penalty, minWeight = 3, 20, 0.1, 1, 0.1
	counts := map[string]int{}
	for _, a := range answers {
		for _, f := range a.features {
			counts[f]++
		}
	}
	var names []string
	for f, n := range counts {
		if n >= minCount {
			names = append(names, f)
		}
	}
	slices.Sort(names)
	index := map[string]int{}
	for i, f := range names {
		index[f] = i
	}
	rows := make([][]int, len(answers))
	for i, a := range answers {
		for _, f := range a.features {
			if j, ok := index[f]; ok {
				rows[i] = append(rows[i], j)
			}
		}
	}
	weights, squares := make([]float64, len(names)), make([]float64, len(names))
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the training must be repeatable
	for range epochs {
		for _, i := range random.Perm(len(rows)) {
			sum := 0.0
			for _, j := range rows[i] {
				sum += weights[j]
			}
			residual := 1 / (1 + math.Exp(-sum))
			if answers[i].failed() {
				residual--
			}
			for _, j := range rows[i] {
				gradient := residual + penalty*weights[j]/float64(counts[names[j]])
				squares[j] += gradient * gradient
				weights[j] -= rate * gradient / math.Sqrt(squares[j]+1e-8)
			}
		}
	}
	var table strings.Builder
	for j, f := range names {
		if math.Abs(weights[j]) >= minWeight {
			fmt.Fprintf(&table, "%s\t%.2f\n", f, weights[j])
		}
	}
	return table.String()
}

// undecided returns the answers that the model judges.
func undecided(answers []*labelledAnswer) []*labelledAnswer {
	return slices.DeleteFunc(slices.Clone(answers), func(a *labelledAnswer) bool { return a.decided })
}

// Each author's answers are judged by a model that was trained on the answers of other authors.
func TestAnswersOfUnseenAuthorsAreJudged(t *testing.T) {
	const folds, minSuccesses, minFailures = 5, 0.94, 0.52
	answers := readAnswers(t)
	var authors []string
	for _, a := range answers {
		if !slices.Contains(authors, a.author) {
			authors = append(authors, a.author)
		}
	}
	type count struct{ right, total float64 }
	var successes, failures count
	for fold := range folds {
		var train, test []*labelledAnswer
		for _, a := range answers {
			if slices.Index(authors, a.author)%folds == fold {
				test = append(test, a)
			} else {
				train = append(train, a)
			}
		}
		p := *compiledPhrases()
		var err error
		if p.answers, err = readAnswerModel(trainAnswers(undecided(train))); err != nil {
			t.Fatal(err)
		}
		for _, a := range test {
			c := &successes
			if a.failed() {
				c = &failures
			}
			c.total++
			if (a.judge(&p).Outcome == Error) == a.failed() {
				c.right++
			}
		}
	}
	t.Logf("answers with the right outcome: %.1f%% of %g successes, %.1f%% of %g failures",
		100*successes.right/successes.total, successes.total, 100*failures.right/failures.total, failures.total)
	if successes.right < minSuccesses*successes.total || failures.right < minFailures*failures.total {
		t.Errorf("too few answers with the right outcome, want at least %.0f%% of the successes and %.0f%% of the failures", 100*minSuccesses, 100*minFailures)
	}
}

func TestFaultyAnswerWeightsAreRefused(t *testing.T) {
	for _, table := range []string{"word a", "word a\tb\n", strings.Repeat("word a\t1\n", 65537)} {
		if _, err := readAnswerModel(table); err == nil {
			t.Errorf("readAnswerModel(%.20q...) of %d bytes: got no error, want an error", table, len(table))
		}
	}
}

func TestAnswerWeightsAreTrainedOnTheAnswers(t *testing.T) {
	table := trainAnswers(undecided(readAnswers(t)))
	if *updateAnswers {
		if err := os.WriteFile("answer_weights.tsv", []byte(table), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("other processors round sums differently")
	}
	if table != answerWeights {
		t.Error("answer_weights.tsv differs from a training on testdata/answers; run go test ./detect -run AnswerWeights -answers.update")
	}
}
