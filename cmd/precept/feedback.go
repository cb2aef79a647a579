package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"

	"precept/bandit/report"
	"precept/cmd/precept/server"
	"precept/configs"
)

// postLimit bounds a question to the data listener.
const postLimit = 15 * time.Second

// maxCorrection is the largest correction that the data listener accepts.
const maxCorrection = 64 << 10

// feedbackFlags describe one feedback.
type feedbackFlags struct {
	at                                         dataFlags
	session, run, request, response, sample    string
	score                                      float64
	approve, reject                            bool
	correct, comment, source, rater, label, id string
	asJSON, scored                             bool
}

// dataFlags are the address of the data listener and the credential for the data listener.
type dataFlags struct{ url, key string }

func (f *dataFlags) add(c *cobra.Command) {
	c.Flags().StringVar(
		&f.url, "url", "",
		"precept's data listener (PRECEPT_URL, else the running precept of the data directory)",
	)
	c.Flags().StringVar(
		&f.key, "key", "",
		"the API key that the agent uses, where tenants go by keys (PRECEPT_KEY, else OPENAI_API_KEY or ANTHROPIC_API_KEY)",
	)
}

func (w *invocation) feedback() *cobra.Command {
	var f feedbackFlags
	c := &cobra.Command{
		Use:   "feedback --session|--run|--request|--response|--sample ID --score N|--approve|--reject|--correct TEXT|@FILE",
		Short: "Say what a session or a run was worth, for scripts and CI",
		Long: "Feedback posts to /v1/feedback of a running precept. A response is named by the " +
			"id in the model's own answer (chatcmpl-, resp_, msg_); within precept run it is the " +
			"run (PRECEPT_RUN), or the session that it was given (PRECEPT_SESSION), unless " +
			"something else is named. " +
			"--source user is a person's word and outweighs a verifier's (system), which " +
			"outweighs what the traffic says.",
		Args: arguments(cobra.NoArgs),
	}
	f.at.add(c)
	s := c.Flags()
	s.StringVar(&f.session, "session", "", "the session, as its client named it or as precept did")
	s.StringVar(&f.run, "run", "", "the run, as its client named it: all of its sessions")
	s.StringVar(&f.request, "request", "", "the request (Precept-Request-Id)")
	s.StringVar(&f.response, "response", "", "the id in the model's answer")
	s.StringVar(&f.sample, "sample", "", "the sample")
	s.Float64Var(&f.score, "score", 0, "what it was worth, 0 to 1")
	s.BoolVar(&f.approve, "approve", false, "it was right")
	s.BoolVar(&f.reject, "reject", false, "it was wrong")
	s.StringVar(
		&f.correct, "correct", "", "what would have been right: text, or @FILE (@- for standard input)",
	)
	s.StringVar(&f.comment, "comment", "", "why")
	s.StringVar(&f.source, "source", "user", "who says so: user or system")
	s.StringVar(&f.rater, "rater", "", "the person or the program that says so")
	s.StringVar(&f.label, "quality-label", "", "good, acceptable or poor")
	s.StringVar(&f.id, "id", "", "a name of this feedback; the same name twice counts once")
	addJSON(c, &f.asJSON)
	return w.configured(c, []string{"data_dir"}, func(c *cobra.Command, cfg *configs.Config, _ []string) error {
		f.scored = c.Flags().Changed("score")
		return w.runFeedback(c.Context(), cfg, &f)
	})
}

func (w *invocation) runFeedback(ctx context.Context, cfg *configs.Config, f *feedbackFlags) error {
	body, err := feedbackBody(w.env, f)
	if err != nil {
		return misuse(err)
	}
	if f.correct != "" {
		if body["correction"], err = correction(w.in, f.correct); err != nil {
			return fmt.Errorf("--correct: %w", err)
		}
	}
	base, err := dataListener(ctx, w.env, cfg, &f.at)
	if err != nil {
		return err
	}
	answer, err := postFeedback(ctx, base, credential(w.env, cfg, &f.at), body)
	if err != nil {
		return err
	}
	if f.asJSON {
		return writeJSON(w.out, answer)
	}
	if answer.Status == "parked" {
		_, err = fmt.Fprintln(w.out, "parked: it joins what it is about when that is stored")
		return err
	}
	_, err = fmt.Fprintln(w.out, strings.TrimSpace(answer.Status+" "+answer.Session+answer.Run))
	return err
}

// feedbackBody makes the body of the request, and refuses ambiguous flags before a request is sent.
func feedbackBody(env func(string) (string, bool), f *feedbackFlags) (map[string]any, error) {
	body := map[string]any{"source": f.source}
	targets := 0
	for key, value := range map[string]string{
		"session_id": f.session, "run_id": f.run, "request_id": f.request,
		"response_id": f.response, "sample_id": f.sample,
	} {
		if value != "" {
			body[key] = value
			targets++
		}
	}
	if targets == 0 {
		targets = withinRun(env, body)
	}
	if targets != 1 {
		return nil, errors.New("name one of --session, --run, --request, --response and --sample")
	}
	says := 0
	for kind, said := range map[string]bool{
		"score": f.scored, "approval": f.approve, "rejection": f.reject,
		"correction": f.correct != "",
	} {
		if said {
			body["type"] = kind
			says++
		}
	}
	if says != 1 {
		return nil, errors.New("say one of --score N, --approve, --reject and --correct TEXT|@FILE")
	}
	if f.scored {
		if !(f.score >= 0 && f.score <= 1) {
			return nil, fmt.Errorf("--score is %v; write a number from 0 to 1", f.score)
		}
		body["score"] = f.score
	}
	for key, value := range map[string]string{
		"comment": f.comment, "rater": f.rater, "quality_label": f.label, "id": f.id,
	} {
		if value != "" {
			body[key] = value
		}
	}
	return body, nil
}

// withinRun adds the run or the session of an enclosing precept run to body.
func withinRun(env func(string) (string, bool), body map[string]any) (targets int) {
	if run := variable(env, "PRECEPT_RUN"); run != "" {
		body["run_id"] = run
		return 1
	}
	if session := variable(env, "PRECEPT_SESSION"); session != "" {
		body["session_id"] = session
		return 1
	}
	return 0
}

// correction reads the value of --correct: text, or @FILE. A JSON object or array is sent
// unchanged, and so is any other JSON value of a file.
func correction(in io.Reader, given string) (any, error) {
	name, fromFile := strings.CutPrefix(given, "@")
	if given == "-" {
		name, fromFile = "-", true
	}
	text := []byte(given)
	if fromFile {
		var err error
		if text, err = readText(in, name, maxCorrection); err != nil {
			return nil, err
		}
	} else if info, err := os.Stat(given); err == nil && info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is a file; write @%s to send its content", given, given)
	}
	begin := bytes.TrimSpace(text)
	switch {
	case len(begin) == 0 && fromFile:
		return nil, fmt.Errorf("%s is empty", name)
	case len(begin) == 0:
		return nil, errors.New("the text is empty; write what would have been right")
	case len(text) > maxCorrection:
		return nil, fmt.Errorf("the text has more than the %d bytes allowed", maxCorrection)
	case json.Valid(text) && (fromFile || begin[0] == '{' || begin[0] == '['):
		return json.RawMessage(text), nil
	}
	return strings.ToValidUTF8(string(text), "\ufffd"), nil
}

// posted is the data listener's answer.
type posted struct {
	ID      string `json:"id"`
	Session string `json:"session_id,omitempty"`
	Run     string `json:"run_id,omitempty"`
	Status  string `json:"status"`
}

// postFeedback posts one feedback.
func postFeedback(
	ctx context.Context, base, key string, body map[string]any,
) (posted, error) {
	var answer posted
	b, err := json.Marshal(body)
	if err != nil {
		return answer, err
	}
	ctx, cancel := context.WithTimeout(ctx, postLimit)
	defer cancel()
	res, err := request(ctx, http.MethodPost, base+"/v1/feedback", key, b)
	if err != nil {
		return answer, fmt.Errorf("precept at %s does not answer: %w", base, err)
	}
	defer res.Body.Close() //nolint:errcheck // only read
	raw, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return answer, fmt.Errorf("precept at %s: %w", base, err)
	}
	if res.StatusCode != http.StatusAccepted {
		return answer, fmt.Errorf(
			"precept at %s answers %s: %s", base, res.Status,
			report.Printable(gjson.GetBytes(raw, "error.message").String()),
		)
	}
	return answer, json.Unmarshal(raw, &answer)
}

// errNotRunning reports that no precept runs on the data directory.
var errNotRunning = errors.New(
	"no precept runs on this data directory; start one with precept serve, or name it with --url or --data-dir",
)

// dataListener returns the address of the data listener: the named address, or the address of the
// running precept of the data directory.
func dataListener(
	ctx context.Context, env func(string) (string, bool), cfg *configs.Config, at *dataFlags,
) (string, error) {
	if base := cmp.Or(at.url, variable(env, "PRECEPT_URL")); base != "" {
		return strings.TrimSuffix(strings.TrimRight(base, "/"), "/v1"), nil
	}
	run, err := server.ReadRunFile(cfg.DataDir)
	if err != nil || !alive(ctx, run.Data) { // a crash leaves the file behind
		return "", errNotRunning
	}
	return run.Data, nil
}

// alive reports whether a precept answers at the address.
func alive(ctx context.Context, base string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	res, err := request(ctx, http.MethodGet, base+"/healthz", "", nil)
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// credential returns the key of the agent; "" where tenants do not depend on keys, so that the key
// is not sent.
func credential(env func(string) (string, bool), cfg *configs.Config, at *dataFlags) string {
	names := []string{"PRECEPT_KEY"}
	if cfg.Tenancy != "single" {
		names = append(names, "OPENAI_API_KEY", "ANTHROPIC_API_KEY")
	}
	return cmp.Or(strings.TrimSpace(at.key), variable(env, names...))
}
