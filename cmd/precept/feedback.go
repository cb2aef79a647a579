package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"

	"precept/bandit/report"
	"precept/cmd/precept/server"
	"precept/configs"
)

const (
	postTimeout  = 15 * time.Second       // timeout per request
	retryTimeout = 15 * time.Second       // maximum time for all retries
	retryPause   = 250 * time.Millisecond // pause before the first retry; doubles with each retry
)

const maxCorrection = 64 << 10 // bytes

type feedbackFlags struct {
	listener                          listenerFlags
	subject                           feedbackSubject
	rating                            feedbackRating
	comment, source, rater, label, id string
	asJSON                            bool
}

// feedbackSubject identifies what is rated. At most one field is set. If none is set, the feedback rates the run or
// session of the `precept run` that started this command.
type feedbackSubject struct {
	session, run, request, response, sample string
	commit, branch, pullRequest             string
}

// feedbackRating is a rating. The user must give exactly one of score, approve, reject and correct.
type feedbackRating struct {
	score           float64
	hasScore        bool
	approve, reject bool
	correct         string // text, or @FILE
}

type listenerFlags struct{ url, key string }

func (f *listenerFlags) add(c *cobra.Command) {
	c.Flags().StringVar(
		&f.url, "url", "",
		"precept's base URL for agents (default: PRECEPT_URL, otherwise the server that uses "+
			"the data directory)",
	)
	c.Flags().StringVar(
		&f.key, "key", "",
		"the agent's API key, if the tenant depends on the key (default: PRECEPT_KEY, "+
			"OPENAI_API_KEY or ANTHROPIC_API_KEY)",
	)
}

func (inv *invocation) feedbackCommand() *cobra.Command {
	var f feedbackFlags
	c := &cobra.Command{
		Use:   "feedback --session|--run|--request|--response|--sample|--commit|--branch|--pull-request ID --score N|--approve|--reject|--correct TEXT|@FILE",
		Short: "Rate a session or a run, for scripts and CI",
		Long: "Feedback posts a rating to /v1/feedback on a running server. --response takes the id in the model's " +
			"response (chatcmpl-, resp_, msg_). Inside `precept run`, the default subject is the run (PRECEPT_RUN) or " +
			"the session (PRECEPT_SESSION). A person's feedback (--source user) has priority over a verifier's (--source system), " +
			"such as a test in CI, and a verifier's has priority over implicit feedback, which precept derives from " +
			"requests.",
		Example: "  precept feedback --session ci-42 --approve\n" +
			"  precept feedback --run ci-42 --source system --score 0.7 --comment \"7 of 10 tests pass\"\n" +
			"  precept feedback --commit 3f2a9c1 --reject",
		Args: argsValidator(cobra.NoArgs),
	}
	f.listener.add(c)
	s := c.Flags()
	s.StringVar(&f.subject.session, "session", "", "session: the name that the client sent, the name in the Precept-Session response header, or the id")
	s.StringVar(&f.subject.run, "run", "", "run, as named by the client; the rating applies to the whole run")
	s.StringVar(&f.subject.request, "request", "", "request id (response header Precept-Request-Id)")
	s.StringVar(&f.subject.response, "response", "", "id in the model's response")
	s.StringVar(&f.subject.sample, "sample", "", "learning sample id, from precept export")
	s.StringVar(&f.subject.commit, "commit", "", "commit hash; rates the newest 20 sessions or runs in which a tool result showed this commit")
	s.StringVar(&f.subject.branch, "branch", "", "branch without the remote; rates the newest 20 sessions or runs in which a tool result showed this branch")
	s.StringVar(&f.subject.pullRequest, "pull-request", "", "pull request, by URL or as acme/shop#12; rates the newest 20 sessions or runs in which a tool result showed this pull request")
	s.Float64Var(&f.rating.score, "score", 0, "score from 0 to 1")
	s.BoolVar(&f.rating.approve, "approve", false, "the result was right")
	s.BoolVar(&f.rating.reject, "reject", false, "the result was wrong")
	s.StringVar(
		&f.rating.correct, "correct", "", "the right result: text, or @FILE (@- for standard input)",
	)
	s.StringVar(&f.comment, "comment", "", "reason for the rating")
	s.StringVar(&f.source, "source", "user", "feedback source: user or system")
	s.StringVar(&f.rater, "rater", "", "person or program that gives the feedback")
	s.StringVar(&f.label, "quality-label", "", "good, acceptable or poor")
	s.StringVar(&f.id, "id", "", "feedback id: feedback with the same id replaces the first; identical feedback changes nothing")
	addJSONFlag(c, &f.asJSON)
	return inv.withConfig(c, []string{"data_dir"}, func(c *cobra.Command, cfg *configs.Config, _ []string) error {
		f.rating.hasScore = c.Flags().Changed("score")
		return inv.runFeedback(c.Context(), cfg, &f)
	})
}

func (inv *invocation) runFeedback(ctx context.Context, cfg *configs.Config, f *feedbackFlags) error {
	body, err := feedbackBody(inv.env, f)
	if err != nil {
		return misuse(err)
	}
	if f.rating.correct != "" {
		if body["correction"], err = readCorrection(inv.stdin, f.rating.correct); err != nil {
			return fmt.Errorf("--correct: %w", err)
		}
	}
	find := func() (string, error) {
		base, err := findDataListener(ctx, inv.env, cfg, &f.listener)
		if errors.Is(err, errNotRunning) && server.HasPreceptData(cfg.DataDir) { // the server may be restarting
			err = &unavailableError{err}
		}
		return base, err
	}
	answer, err := inv.postFeedback(ctx, retryTimeout, find, credential(inv.env, cfg, &f.listener), body)
	if err != nil {
		return err
	}
	if f.asJSON {
		return writeJSON(inv.stdout, answer)
	}
	if answer.Status == "parked" {
		message := cmp.Or(answer.Message, "the server keeps the feedback until the session appears") // an older server sends no message
		_, err = fmt.Fprintln(inv.stdout, "parked:", report.Printable(message))
		return err
	}
	names := append(answer.Sessions, answer.Runs...)
	if len(names) == 0 {
		names = []string{answer.Session + answer.Run}
	}
	_, err = fmt.Fprintln(inv.stdout, strings.TrimSpace(answer.Status+" "+strings.Join(names, " ")))
	return err
}

func feedbackBody(env func(string) (string, bool), f *feedbackFlags) (map[string]any, error) {
	body := map[string]any{"source": f.source}
	targets := 0
	for key, value := range map[string]string{
		"session_id": f.subject.session, "run_id": f.subject.run, "request_id": f.subject.request,
		"response_id": f.subject.response, "sample_id": f.subject.sample,
		"commit": f.subject.commit, "branch": f.subject.branch, "pull_request": f.subject.pullRequest,
	} {
		if value != "" {
			body[key] = value
			targets++
		}
	}
	if targets == 0 {
		targets = addRunSubject(env, body)
	}
	if targets != 1 {
		return nil, errors.New("the subject is missing or ambiguous; give exactly one: --session, --run, --request, --response, --sample, --commit, --branch or --pull-request")
	}
	ratings := 0
	for kind, isGiven := range map[string]bool{
		"score": f.rating.hasScore, "approval": f.rating.approve, "rejection": f.rating.reject,
		"correction": f.rating.correct != "",
	} {
		if isGiven {
			body["type"] = kind
			ratings++
		}
	}
	if ratings != 1 {
		return nil, errors.New("the rating is missing or ambiguous; give exactly one: --score N, --approve, --reject or --correct TEXT|@FILE")
	}
	if f.rating.hasScore {
		if !(f.rating.score >= 0 && f.rating.score <= 1) {
			return nil, fmt.Errorf("--score is %v; write a number from 0 to 1", f.rating.score)
		}
		body["score"] = f.rating.score
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

// addRunSubject adds the run or session of the `precept run` that started this command. It returns the number of added
// subjects, 0 or 1.
func addRunSubject(env func(string) (string, bool), body map[string]any) (targets int) {
	if run := firstEnv(env, "PRECEPT_RUN"); run != "" {
		body["run_id"] = run
		return 1
	}
	if session := firstEnv(env, "PRECEPT_SESSION"); session != "" {
		body["session_id"] = session
		return 1
	}
	return 0
}

// readCorrection returns the correction in value, or in the file named after "@". A JSON object, a JSON array, and any
// JSON value from a file are returned as JSON. All other text is returned as a string.
func readCorrection(in io.Reader, value string) (any, error) {
	name, fromFile := strings.CutPrefix(value, "@")
	if value == "-" {
		name, fromFile = "-", true
	}
	text := []byte(value)
	if fromFile {
		var err error
		if text, err = readText(in, name, maxCorrection); err != nil {
			return nil, err
		}
	} else if info, err := os.Stat(value); err == nil && info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is a file; write @%s to send the content", value, value)
	}
	trimmed := bytes.TrimSpace(text)
	switch {
	case len(trimmed) == 0 && fromFile:
		return nil, fmt.Errorf("%s is empty; write the right result into the file", name)
	case len(trimmed) == 0:
		return nil, errors.New("the text is empty; write the right result")
	case len(text) > maxCorrection:
		return nil, fmt.Errorf("the text is longer than the limit of %d bytes; shorten the text", maxCorrection)
	case json.Valid(text) && (fromFile || trimmed[0] == '{' || trimmed[0] == '['):
		return json.RawMessage(text), nil
	}
	return strings.ToValidUTF8(string(text), "\ufffd"), nil
}

type feedbackResponse struct {
	ID      string `json:"id"`
	Session string `json:"session_id,omitempty"`
	Run     string `json:"run_id,omitempty"`
	Status  string `json:"status"`
	Message string `json:"message,omitempty"`

	Sessions []string `json:"sessions,omitempty"`
	Runs     []string `json:"runs,omitempty"`
}

// unavailableError reports that the server cannot be reached or is overloaded, so a retry may succeed.
type unavailableError struct{ err error }

func (e *unavailableError) Error() string { return e.err.Error() }

func (e *unavailableError) Unwrap() error { return e.err }

// postFeedback posts feedback to the URL that find returns, and retries while the server is unavailable. The feedback
// has an id, so the server does not count it twice after a lost response.
func (inv *invocation) postFeedback(
	ctx context.Context, timeout time.Duration, find func() (string, error), key string, body map[string]any,
) (feedbackResponse, error) {
	if body["id"] == nil {
		var b [12]byte
		if _, err := io.ReadFull(inv.tools.Random, b[:]); err != nil {
			return feedbackResponse{}, fmt.Errorf("make a feedback id: %w", err)
		}
		body["id"] = "fb_" + hex.EncodeToString(b[:])
	}
	text, err := json.Marshal(body)
	if err != nil {
		return feedbackResponse{}, err
	}
	deadline := time.After(timeout)
	for pause := retryPause; ; pause *= 2 {
		base, err := find()
		var answer feedbackResponse
		if err == nil {
			answer, err = postOnce(ctx, base, key, text)
		}
		if _, unavailable := errors.AsType[*unavailableError](err); !unavailable {
			return answer, err
		}
		if pause == retryPause {
			fmt.Fprintf(inv.stderr, "precept: %v; retrying for up to %v\n", err, timeout)
		}
		select {
		case <-deadline:
			return answer, fmt.Errorf("precept did not confirm the feedback: %w", err)
		case <-ctx.Done():
			return answer, err
		case <-time.After(pause):
		}
	}
}

// postOnce posts the feedback once. The error is an unavailableError if a retry may succeed.
func postOnce(ctx context.Context, base, key string, body []byte) (feedbackResponse, error) {
	var answer feedbackResponse
	if address, err := url.Parse(base); err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https" {
		return answer, fmt.Errorf("%q is not an http or https address; give precept's address, such as http://127.0.0.1:8080", base)
	}
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	res, err := sendRequest(ctx, http.MethodPost, base+"/v1/feedback", key, body)
	if err != nil {
		return answer, &unavailableError{fmt.Errorf("precept at %s does not answer: %w", base, err)}
	}
	defer res.Body.Close() //nolint:errcheck // nothing was written
	raw, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return answer, &unavailableError{fmt.Errorf("precept at %s: %w", base, err)}
	}
	if res.StatusCode != http.StatusAccepted {
		err := fmt.Errorf(
			"precept at %s returned %s: %s", base, res.Status,
			report.Printable(gjson.GetBytes(raw, "error.message").String()),
		)
		switch res.StatusCode {
		case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			err = &unavailableError{err}
		}
		return answer, err
	}
	return answer, json.Unmarshal(raw, &answer)
}

var errNotRunning = errors.New(
	"no server is running on this data directory; start a server with `precept serve`, or name a running server with --url or --data-dir",
)

// findDataListener tries --url, then PRECEPT_URL, then the server that uses the data directory.
func findDataListener(
	ctx context.Context, env func(string) (string, bool), cfg *configs.Config, f *listenerFlags,
) (string, error) {
	if base := cmp.Or(f.url, firstEnv(env, "PRECEPT_URL")); base != "" {
		return strings.TrimSuffix(strings.TrimRight(base, "/"), "/v1"), nil
	}
	run, err := server.ReadRunFile(cfg.DataDir)
	if err != nil || !isAlive(ctx, run.DataURL) { // a crashed server leaves run.json behind
		return "", errNotRunning
	}
	return run.DataURL, nil
}

func isAlive(ctx context.Context, base string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	res, err := sendRequest(ctx, http.MethodGet, base+"/healthz", "", nil)
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// credential returns the API key that identifies the tenant. With tenancy: single, no provider's key is sent.
func credential(env func(string) (string, bool), cfg *configs.Config, f *listenerFlags) string {
	names := []string{"PRECEPT_KEY"}
	if cfg.Tenancy != "single" {
		names = append(names, "OPENAI_API_KEY", "ANTHROPIC_API_KEY")
	}
	return cmp.Or(strings.TrimSpace(f.key), firstEnv(env, names...))
}
