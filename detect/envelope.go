package detect

import (
	"slices"
	"strconv"
	"strings"
)

// An envelope is the JSON or Python literal that an API or a harness writes around an answer.

// judgeEnvelope judges a result by the fields for success, error, exit code and status in the envelope v. Nested
// objects are data. The exception is the wrapped answer, which can be another envelope. depth is the number of
// envelopes around v.
func judgeEnvelope(v lenientValue, call *toolCall, depth int) (judgement Judgement, decided bool) {
	if v.kind == arrayValue {
		return judgeArray(v, call, depth)
	}
	return judgeObject(v, call, depth)
}

// judgeArray judges an array of text parts, or of results with a success field.
func judgeArray(v lenientValue, call *toolCall, depth int) (Judgement, bool) {
	var texts []string
	results := 0
	for _, e := range v.vals {
		if kind, ok := e.get("type"); ok && kind.raw == "text" {
			t, _ := e.get("text")
			texts = append(texts, t.text())
		}
		ok, _ := e.get("success")
		if _, isResult := e.get("query", "command", "result"); isResult && ok.kind == boolValue {
			results++
			if !ok.isTrue {
				if judgement, found := judgeObject(e, call, depth+1); found {
					return judgement, true
				}
			}
		}
	}
	if len(v.vals) == 1 {
		if code, _ := v.vals[0].get(call.phrases.lists["key error-code"]...); !code.isEmpty() && call.phrases.errorField(v.vals[0]) != "" { // Salesforce
			return Judgement{Outcome: Error, Rule: "json:error"}, true
		}
	}
	if len(texts) > 0 && len(texts) == len(v.vals) {
		return judgeText(strings.Join(texts, "\n"), call, depth+1), true
	}
	if results > 0 && results == len(v.vals) {
		return Judgement{Outcome: OK, Rule: "json:success", ReportsSuccess: true}, true
	}
	return Judgement{}, false
}

func judgeObject(v lenientValue, call *toolCall, depth int) (Judgement, bool) {
	p := call.phrases
	if depth > 3 {
		return Judgement{}, false
	}
	if refuser, rule := p.refusalField(v); refuser != NoRefuser {
		return Judgement{Outcome: Refusal, Rule: "refusal:" + rule, Refuser: refuser}, true
	}
	if judgement, ok := judgeExitField(v, call); ok {
		return judgement, true
	}
	if rule := p.errorField(v); rule != "" && !(rule == "json:errors" && call.listsErrors(v)) {
		return Judgement{Outcome: Error, Rule: rule}, true
	}
	if call.countsFailedTests(v) {
		return Judgement{Outcome: Error, Rule: "json:tests"}, true
	}
	if judgement, ok := judgeStatusField(v, call); ok {
		return judgement, true
	}
	if p.isUnfinishedTask(v) {
		return Judgement{Outcome: Pending, Rule: "json:status"}, true
	}
	if judgement, ok := judgeOutputFields(v, call); ok {
		return judgement, true
	}
	if p.isOnlyErrorMessage(v) {
		return Judgement{Outcome: Error, Rule: "json:message"}, true
	}
	if judgement, ok := judgeWrapped(v, call, depth); ok {
		return judgement, true
	}
	if success, _ := v.get("success", "ok"); success.kind == boolValue && success.isTrue {
		return Judgement{Outcome: OK, Rule: "json:success", ReportsSuccess: true}, true
	}
	return Judgement{}, false
}

// listsErrors reports whether the agent asked for the errors in v, as in {"errors":[...],"total":2} from list_errors.
func (c *toolCall) listsErrors(v lenientValue) bool {
	return len(v.keys) > 1 && c.nameHas("error", "errors", "exceptions", "issues", "problems", "diagnostics", "logs", "failures")
}

func (c *toolCall) countsFailedTests(v lenientValue) bool {
	failed, _ := v.get("failed", "failures", "numFailedTests", "failing")
	_, hasPassed := v.get("passed", "passes", "numPassedTests", "passing")
	return failed.kind == numberValue && failed.num > 0 && hasPassed && (c.purpose == purposeExec || c.nameHas("test", "tests", "spec", "specs", "suite"))
}

func (p *phrases) refusalField(v lenientValue) (refuser Refuser, rule string) {
	for _, k := range []string{"error", "message", "result", "output"} {
		if e, _ := v.get(k); e.kind == stringValue {
			if refuser, rule := p.readRefusal(e.text()); refuser != NoRefuser {
				return refuser, rule
			}
		}
	}
	return NoRefuser, ""
}

// judgeExitField reads {"stdout":...,"exit_code":3} and {"output":...,"metadata":{"exit_code":1}}.
func judgeExitField(v lenientValue, call *toolCall) (Judgement, bool) {
	code, ok := v.get(call.phrases.lists["key exit"]...)
	if !ok {
		if meta, has := v.get("metadata", "meta"); has {
			code, ok = meta.get(call.phrases.lists["key exit"]...)
		}
	}
	_, hasStreams := v.get("stdout", "stderr")
	if _, hasOutput := v.get("output", "out"); hasStreams || hasOutput && call.purpose == purposeExec && len(v.keys) <= 4 {
		if timedOut, _ := v.get("timed_out", "timedOut", "timeout"); timedOut.kind == boolValue && timedOut.isTrue {
			return Judgement{Outcome: Error, Rule: "json:timeout"}, true
		}
		if killed, _ := v.get("killed"); killed.kind == boolValue && killed.isTrue {
			return Judgement{Outcome: Error, Rule: "json:killed"}, true
		}
		if state, _ := v.get("status", "state"); call.phrases.inList("timed-out", strings.ToLower(state.raw)) {
			return Judgement{Outcome: Error, Rule: "json:timeout"}, true
		}
		if !ok { // next to an output field, "code" or "status" is the exit code
			code, ok = v.get(call.phrases.lists["key exit-beside"]...)
		}
	}
	n, err := strconv.Atoi(code.raw)
	if !ok || err != nil {
		return Judgement{}, false
	}
	var printed []string
	for _, k := range []string{"stdout", "output", "stderr"} {
		if s, _ := v.get(k); s.kind == stringValue {
			printed = append(printed, s.text())
		}
	}
	body := strings.TrimSpace(strings.Join(printed, "\n"))
	return judgeExit(shellResult{body: body, code: n, hasCode: true, isEmpty: body == ""}, call), true
}

func judgeOutputFields(v lenientValue, call *toolCall) (Judgement, bool) {
	stdout, _ := v.get("stdout")
	stderr, ok := v.get("stderr")
	if !ok || stderr.kind != stringValue || call.readsFile() {
		return Judgement{}, false
	}
	body := strings.TrimSpace(stdout.text() + "\n" + stderr.text())
	return judgeExit(shellResult{phrases: call.phrases, body: body, isEmpty: body == ""}, call), true
}

// errorField returns the rule for the first field that reports an error, such as success:false or isError:true, or "".
func (p *phrases) errorField(v lenientValue) string {
	if e, _ := v.get("isError", "is_error"); e.isTrue {
		return "json:is-error"
	}
	if s, _ := v.get("success", "ok", "succeeded", "exito", "erfolg", "sucesso", "succes"); isFalse(s, v) {
		return "json:success"
	}
	e, _ := v.get(p.lists["key error"]...)
	if !e.isEmpty() && !p.inList("no-error", strings.ToLower(e.raw)) {
		return "json:error"
	}
	if e, _ := v.get(p.lists["key error-code"]...); e.num != 0 || e.kind == stringValue && !e.isEmpty() && !p.inList("no-error", strings.ToLower(e.raw)) {
		return "json:error"
	}
	if isFailureCode(v) {
		return "json:code"
	}
	if e, _ := v.get("errorMessages", "error_messages"); len(e.vals) > 0 { // Jira
		return "json:errors"
	}
	if e, _ := v.get("detail"); len(e.vals) > 0 && len(v.keys) == 1 { // FastAPI
		if _, hasLocation := e.vals[0].get("loc"); hasLocation {
			return "json:errors"
		}
	}
	if outcomes, ok := v.get("data"); hasOnlyFailures(v) || ok && hasOnlyFailures(outcomes) {
		return "json:failed"
	}
	// The errors that a validator returns are about the checked object, so the call succeeded. GraphQL may return
	// errors together with data.
	_, isValidation := v.get("valid", "is_valid", "isvalid")
	data, _ := v.get("data", "result")
	e, _ = v.get("errors")
	if !isValidation && data.isEmpty() && e.kind != numberValue && !e.isEmpty() {
		return "json:errors"
	}
	return ""
}

// hasOnlyFailures matches {"success":[],"failed":[{...}]}, as Home Assistant answers.
func hasOnlyFailures(v lenientValue) bool {
	failed, _ := v.get("failed")
	succeeded, _ := v.get("success", "succeeded", "successful")
	return len(failed.vals) > 0 && succeeded.kind == arrayValue && succeeded.isEmpty()
}

// isFailureCode matches {"code":40012,"msg":"...","data":null}. In this form, which is common in Chinese APIs, the
// codes 0 and 200 mean success, and a failure has no data.
func isFailureCode(v lenientValue) bool {
	code, _ := v.get("code")
	message, _ := v.get("msg", "message")
	data, hasData := v.get("data", "result")
	isFailure := code.kind == numberValue && code.num != 0 && (code.num < 200 || code.num >= 300) ||
		code.kind == stringValue && strings.ContainsAny(code.raw, "123456789") && !strings.HasPrefix(code.raw, "2")
	return isFailure &&
		message.kind == stringValue && !strings.EqualFold(message.raw, "success") && !strings.EqualFold(message.raw, "ok") &&
		hasData && data.isEmpty()
}

// isFalse reports whether a field is false, or 0 in a small object. In a large object, 0 may be a count.
func isFalse(field, object lenientValue) bool {
	return strings.EqualFold(field.raw, "false") ||
		field.kind == numberValue && field.num == 0 && len(object.keys) <= 4
}

// judgeStatusField reads {"status":404,"title":...}, {"statusCode":"500"} and {"status":"error"}.
func judgeStatusField(v lenientValue, call *toolCall) (Judgement, bool) {
	switch s, _ := v.get("status", "result"); strings.ToLower(s.raw) {
	case "error":
		return Judgement{Outcome: Error, Rule: "json:status"}, true
	case "fail", "failed", "failure":
		// If the object also has a reason, or is very small, the status is about the call. The same holds for a change
		// without the id of a new object. Otherwise, the status describes the requested object, such as a failed
		// payment.
		_, hasReason := v.get("message", "reason", "error", "msg", "detail")
		hasID := slices.ContainsFunc(v.keys, func(k string) bool { return k == "id" || strings.HasSuffix(k, "_id") || strings.HasSuffix(k, "Id") })
		if hasReason && len(v.keys) <= 6 || len(v.keys) <= 2 || call.changesState() && len(v.keys) <= 4 && !hasID {
			return Judgement{Outcome: Error, Rule: "json:status"}, true
		}
	}
	_, hasReason := v.get(call.phrases.lists["key reason"]...)
	if kind, _ := v.get("type"); hasReason && len(v.keys) <= 4 && kind.raw == "error" {
		return Judgement{Outcome: Error, Rule: "json:status"}, true
	}
	if !hasReason {
		return Judgement{}, false
	}
	for _, k := range call.phrases.lists["key status"] {
		s, _ := v.get(k)
		if n, err := strconv.Atoi(s.raw); err == nil && startsWithFailStatus(s.raw) {
			return Judgement{Outcome: Error, Rule: "json:http", Code: n}, true
		}
	}
	return Judgement{}, false
}

// isUnfinishedTask reports whether v describes a running task. It requires a task id, because an order can also have
// the status "pending".
func (p *phrases) isUnfinishedTask(v lenientValue) bool {
	s, _ := v.get("status", "state")
	_, hasTaskID := v.get(p.lists["key task"]...)
	return hasTaskID && len(v.keys) <= 8 && p.inList("runs-on", strings.ToLower(s.raw))
}

// isOnlyErrorMessage reports whether v has only an error message, as in {"message":"Not Found"}. v may also have keys
// in the "key beside-message" list, such as a path.
func (p *phrases) isOnlyErrorMessage(v lenientValue) bool {
	if done, _ := v.get("success", "ok"); len(v.keys) > 5 || done.kind == boolValue {
		return false
	}
	message := ""
	for i, k := range v.keys {
		switch {
		case p.isKey("message", k):
			if len(v.vals[i].raw) > len(message) {
				message = v.vals[i].text()
			}
		case !p.isKey("beside-message", k):
			return false
		}
	}
	return p.isErrorMessageField(message)
}

// judgeWrapped judges the answer inside an envelope, such as the text in {"result":"..."}.
func judgeWrapped(v lenientValue, call *toolCall, depth int) (Judgement, bool) {
	for _, k := range call.phrases.lists["key answer"] {
		inner, _ := v.get(k)
		switch {
		case inner.kind == objectValue || inner.kind == arrayValue:
			if judgement, found := judgeEnvelope(inner, call, depth+1); found {
				return judgement, true
			}
		case inner.kind != stringValue || len(v.keys) > 4 || !call.phrases.isAnswerField(v, k):
		case strings.TrimSpace(inner.text()) != "":
			judgement := judgeText(inner.text(), call, depth+1)
			return judgement, judgement.Outcome != OK || judgement.ReportsSuccess
		}
	}
	if len(v.vals) == 1 && strings.Contains(v.vals[0].text(), "\n") { // an answer with several lines, under any key
		judgement := judgeText(v.vals[0].text(), call, depth+1)
		return judgement, judgement.Outcome != OK || judgement.ReportsSuccess
	}
	return Judgement{}, false
}

// isAnswerField reports whether a field of v can be a wrapped answer. If there are other fields, a body, content or
// text field is data, such as the text of an issue.
func (p *phrases) isAnswerField(v lenientValue, field string) bool {
	if field != "body" && field != "content" && field != "text" {
		return true
	}
	return !slices.ContainsFunc(v.keys, func(k string) bool {
		return !strings.EqualFold(k, field) && !p.isKey("beside-text", k)
	})
}
