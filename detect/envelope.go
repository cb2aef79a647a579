package detect

import (
	"slices"
	"strconv"
	"strings"
)

// envelope judges a result that is JSON (or a Python literal): success, error, exit code and status
// fields of the object itself and of the places where APIs wrap their answer. Fields of the data
// inside are data. inner is the text that the envelope carries, to be judged as text; said is false
// when the structure settles nothing.
func envelope(v laxValue, call *toolCall, depth int) (judgement Judgement, said bool) {
	switch v.kind {
	case laxObject:
		return objectJudgement(v, call, depth)
	case laxArray:
		return arrayJudgement(v, call, depth)
	case laxNone, laxString, laxNumber, laxBool:
	}
	return Judgement{}, false
}

func arrayJudgement(v laxValue, call *toolCall, depth int) (Judgement, bool) {
	var texts []string
	ran := 0
	for _, e := range v.vals {
		if kind, ok := e.get("type"); ok && kind.raw == "text" {
			if t, ok := e.get("text"); ok {
				texts = append(texts, t.text())
			}
		}
		ok, has := e.get("success")
		if _, query := e.get("query", "command", "result"); has && query && ok.kind == laxBool {
			ran++
			if !ok.yes {
				if judgement, said := objectJudgement(e, call, depth+1); said {
					return judgement, true
				}
			}
		}
	}
	if len(texts) > 0 && len(texts) == len(v.vals) {
		return classifyText(strings.Join(texts, "\n"), call, depth+1), true
	}
	if ran > 0 && ran == len(v.vals) {
		return Judgement{Outcome: OK, Rule: "json:success", Sure: true}, true
	}
	return Judgement{}, false
}

func objectJudgement(v laxValue, call *toolCall, depth int) (Judgement, bool) {
	known := call.known
	if depth > 3 {
		return Judgement{}, false
	}
	if by, rule, ok := known.refusedInside(v); ok {
		return Judgement{Outcome: Refusal, Rule: "refusal:" + rule, By: by}, true
	}
	if judgement, ok := exitField(v, call); ok {
		return judgement, true
	}
	for _, rule := range [...]func(laxValue) (Judgement, bool){
		known.errorField, known.statusField, known.pendingField, known.messageOnly,
	} {
		if judgement, ok := rule(v); ok {
			return judgement, true
		}
	}
	if judgement, ok := wrapped(v, call, depth); ok {
		return judgement, true
	}
	if ok, has := v.get("success", "ok"); has && ok.kind == laxBool && ok.yes {
		return Judgement{Outcome: OK, Rule: "json:success", Sure: true}, true
	}
	return Judgement{}, false
}

// refusedInside: a harness's refusal as the error of an envelope.
func (p *phrases) refusedInside(v laxValue) (Refuser, string, bool) {
	for _, k := range []string{"error", "message", "result", "output"} {
		if e, ok := v.get(k); ok && e.kind == laxString {
			if by, rule, ok := p.readRefusal(e.text()); ok {
				return by, rule, true
			}
		}
	}
	return NoRefuser, "", false
}

// exitField: {"stdout":...,"exit_code":3}, {"output":...,"metadata":{"exit_code":1}}.
func exitField(v laxValue, call *toolCall) (Judgement, bool) {
	code, ok := v.get("exit_code", "exitCode", "exit_status", "returncode", "return_code", "exitstatus")
	if !ok {
		if meta, has := v.get("metadata", "meta"); has {
			code, ok = meta.get("exit_code", "exitCode")
		}
	}
	n := code.num
	if code.kind == laxString {
		parsed, err := strconv.Atoi(code.raw)
		if err != nil {
			return Judgement{}, false
		}
		n = float64(parsed)
	}
	if !ok || code.kind != laxNumber && code.kind != laxString {
		return Judgement{}, false
	}
	var printed []string
	for _, k := range []string{"stdout", "output", "stderr"} {
		if s, ok := v.get(k); ok && s.kind == laxString {
			printed = append(printed, s.text())
		}
	}
	body := strings.TrimSpace(strings.Join(printed, "\n"))
	return exitJudgement(shellResult{body: body, code: int(n), coded: true, empty: body == ""}, call), true
}

// errorField: success:false, isError, a filled error field.
func (p *phrases) errorField(v laxValue) (Judgement, bool) {
	if e, ok := v.get("isError", "is_error"); ok && e.kind == laxBool && e.yes {
		return Judgement{Outcome: Error, Rule: "json:is-error"}, true
	}
	if s, ok := v.get("success", "ok", "succeeded"); ok && (s.kind == laxBool && !s.yes || s.kind == laxString && strings.EqualFold(s.raw, "false") || s.kind == laxNumber && s.num == 0 && len(v.keys) <= 4) {
		return Judgement{Outcome: Error, Rule: "json:success"}, true
	}
	if e, ok := v.get(p.lists["key error"]...); ok && !e.empty() {
		if e.kind != laxString || !p.is("no-error", strings.ToLower(e.raw)) {
			return Judgement{Outcome: Error, Rule: "json:error"}, true
		}
	}
	if e, ok := v.get(p.lists["key error-code"]...); ok && e.kind == laxNumber && e.num != 0 {
		return Judgement{Outcome: Error, Rule: "json:error"}, true
	}
	if e, ok := v.get("errorMessages", "error_messages"); ok && e.kind == laxArray && !e.empty() { // Jira
		return Judgement{Outcome: Error, Rule: "json:errors"}, true
	}
	if e, ok := v.get("detail"); ok && e.kind == laxArray && !e.empty() && len(v.keys) == 1 { // FastAPI
		if _, where := e.vals[0].get("loc"); where {
			return Judgement{Outcome: Error, Rule: "json:errors"}, true
		}
	}
	_, verdict := v.get("valid", "is_valid", "isvalid") // what was validated has them, not the call
	if e, ok := v.get("errors"); ok && !verdict && (e.kind == laxArray || e.kind == laxObject) && !e.empty() {
		if data, has := v.get("data", "result"); !has || data.empty() { // GraphQL answers in part
			return Judgement{Outcome: Error, Rule: "json:errors"}, true
		}
	}
	return Judgement{}, false
}

// statusField: {"status":404,"title":...}, {"statusCode":"500"}, {"status":"error"}.
func (p *phrases) statusField(v laxValue) (Judgement, bool) {
	if s, ok := v.get("status", "result"); ok && s.kind == laxString {
		switch strings.ToLower(s.raw) {
		case "error":
			return Judgement{Outcome: Error, Rule: "json:status"}, true
		case "fail", "failed", "failure":
			// The status of a thing that was asked for is data; a status beside a reason is the
			// call's own.
			if _, reasoned := v.get("message", "reason", "error", "msg", "detail"); reasoned && len(v.keys) <= 6 || len(v.keys) <= 2 {
				return Judgement{Outcome: Error, Rule: "json:status"}, true
			}
		}
	}
	_, reasoned := v.get(p.lists["key reason"]...)
	for _, k := range p.lists["key status"] {
		s, ok := v.get(k)
		if !ok || !reasoned || s.kind != laxNumber && s.kind != laxString || len(s.raw) != 3 || !failStatus(s.raw) {
			continue
		}
		n, _ := strconv.Atoi(s.raw)
		return Judgement{Outcome: Error, Rule: "json:http", Code: n}, true
	}
	return Judgement{}, false
}

// pendingField: a task that goes on. An order that is "pending" is data: only a task's own id makes
// it a task.
func (p *phrases) pendingField(v laxValue) (Judgement, bool) {
	s, ok := v.get("status", "state")
	if !ok || s.kind != laxString || len(v.keys) > 8 {
		return Judgement{}, false
	}
	if _, task := v.get(p.lists["key task"]...); task && p.is("runs-on", strings.ToLower(s.raw)) {
		return Judgement{Outcome: Pending, Rule: "json:status"}, true
	}
	return Judgement{}, false
}

// messageOnly: an answer that holds nothing but a complaint: {"message":"Not Found"},
// {"detail":"..."}.
func (p *phrases) messageOnly(v laxValue) (Judgement, bool) {
	if done, ok := v.get("success", "ok"); len(v.keys) == 0 || len(v.keys) > 5 || ok && done.kind == laxBool {
		return Judgement{}, false
	}
	said := ""
	for i, k := range v.keys {
		switch {
		case p.isKey("message", k):
			if v.vals[i].kind == laxString && len(v.vals[i].raw) > len(said) {
				said = v.vals[i].text()
			}
		case !p.isKey("beside-message", k):
			return Judgement{}, false
		}
	}
	if said != "" && p.complains(said) {
		return Judgement{Outcome: Error, Rule: "json:message"}, true
	}
	return Judgement{}, false
}

// wrapped looks into the places where envelopes carry the answer.
func wrapped(v laxValue, call *toolCall, depth int) (Judgement, bool) {
	for _, k := range []string{"response", "result", "output", "body", "content", "observation", "text"} {
		inner, ok := v.get(k)
		if !ok {
			continue
		}
		if inner.kind == laxObject || inner.kind == laxArray {
			if judgement, said := envelope(inner, call, depth+1); said {
				return judgement, true
			}
			continue
		}
		if inner.kind != laxString || len(v.keys) > 4 || (k == "body" || k == "content" || k == "text") && !call.known.carries(v, k) {
			continue
		}
		if t := inner.text(); strings.TrimSpace(t) != "" {
			judgement := classifyText(t, call, depth+1)
			return judgement, judgement.Outcome != OK || judgement.Sure
		}
	}
	if len(v.vals) == 1 && v.vals[0].kind == laxString && strings.Contains(v.vals[0].text(), "\n") { // lines under any name
		judgement := classifyText(v.vals[0].text(), call, depth+1)
		return judgement, judgement.Outcome != OK || judgement.Sure
	}
	return Judgement{}, false
}

// carries: what the field holds is the answer, and no part of a thing that was asked for, such as
// the body of an issue or the content of a file: nothing stands beside it but how it went.
func (p *phrases) carries(v laxValue, field string) bool {
	return !slices.ContainsFunc(v.keys, func(k string) bool {
		return !strings.EqualFold(k, field) && !p.isKey("beside-text", k)
	})
}
