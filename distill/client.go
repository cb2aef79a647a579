package distill

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// ClientOptions configure a client for the judge's API. All fields but Key and OnWait are required.
type ClientOptions struct {
	URL   string // base URL, as in OPENAI_BASE_URL
	Model string
	Key   string
	HTTP  *http.Client // the client uses a copy, with a Timeout of two minutes if Timeout is 0
	Now   func() time.Time
	Wait  func(ctx context.Context, d time.Duration) error // sleeps until d has passed or ctx ends
	// OnWait is called with an attempt's error before the wait d. It may be nil. Calls can be concurrent.
	OnWait func(err error, d time.Duration)
}

type client struct {
	o             ClientOptions
	noFormat      atomic.Bool // the server refuses response_format, so the prompt contains the schema
	noTemperature atomic.Bool // the server refuses temperature
	noCache       atomic.Bool // the server refuses cache_control
}

const (
	maxReply = 1 << 20 // bytes
	// maxErrorBody is the number of bytes of an error response that are redacted. The message is cut only after the
	// redaction, because the redactor does not recognise half a secret.
	maxErrorBody = 16 << 10
	maxWait      = 5 * time.Minute // longest wait accepted from a server
	firstPause   = time.Second     // wait before the second attempt
	maxTries     = 5               // including the first attempt
)

// statusError is a response with a status other than 200.
type statusError struct {
	code       int
	body       string        // start of the body, redacted
	retryAfter time.Duration // wait that Retry-After asks for; 0 for none
}

func (e *statusError) Error() string {
	if e.body == "" {
		return fmt.Sprintf("the judge answered with status %d", e.code)
	}
	return fmt.Sprintf("the judge answered with status %d: %s", e.code, e.body)
}

func (e *statusError) retryable() bool {
	return e.code == http.StatusTooManyRequests || e.code == http.StatusRequestTimeout || e.code == http.StatusConflict || e.code >= 500
}

// errSetAside means that the judge refuses a session as too long or for filtered content. The session is not judged
// again until the content changes.
var errSetAside = errors.New("the judge refuses this session (too long, or filtered content); later runs skip the session until the content changes")

// refusesRequest reports whether the status means that the request's content is at fault, and not the credential or the
// URL.
func (e *statusError) refusesRequest() bool {
	return e.code == http.StatusBadRequest || e.code == http.StatusUnprocessableEntity || e.code == http.StatusRequestEntityTooLarge
}

func (e *statusError) refusesSession() bool {
	mayRefuse := e.refusesRequest() || e.code == http.StatusForbidden
	return e.code == http.StatusRequestEntityTooLarge || mayRefuse && wordList("refused content").containedIn(strings.ToLower(e.body))
}

// mayBlameSession reports whether the session's content may be the reason for the status. Because of commands in the
// session, a firewall may respond with 403, or with 200 and a web page.
func (e *statusError) mayBlameSession() bool {
	return e.code >= 500 || e.refusesRequest() || e.code == http.StatusForbidden || e.code == http.StatusOK
}

// call sends requests until it can decode an answer into out, or until another attempt would be pointless. After a
// refusal, call omits optional parameters that the server may not support. The usage covers all requests.
func (c *client) call(ctx context.Context, system, user, name string, schema any, out any) (used Usage, err error) {
	defer func() {
		if err != nil && ctx.Err() == nil {
			err = &judgeError{err}
		}
	}()
	var last error
	pause := firstPause
	noFormat, noTemperature, noCache := c.noFormat.Load(), c.noTemperature.Load(), c.noCache.Load()
	for try := range maxTries {
		if try > 0 {
			wait := c.withJitter(pause)
			if wait > 0 && c.o.OnWait != nil {
				c.o.OnWait(last, wait)
			}
			if err := c.o.Wait(ctx, wait); err != nil {
				return used, err
			}
			pause = max(firstPause, min(2*pause, time.Minute))
		}
		text, u, err := c.send(ctx, noFormat, noTemperature, noCache, system, user, name, schema)
		used.add(u)
		if err == nil {
			c.noFormat.Store(noFormat) // only a successful request shows what the server supports
			c.noTemperature.Store(noTemperature)
			c.noCache.Store(noCache)
			if err = decode(text, schema, out); err == nil {
				return used, nil
			}
		}
		last = err
		var status *statusError
		switch {
		case ctx.Err() != nil:
			return used, ctx.Err()
		case errors.As(err, &status) && status.refusesSession():
			return used, fmt.Errorf("%w: %w", errSetAside, err)
		case errors.As(err, &status) && status.refusesRequest() && !noCache && strings.Contains(status.body, "cache_control"):
			noCache, pause = true, 0
		case errors.As(err, &status) && status.refusesRequest() && !noTemperature && (noFormat || wordList("optional parameters").containedIn(strings.ToLower(status.body))):
			noTemperature, pause = true, 0
			noCache = noCache || !strings.Contains(status.body, "temperature") // the parameter is not named
		case errors.As(err, &status) && status.refusesRequest() && !noFormat:
			noFormat, pause = true, 0 // the server may not support response_format
		case errors.As(err, &status) && !status.retryable():
			return used, fmt.Errorf("%w; check distill.judge, distill.model and distill.api_key", err)
		case errors.As(err, &status) && status.retryAfter > 0:
			pause = min(status.retryAfter, maxWait)
		case errors.Is(err, ErrUnusable) && try >= 1:
			return used, err // the second unusable answer
		}
	}
	return used, last
}

// withJitter extends a wait by up to a quarter, so that replicas do not retry at the same moment.
func (c *client) withJitter(d time.Duration) time.Duration {
	return d + time.Duration(float64(d)/4*float64(c.o.Now().Nanosecond())/float64(time.Second))
}

// chatReply holds the fields that precept reads from a chat completion. Gateways send Error with status 200.
type chatReply struct {
	Error   json.RawMessage `json:"error"`
	Choices []struct {
		Finish  string `json:"finish_reason"`
		Message struct {
			Content content `json:"content"`
			Refusal string  `json:"refusal"`
		} `json:"message"`
	} `json:"choices"`
	Usage struct {
		Input  int64 `json:"prompt_tokens"`
		Output int64 `json:"completion_tokens"`
	} `json:"usage"`
}

// content is a message's text. In JSON, the text is a string or a list of parts, and some parts hold reasoning.
type content string

// UnmarshalJSON implements json.Unmarshaler.
func (c *content) UnmarshalJSON(data []byte) error {
	var parts []struct{ Type, Text string }
	if json.Unmarshal(data, &parts) != nil {
		return json.Unmarshal(data, (*string)(c))
	}
	for _, p := range parts {
		if p.Type == "text" {
			*c += content(p.Text)
		}
	}
	return nil
}

func (c *client) send(ctx context.Context, noFormat, noTemperature, noCache bool, system, user, name string, schema any) (string, Usage, error) {
	body := map[string]any{"model": c.o.Model}
	if !noTemperature {
		body["temperature"] = 0
	}
	if noFormat {
		text, err := json.Marshal(schema)
		if err != nil {
			return "", Usage{}, err
		}
		system += "\nAnswer with one JSON object and nothing else. It conforms to this JSON Schema:\n" + string(text)
	} else {
		body["response_format"] = map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": name, "strict": true, "schema": schema}}
	}
	// The prompt comes before the session, so the provider can cache it.
	var prompt any = system
	if low := strings.ToLower(c.o.Model); !noCache && (strings.HasPrefix(low, "claude") || strings.HasPrefix(low, "anthropic/")) {
		prompt = []any{map[string]any{"type": "text", "text": system, "cache_control": map[string]string{"type": "ephemeral"}}}
	}
	body["messages"] = []map[string]any{{"role": "system", "content": prompt}, {"role": "user", "content": user}}
	data, err := json.Marshal(body)
	if err != nil {
		return "", Usage{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(c.o.URL, "/")+"/chat/completions", bytes.NewReader(data))
	if err != nil {
		return "", Usage{}, fmt.Errorf("distill.judge: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if c.o.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.o.Key)
	}
	var timedOut Usage // a provider charges even for an answer that comes too late
	res, err := c.o.HTTP.Do(req)
	if errors.Is(err, context.DeadlineExceeded) {
		timedOut = timedOut.withEstimate(len(data), 0)
	}
	if err != nil {
		return "", timedOut, fmt.Errorf("ask the judge: %w", err)
	}
	defer res.Body.Close() //nolint:errcheck // the body is only read
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxReply+1))
	if err != nil {
		return "", Usage{}.withEstimate(len(data), 0), fmt.Errorf("read the judge's answer: %w", err)
	}
	if location := res.Header.Get("Location"); res.StatusCode/100 == 3 && location != "" {
		return "", Usage{}, &statusError{res.StatusCode, fmt.Sprintf("precept does not follow the redirect to %q; if the judge is at this URL, set distill.judge to it", shorten(redactText(location), 200)), 0}
	}
	if res.StatusCode != http.StatusOK {
		return "", Usage{}, &statusError{res.StatusCode, shortBody(raw), c.retryAfter(res.Header)}
	}
	text, used, err := readReply(raw)
	return text, used.withEstimate(len(data), len(text)), err
}

func shortBody(raw []byte) string {
	return shorten(strings.Join(strings.Fields(redactText(string(raw[:min(len(raw), maxErrorBody)]))), " "), 300)
}

// Constants for Usage.withEstimate.
const (
	maxUsage      = 1 << 32 // tokens; larger numbers could make sums overflow
	bytesPerToken = 4       // to estimate a number that the server did not report
)

// withEstimate returns the usage, capped at maxUsage tokens. A missing number is estimated from the size of the request
// or answer in bytes.
func (u Usage) withEstimate(requestBytes, answerBytes int) Usage {
	if u.Input <= 0 {
		u.Input = int64(requestBytes / bytesPerToken)
	}
	if u.Output <= 0 {
		u.Output = int64(answerBytes / bytesPerToken)
	}
	return Usage{min(u.Input, maxUsage), min(u.Output, maxUsage)}
}

// readReply returns the answer's text from a response body. If the model refused, or the answer is truncated or
// missing, the error is ErrUnusable. If the body is an error or not a chat completion, the error is a statusError,
// because the operator must change the URL or the server.
func readReply(raw []byte) (string, Usage, error) {
	var reply chatReply
	if len(raw) > maxReply {
		return "", Usage{}, fmt.Errorf("%w: the text is longer than %d bytes", ErrUnusable, maxReply)
	}
	err := json.Unmarshal(raw, &reply)
	used := Usage{reply.Usage.Input, reply.Usage.Output}
	switch {
	case err == nil && len(reply.Error) > 0 && string(reply.Error) != "null" && len(reply.Choices) == 0:
		return "", used, &statusError{code: errorCode(reply.Error), body: shortBody(reply.Error)}
	case err != nil || reply.Choices == nil:
		return "", used, &statusError{code: http.StatusOK, body: "not a chat completion: " + shortBody(raw)}
	case len(reply.Choices) == 0:
		return "", used, fmt.Errorf("%w: the answer has no choices", ErrUnusable)
	case reply.Choices[0].Finish == "error":
		return "", used, &statusError{code: http.StatusBadGateway, body: "the answer ends with an error: " + shortBody(raw)}
	case reply.Choices[0].Message.Refusal != "":
		return "", used, fmt.Errorf("%w: the model refused", ErrUnusable)
	case reply.Choices[0].Finish == "length" || reply.Choices[0].Finish == "content_filter":
		return "", used, fmt.Errorf("%w: the answer is truncated (%s)", ErrUnusable, reply.Choices[0].Finish)
	}
	return string(reply.Choices[0].Message.Content), used, nil
}

func errorCode(raw json.RawMessage) int {
	var e struct{ Code int }
	if json.Unmarshal(raw, &e) != nil || e.Code < 400 || e.Code > 599 {
		return http.StatusBadGateway
	}
	return e.Code
}

func (c *client) retryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(text, 64); err == nil && s > 0 && s < 1e6 {
		return time.Duration(s * float64(time.Second))
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(c.o.Now()))
	}
	return 0
}

// maxJSONStarts is the maximum number of opening braces at which decode tries to decode an object.
const maxJSONStarts = 100

// decode decodes the JSON object in an answer. A code fence, reasoning, or prose with braces may surround the object.
func decode(text string, schema, out any) error {
	from, to := strings.IndexByte(text, '{'), strings.LastIndexByte(text, '}')
	if from < 0 || to < from {
		return fmt.Errorf("%w: the answer has no JSON object", ErrUnusable)
	}
	answer := text[from : to+1]
	if !json.Valid([]byte(answer)) {
		answer = cmp.Or(lastObject(answer, schema), answer)
	}
	if err := json.Unmarshal([]byte(answer), out); err != nil {
		return fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	return nil
}

// lastObject returns the last JSON object in a text with a property that the schema requires.
func lastObject(text string, schema any) (found string) {
	root, _ := schema.(jsonObject)
	required, _ := root["required"].([]string)
	for range maxJSONStarts {
		var properties map[string]json.RawMessage
		end, d := int64(1), json.NewDecoder(strings.NewReader(text))
		if d.Decode(&properties) == nil {
			end = d.InputOffset()
		}
		if slices.ContainsFunc(required, func(name string) bool { return properties[name] != nil }) {
			found = text[:end]
		}
		next := strings.IndexByte(text[end:], '{')
		if next < 0 {
			break
		}
		text = text[int(end)+next:]
	}
	return found
}
