package distill_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"precept/distill"
)

type reply struct {
	status int
	header string // name and value, separated by a colon
	body   string
}

// fakeTransport returns the replies in order, and then repeats the last reply. It records the requests.
type fakeTransport struct {
	replies []reply
	headers []http.Header
	bodies  []string
}

func (ft *fakeTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	ft.headers, ft.bodies = append(ft.headers, r.Header), append(ft.bodies, string(body))
	a := ft.replies[min(len(ft.bodies), len(ft.replies))-1]
	res := &http.Response{StatusCode: a.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(a.body)), Request: r}
	if name, value, ok := strings.Cut(a.header, ": "); ok {
		res.Header.Set(name, value)
	}
	return res, nil
}

// judgeEmptySession asks the judge about an empty session. It returns the judgement and the waits before retries.
func (ft *fakeTransport) judgeEmptySession(ctx context.Context, t *testing.T, change func(o *distill.ClientOptions)) (got distill.Judgement, waits []time.Duration, err error) {
	t.Helper()
	prompts, err := distill.LoadPrompts("")
	if err != nil {
		t.Fatal(err)
	}
	o := distill.ClientOptions{
		URL: "http://judge.example/v1/", Model: "m", HTTP: &http.Client{Transport: ft}, Now: func() time.Time { return time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC) },
		Wait: func(ctx context.Context, d time.Duration) error { waits = append(waits, d); return ctx.Err() },
	}
	if change != nil {
		change(&o)
	}
	got, err = distill.NewModel(o, prompts).Judge(ctx, &distill.Session{ID: "s"}, nil)
	return got, waits, err
}

var skipReply = reply{200, "", chatCompletion(`{"outcome":"skip","reason":"r"}`)} //nolint:gochecknoglobals // immutable

func TestWaitsForTheJudgeAreReported(t *testing.T) {
	var reports []string
	ft := &fakeTransport{replies: []reply{{429, "Retry-After: 7", "slow down"}, {500, "", "away"}, skipReply}}
	_, waits, err := ft.judgeEmptySession(t.Context(), t, func(o *distill.ClientOptions) {
		o.OnWait = func(err error, d time.Duration) { reports = append(reports, fmt.Sprint(d, " ", err)) }
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{waits[0].String() + " the judge answered with status 429: slow down", waits[1].String() + " the judge answered with status 500: away"}
	if !slices.Equal(reports, want) {
		t.Errorf("reported waits = %q, want %q", reports, want)
	}
}

// The client waits for Retry-After, but at most five minutes. It does not retry after a permanent error.
func TestJudgeRequestIsRetriedAfterTransientErrors(t *testing.T) {
	retryAfterReply := func(status int, value string) reply { return reply{status, "Retry-After: " + value, "slow down"} }
	for name, tc := range map[string]struct {
		replies []reply
		waits   string
		fails   string // "" means no error
	}{
		"success":                        {[]reply{skipReply}, "[]", ""},
		"server down":                    {[]reply{{500, "", "away"}}, "[1s 2s 4s 8s]", "the judge answered with status 500: away"},
		"server recovers":                {[]reply{{503, "", ""}, {502, "", ""}, skipReply}, "[1s 2s]", ""},
		"408 and 409":                    {[]reply{{408, "", ""}, {409, "", ""}, skipReply}, "[1s 2s]", ""},
		"unknown model":                  {[]reply{{404, "", "no model m"}}, "[]", "no model m; check distill.judge"},
		"forbidden":                      {[]reply{{403, "", ""}, skipReply}, "[]", "status 403"},
		"success without a body":         {[]reply{{204, "", ""}, skipReply}, "[]", "status 204"},
		"Retry-After in seconds":         {[]reply{retryAfterReply(429, "7"), skipReply}, "[7s]", ""},
		"Retry-After with half a second": {[]reply{retryAfterReply(503, "0.5"), skipReply}, "[500ms]", ""},
		"Retry-After as a date":          {[]reply{retryAfterReply(429, "Tue, 06 May 2031 07:09:39 GMT"), skipReply}, "[1m30s]", ""},
		"Retry-After in the past":        {[]reply{retryAfterReply(429, "Tue, 06 May 2031 07:00:00 GMT"), skipReply}, "[1s]", ""},
		"Retry-After with two hours":     {[]reply{retryAfterReply(429, "7200"), {500, "", ""}, skipReply}, "[5m0s 1m0s]", ""},
		"Retry-After with many years":    {[]reply{retryAfterReply(429, "1e9"), skipReply}, "[1s]", ""},
		"negative Retry-After":           {[]reply{retryAfterReply(429, "-7"), skipReply}, "[1s]", ""},
		"Retry-After not a number":       {[]reply{retryAfterReply(429, "soon"), skipReply}, "[1s]", ""},
		"answer without JSON":            {[]reply{{200, "", chatCompletion("hm")}}, "[1s]", "no JSON object"},
		"braces in the wrong order":      {[]reply{{200, "", chatCompletion("} {")}}, "[1s]", "no JSON object"},
		"outcome with the wrong type":    {[]reply{{200, "", chatCompletion(`{"outcome":7}`)}}, "[1s]", "cannot be used"},
		"redirect":                       {[]reply{{307, "Location: http://other.example/", ""}, skipReply}, "[]", `the redirect to "http://other.example/"`},
		"304":                            {[]reply{{304, "", "hm"}, skipReply}, "[]", "status 304: hm"},
		"404 with a Location":            {[]reply{{404, "Location: http://other.example/", "hm"}, skipReply}, "[]", "status 404: hm"},
		"response_format refused":        {[]reply{{422, "", "what is response_format"}, skipReply}, "[0s]", ""},
		"temperature refused":            {[]reply{{400, "", "Unsupported value: 'temperature' does not support 0"}, skipReply}, "[0s]", ""},
		"two unspecific 400s":            {[]reply{{400, "", "bad"}, {400, "", "worse"}, skipReply}, "[0s 0s]", ""},
		"three unspecific 400s":          {[]reply{{400, "", "bad"}, {400, "", "worse"}, {400, "", "worst"}, skipReply}, "[0s 0s]", "worst"},
		"session too long":               {[]reply{{400, "", "This model's maximum context length is 8192 tokens"}, skipReply}, "[]", "later runs skip the session"},
		"flagged content":                {[]reply{{403, "", "Your chosen model requires moderation and your input was flagged"}, skipReply}, "[]", "later runs skip the session"},
		"error from a gateway's server":  {[]reply{{200, "", `{"error":{"message":"overloaded","code":529}}`}, {200, "", `{"error":{"code":"x"}}`}, skipReply}, "[1s 2s]", ""},
		"gateway without credits":        {[]reply{{200, "", `{"error":{"message":"no credits","code":402}}`}, skipReply}, "[]", "status 402"},
		"answer that ends in an error":   {[]reply{{200, "", `{"choices":[{"finish_reason":"error","message":{"content":""}}]}`}, skipReply}, "[1s]", ""},
		"HTML page instead of an answer": {[]reply{{200, "", "<html>hello"}, skipReply}, "[]", "not a chat completion: <html>hello; check distill.judge"},
		"answer from a different API":    {[]reply{{200, "", `{"type":"message"}`}, skipReply}, "[]", "not a chat completion"},
		"braces around the answer":       {[]reply{{200, "", chatCompletion("As {asked}:\n```json\n{\"outcome\":\"skip\"}\n```\nReplace {x}.")}}, "[]", ""},
		"reasoning before the answer":    {[]reply{{200, "", chatCompletion(`<think>{"outcome": maybe} or {"outcome":"splendid"}?</think>{"outcome":"skip"}`)}}, "[]", ""},
		"answer in parts":                {[]reply{{200, "", `{"choices":[{"message":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"{"}]},{"type":"text","text":"{\"outcome\":\"skip\"}"}]}}]}`}}, "[]", ""},
		"only part of the answer":        {[]reply{{200, "", chatCompletion(`{"reason":{"outcome":1}, "x": {"y":2}`)}}, "[1s]", "cannot be used"},
		"filtered content":               {[]reply{{400, "", `{"code":"content_filter"}`}, skipReply}, "[]", "later runs skip the session"},
		"400, then server down":          {[]reply{{400, "", ""}, {500, "", ""}}, "[0s 1s 2s 4s]", "status 500"},
		"long error":                     {[]reply{{404, "", strings.Repeat("so  long ", 100)}}, "[]", strings.Repeat("so long ", 37) + "so …"},
	} {
		s := &fakeTransport{replies: tc.replies}
		_, waits, err := s.judgeEmptySession(t.Context(), t, nil)
		if checkEqual(t, name+": waits", waits, tc.waits); (err != nil) != (tc.fails != "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
			t.Errorf("%s: err = %v, want an error that contains %q (if empty: no error)", name, err, tc.fails)
		}
		if want := len(waits) + 1; len(s.bodies) != want {
			t.Errorf("%s: the server got %d requests, want %d", name, len(s.bodies), want)
		}
	}
}

// If the server refuses the parameter response_format, later requests contain the schema in the prompt instead.
func TestJudgeRequestHasKeyAndSchema(t *testing.T) {
	s := &fakeTransport{replies: []reply{{400, "", "bad"}, {200, "", chatCompletion(`{"outcome":"success","reason":"r"}`)}, {200, "", chatCompletion(noLessons)}}}
	if _, _, err := s.judgeEmptySession(t.Context(), t, nil); err != nil {
		t.Fatal(err)
	}
	for i, structured := range []bool{true, false, false} {
		var body struct {
			Format   json.RawMessage `json:"response_format"`
			Messages []struct{ Role, Content string }
		}
		if err := json.Unmarshal([]byte(s.bodies[i]), &body); err != nil || (len(body.Format) > 0) != structured || strings.Contains(body.Messages[0].Content, `"additionalProperties":false`) == structured {
			t.Errorf("request %d: err = %v, want the schema only in %s; body:\n%s", i, err, map[bool]string{true: "response_format", false: "the prompt"}[structured], s.bodies[i])
		}
		if h := s.headers[i]; h.Get("Content-Type") != "application/json" {
			t.Errorf(`request %d: Content-Type = %q, want "application/json"`, i, h.Get("Content-Type"))
		} else if h["Authorization"] != nil {
			t.Errorf(`request %d: h["Authorization"] = %q, want nil`, i, h["Authorization"])
		}
	}
	s = &fakeTransport{replies: []reply{skipReply}}
	if _, _, err := s.judgeEmptySession(t.Context(), t, func(o *distill.ClientOptions) { o.Key = "k-1" }); err != nil {
		t.Error(err)
	} else if s.headers[0].Get("Authorization") != "Bearer k-1" {
		t.Errorf(`with a key: Authorization = %q, want "Bearer k-1"`, s.headers[0].Get("Authorization"))
	}
}

// The waits are random, because otherwise several replicas would retry at the same moment.
func TestRetryWaitsAreRandomized(t *testing.T) {
	seen := map[time.Duration]bool{}
	for replica := range 20 {
		s := &fakeTransport{replies: []reply{{400, "", ""}, {500, "", ""}, skipReply}}
		_, waits, err := s.judgeEmptySession(t.Context(), t, func(o *distill.ClientOptions) {
			o.Now = func() time.Time { return time.Date(2031, 5, 6, 7, 8, 9, replica*50_000_000, time.UTC) }
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(waits) != 2 {
			t.Fatalf("waits = %v, want 2 items", waits)
		}
		if waits[0] != 0 {
			t.Fatalf("waits: waits[0] = %v, want 0", waits[0])
		}
		if waits[1] > time.Minute+15*time.Second {
			t.Fatalf("waits: waits[1] = %v, want at most %v", waits[1], time.Minute+15*time.Second)
		}
		seen[waits[1]] = true
	}
	if len(seen) != 20 {
		t.Errorf("20 replicas: got %d different waits, want 20", len(seen))
	}
}

// If the server does not report how many tokens a request used, the client estimates the number. The tokens of an
// unusable answer also count.
func TestAnswerTokensAreCounted(t *testing.T) {
	completion := func(finishReason, refusal, usage string, pad int) string {
		return fmt.Sprintf(`{"choices":[{"finish_reason":%q,"message":{"content":"{\"outcome\":\"skip\"}","refusal":%q}}],"usage":{%s}}`, finishReason, refusal, usage) + strings.Repeat(" ", pad)
	}
	size := len(completion("stop", "", "", 0))
	for name, tc := range map[string]struct {
		body, fails   string
		input, output int64 // 0 means estimated
	}{
		"reported":              {body: completion("stop", "", `"prompt_tokens":7,"completion_tokens":3`, 0), input: 7, output: 3},
		"not reported":          {body: completion("stop", "", "", 0), output: 4},
		"partly reported":       {body: completion("stop", "", `"prompt_tokens":7`, 0), input: 7, output: 4},
		"implausibly high":      {body: completion("stop", "", `"prompt_tokens":9000000000000,"completion_tokens":3`, 0), input: 1 << 32, output: 3},
		"at the length limit":   {body: completion("stop", "", "", 1<<20-size), output: 4},
		"too long":              {body: completion("stop", "", "", 1<<20-size+1), fails: "longer than 1048576 bytes"},
		"truncated":             {body: completion("length", "", "", 0), fails: "truncated (length)"},
		"truncated by a filter": {body: completion("content_filter", "", "", 0), fails: "truncated (content_filter)"},
		"refusal with content":  {body: completion("stop", "I will not", "", 0), fails: "refused"},
		"no choices":            {body: `{"choices":[]}`, fails: "no choices"},
	} {
		s := &fakeTransport{replies: []reply{{200, "", tc.body}}}
		got, _, err := s.judgeEmptySession(t.Context(), t, nil)
		if tc.fails != "" {
			if !errors.Is(err, distill.ErrUnusable) {
				t.Errorf("%s error = %v, want distill.ErrUnusable", name, err)
			}
			if !strings.Contains(err.Error(), tc.fails) {
				t.Errorf("%s: error = %q, want substring %q", name, err.Error(), tc.fails)
			}
			if got.Usage.Input == 0 {
				t.Errorf("%s: Input = 0, want at least 1", name)
			}
			continue
		}
		input := tc.input
		if input == 0 {
			input = int64(len(s.bodies[0]) / 4)
		}
		if want := (distill.Usage{Input: input, Output: tc.output}); err != nil {
			t.Errorf("%s: error = %v", name, err)
		} else if got.Usage != want {
			t.Errorf("%s: Usage = %+v, want %+v", name, got.Usage, want)
		}
	}
}

func TestCanceledContextEndsRetries(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := &fakeTransport{replies: []reply{{500, "", ""}}}
	if _, waits, err := s.judgeEmptySession(ctx, t, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled context: error = %v, want context.Canceled", err)
	} else if len(waits) > 1 {
		t.Errorf("canceled context: waits = %v, want at most 1 item", waits)
	} else if len(s.bodies) > 1 {
		t.Errorf("canceled context: bodies = %q, want at most 1 item", s.bodies)
	}
}

// The server refuses either temperature or cache_control. The next request omits only the refused parameter.
func TestOnlyRefusedParameterIsDropped(t *testing.T) {
	for refused, kept := range map[string]string{"temperature": `"cache_control"`, "cache_control": `"temperature":0`} {
		s := &fakeTransport{replies: []reply{{400, "", "Unsupported parameter: '" + refused + "'"}, skipReply}}
		if _, _, err := s.judgeEmptySession(t.Context(), t, func(o *distill.ClientOptions) { o.Model = "claude-x" }); err != nil {
			t.Fatal(err)
		}
		if second := s.bodies[1]; strings.Contains(second, refused) || !strings.Contains(second, kept) {
			t.Errorf("request after the server refused %s:\n%s\nwant %s, but not the refused parameter", refused, second, kept)
		}
	}
}
