package agents

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"precept/test/harness"
)

const (
	taskSlug  = "[check-the-target]" // in the block of the lesson about the task
	errorSlug = "read-the-message"   // lesson about the tool error errorText
	errorText = "no rule to make target"
	loopLabel = "[LOOP DETECTED]"
	loopEnd   = "[END LOOP DETECTED]"
)

// The row methods in this file compare the requests that reach the model with the agent's requests and with the
// requests in a direct run (a run without precept). A main request asks for the next step in the task; a side request
// asks for a title or a summary. A block is text that precept inserts: a lesson or a loop warning.

func (r *row) checkOutcome(direct, through *sandboxedAgent) {
	r.set("exit", "", nonEmpty(
		problemUnless(slices.Equal(direct.exitCodes, through.exitCodes), "%v directly, %v through precept: %s", direct.exitCodes, through.exitCodes, through.outputs),
		problemUnless(slices.Max(direct.exitCodes) == 0, "direct run: exit codes %v: %s", direct.exitCodes, direct.outputs))...)
	var control row // checks checkBlocks itself: a direct run has no blocks, so checkBlocks must report faults
	control.checkBlocks(direct)
	r.set("control", "", problemUnless(control.cells["lesson"].problem != "" && (direct.agent.editsWithoutTools || control.cells["loop"].problem != ""), "checkBlocks finds no fault in a direct run"))
	d, p := requestCounts(direct.requestsByCall()), requestCounts(through.requestsByCall())
	wantOthers, others := direct.model.OtherRequests(), through.model.OtherRequests()
	upgrades, wantUpgrades := through.tap.countAnswers("GET", 426), direct.tap.countAnswers("GET", 426)
	r.set("requests", strings.Trim(fmt.Sprint(p), "[]"), nonEmpty(
		problemUnless(slices.Equal(d, p), "%v main requests directly, %v through precept", d, p),
		problemUnless(len(d) > 0 && d[0] >= 5, "%v main requests, want at least 5 in the first call, in which the agent runs the scripts", d),
		problemUnless(upgrades == wantUpgrades && (upgrades > 0) == direct.agent.triesWebSocket, "%d websocket attempts answered 426 directly, %d through precept", wantUpgrades, upgrades),
		problemUnless(slices.Equal(wantOthers, others), "other requests: %v directly, %v through precept", wantOthers, others))...)
}

func requestCounts(calls [][]harness.ModelRequest) (n []int) {
	for _, c := range calls {
		n = append(n, len(c))
	}
	return n
}

// sentItems returns the messages or input items in the agent's own request, before precept changed it.
func (s *sandboxedAgent) sentItems(a *harness.ModelRequest) []any {
	var sent harness.ModelRequest
	_ = json.Unmarshal(s.tap.agentRequest(a).body, &sent.Body)
	return sent.Items()
}

// checkLists checks that each request repeats the previous request's list, unless the agent changed it.
func (r *row) checkLists(agentRun *sandboxedAgent) {
	if agentRun.agent.sendsDeltas {
		r.notApplicable("prefix")
		return
	}
	mains := agentRun.mainRequests()
	var problems []string
	stable := 0
	for i := 1; i < len(mains); i++ {
		before, after := &mains[i-1], &mains[i]
		switch {
		case isPrefix(before.Items(), after.Items()):
			stable++
		case isPrefix(agentRun.sentItems(before), agentRun.sentItems(after)):
			problems = append(problems, fmt.Sprintf("request %d does not begin with request %d's list, although the agent's request does", i, i-1))
		}
	}
	r.set("prefix", fmt.Sprintf("%d/%d", stable, len(mains)-1), problems...)
}

func (r *row) checkBlocks(agentRun *sandboxedAgent) {
	mains := agentRun.mainRequests()
	var lesson, loop, altered []string
	warning, lessons, loops := "", 0, 0
	for i := range mains {
		m := &mains[i]
		n, k := strings.Count(m.Raw, taskSlug), strings.Count(m.Raw, loopLabel)
		lessons, loops = lessons+n, loops+k
		if !agentRun.agent.sendsDeltas {
			lesson = append(lesson, problemUnless(n == 1, "request %d has %d lessons, want 1", i, n))
			want := 0
			if i >= 2 && !agentRun.agent.editsWithoutTools {
				want = 1
			}
			loop = append(loop, problemUnless(k == want, "request %d has %d loop warnings, want %d", i, k, want))
		}
		if _, rest, ok := strings.Cut(m.Raw, loopLabel); ok {
			text, _, _ := strings.Cut(rest, loopEnd)
			loop = append(loop, problemUnless(warning == "" || warning == text, "request %d: got loop warning %q, want %q as in earlier requests", i, text, warning))
			warning = text
		}
		altered = append(altered, problemUnless(equalWithoutBlocks(m.Raw, string(agentRun.tap.agentRequest(m).body)), "request %d differs from the agent's request in more than the blocks\nsent %s\ngot  %s", i, agentRun.tap.agentRequest(m).body, m.Raw))
	}
	if agentRun.agent.sendsDeltas {
		lesson = append(lesson, problemUnless(lessons == 1, "lessons in all requests: got %d, want 1", lessons))
		loop = append(loop, problemUnless(loops == 1, "loop warnings in all requests: got %d, want 1", loops))
	}
	r.set("lesson", "", nonEmpty(lesson...)...)
	r.set("loop", "", nonEmpty(loop...)...)
	r.set("bytes", "", nonEmpty(altered...)...)
}

// equalWithoutBlocks reports whether got and sent are equal apart from the blocks in got.
func equalWithoutBlocks(got, sent string) bool {
	const anchorLength = 200 // equal bytes that mark a block's end
	for {
		n := 0
		for n < len(got) && n < len(sent) && got[n] == sent[n] {
			n++
		}
		got, sent = got[n:], sent[n:]
		if got == "" || sent == "" {
			return got == sent
		}
		// A block can begin with the same bytes as the text after the block, so search for the end, not the beginning.
		piece := strings.Index(got, sent[:min(anchorLength, len(sent))])
		if piece < 0 || (!strings.Contains(got[:piece], harness.LessonLabel) && !strings.Contains(got[:piece], "LOOP DETECTED")) {
			return false
		}
		got = got[piece:]
	}
}

func (r *row) checkSideRequests(agentRun *sandboxedAgent) {
	n := 0
	var problems []string
	for _, a := range agentRun.requests() {
		if a.IsMain {
			continue
		}
		n++
		problems = append(problems, problemUnless(a.Raw == string(agentRun.tap.agentRequest(&a).body), "the agent sent %s, the model got %s", agentRun.tap.agentRequest(&a).body, a.Raw))
	}
	if n == 0 {
		r.notApplicable("side")
		return
	}
	r.set("side", fmt.Sprintf("ok %d", n), nonEmpty(problems...)...)
}

func (r *row) checkSessions(agentRun *sandboxedAgent) {
	var names []string
	for _, m := range agentRun.mainRequests() {
		names = append(names, agentRun.tap.agentRequest(&m).session)
	}
	distinct := slices.Compact(slices.Clone(names))
	r.set("session", "", nonEmpty(problemUnless(len(distinct) == 1 && distinct[0] != "", "request sessions: got %q, want one session", names))...)
}

func (r *row) checkNewSession(agentRun *sandboxedAgent) {
	calls := agentRun.requestsByCall()
	if len(calls[0]) == 0 {
		return // the "requests" column reports the missing request
	}
	old, now := agentRun.tap.agentRequest(&calls[0][0]).session, calls[len(calls)-1]
	problems := []string{problemUnless(len(now) >= 5, "%d main requests, want at least 5", len(now))}
	lessons := 0
	for i := range now {
		s := agentRun.tap.agentRequest(&now[i]).session
		problems = append(problems,
			problemUnless(s != old, "request %d belongs to the first conversation's session", i),
			problemUnless(s == agentRun.tap.agentRequest(&now[0]).session, "request %d belongs to session %q, request 0 to %q", i, s, agentRun.tap.agentRequest(&now[0]).session))
		n := strings.Count(now[i].Raw, taskSlug)
		lessons += n
		problems = append(problems, problemUnless(agentRun.agent.sendsDeltas || n == 1, "request %d has %d lessons, want 1", i, n))
	}
	problems = append(problems, problemUnless(lessons > 0, "no request has a lesson"))
	r.set("new", "", nonEmpty(problems...)...)
}

// checkRestart checks the second call, in which the agent resumes the conversation after precept restarts.
func (r *row) checkRestart(agentRun *sandboxedAgent) {
	calls := agentRun.requestsByCall()
	if len(calls[0]) == 0 || len(calls[1]) == 0 {
		r.set("restart", "", fmt.Sprintf("%v main requests", requestCounts(calls)))
		return
	}
	before, after := calls[0][len(calls[0])-1], calls[1][0]
	r.set("restart", "", nonEmpty(
		problemUnless(agentRun.exitCodes[1] == 0, "exit %d: %s", agentRun.exitCodes[1], agentRun.outputs[1]),
		problemUnless(agentRun.tap.agentRequest(&before).session == agentRun.tap.agentRequest(&after).session, "session %q before the restart, %q after it", agentRun.tap.agentRequest(&before).session, agentRun.tap.agentRequest(&after).session),
		problemUnless(strings.Count(after.Raw, taskSlug) == 1, "the first request after the restart has %d lessons, want 1: %s", strings.Count(after.Raw, taskSlug), after.Raw),
		problemUnless(!isPrefix(agentRun.sentItems(&before), agentRun.sentItems(&after)) || isPrefix(before.Items(), after.Items()), "the first request after the restart does not begin with the previous request's list, although the agent's request does\n%s\n%s", before.Raw, after.Raw))...)
}

func (r *row) checkParallel(runs ...*sandboxedAgent) {
	var problems []string
	sessions := map[string]int{}
	for i, agentRun := range runs {
		var checks row
		checks.checkLists(agentRun)
		checks.checkBlocks(agentRun)
		for _, c := range []string{"prefix", "lesson", "loop", "bytes"} {
			if f := checks.cells[c].problem; f != "" {
				problems = append(problems, fmt.Sprintf("agent %d: %s: %s", i, c, f))
			}
		}
		mains := agentRun.mainRequests()
		if len(mains) == 0 {
			problems = append(problems, fmt.Sprintf("agent %d: no main request", i))
			continue
		}
		last := agentRun.tap.agentRequest(&mains[len(mains)-1]).session
		sessions[last]++
		for k := 1; k < len(mains); k++ { // the agents' first requests can be equal and share a session, so the check begins with the second request
			s := agentRun.tap.agentRequest(&mains[k]).session
			problems = append(problems, problemUnless(s == last, "agent %d: request %d belongs to session %q, the last request to %q", i, k, s, last))
		}
	}
	problems = append(problems, problemUnless(len(sessions) == len(runs), "%d agents have the sessions %v at the end, want one each", len(runs), sessions))
	r.set("parallel", "", nonEmpty(problems...)...)
}

func (r *row) checkErrorLesson(agentRun *sandboxedAgent) {
	if agentRun.agent.editsWithoutTools {
		r.notApplicable("error")
		r.notApplicable("loop")
		return
	}
	var problems []string
	mains := agentRun.mainRequests()
	block, total, shown := "["+errorSlug+"]", 0, false
	for i := range mains {
		n := strings.Count(mains[i].Raw, block)
		total += n
		// qwen sometimes loses a command's output, so the test looks for the error text in the agent's request.
		shown = shown || strings.Contains(string(agentRun.tap.agentRequest(&mains[i]).body), errorText)
		want := 0
		if shown {
			want = 1
		}
		problems = append(problems, problemUnless(agentRun.agent.sendsDeltas || n == want, "request %d has the lesson %d times, want %d", i, n, want))
	}
	problems = append(problems, problemUnless(total > 0, "no request has the lesson"), problemUnless(!agentRun.agent.sendsDeltas || total == 1, "all requests have the lesson %d times, want once", total))
	r.set("error", "", nonEmpty(problems...)...)
}

func (r *row) checkInterrupt(agentRun *sandboxedAgent, agentEnded time.Time) {
	var problems []string
	select {
	case disconnected := <-agentRun.model.Disconnected:
		problems = append(problems, problemUnless(disconnected.Sub(agentEnded) < time.Second, "model noticed the disconnect %s after the agent ended, want less than 1s", disconnected.Sub(agentEnded)))
	case <-time.After(5 * time.Second):
		problems = append(problems, "the model noticed no disconnect within 5s")
	}
	calls := agentRun.requestsByCall()
	if len(calls) < 2 || len(calls[1]) == 0 {
		r.set("interrupt", "", append(problems, fmt.Sprintf("%v main requests: %s", requestCounts(calls), agentRun.outputs))...)
		return
	}
	if first := calls[1][0]; !strings.Contains(string(agentRun.tap.agentRequest(&first).body), loopTask) {
		r.set("interrupt", "forgets", problems...) // the agent did not keep the interrupted conversation
		return
	}
	var checks row
	checks.checkLists(agentRun)
	checks.checkBlocks(agentRun)
	checks.checkSessions(agentRun)
	problems = append(problems, problemUnless(agentRun.exitCodes[1] == 0, "the resumed conversation ends with exit code %d: %s", agentRun.exitCodes[1], agentRun.outputs[1]))
	for _, c := range []string{"prefix", "lesson", "bytes", "session"} {
		problems = append(problems, checks.cells[c].problem)
	}
	r.set("interrupt", "", nonEmpty(problems...)...)
}

func (r *row) checkCompaction(direct, through *sandboxedAgent) {
	if !direct.hasCompacted() {
		r.notApplicable("compact")
		return
	}
	var checks row
	checks.checkSideRequests(through)
	checks.checkSessions(through)
	checks.checkLists(through)
	d, p := requestCounts(direct.requestsByCall()), requestCounts(through.requestsByCall())
	problems := []string{
		problemUnless(slices.Equal(direct.exitCodes, through.exitCodes), "exit %v directly, %v through precept: %s", direct.exitCodes, through.exitCodes, through.outputs),
		problemUnless(slices.Equal(d, p), "%v main requests directly, %v through precept", d, p),
		checks.cells["side"].problem, checks.cells["session"].problem, checks.cells["prefix"].problem,
	}
	for i, m := range through.mainRequests() {
		n := strings.Count(m.Raw, taskSlug)
		problems = append(problems,
			problemUnless(n <= 1, "request %d has %d lessons, want at most 1", i, n),
			problemUnless(equalWithoutBlocks(m.Raw, string(through.tap.agentRequest(&m).body)), "request %d differs from the agent's request in more than the blocks\nsent %s\ngot  %s", i, through.tap.agentRequest(&m).body, m.Raw))
	}
	r.set("compact", "", nonEmpty(problems...)...)
}

func (r *row) checkRefused(agentRun *sandboxedAgent, counted int) {
	mains := agentRun.mainRequests()
	withBlocks := 0
	for i := range mains {
		if strings.Contains(mains[i].Raw, harness.LessonLabel) || strings.Contains(mains[i].Raw, loopLabel) {
			withBlocks++
		}
	}
	seen := agentRun.tap.countAnswers("POST", 400)
	r.set("refused", "", nonEmpty(
		problemUnless(slices.Max(agentRun.exitCodes) == 0, "exit %v: %s", agentRun.exitCodes, agentRun.outputs),
		problemUnless(len(mains) >= 4, "%d main requests, want at least 4", len(mains)),
		problemUnless(withBlocks == 1, "requests with a block: got %d, want 1", withBlocks),
		problemUnless(seen == 0, "refusals received by the agent: got %d, want 0", seen),
		problemUnless(counted == 1, "refusals counted by precept: got %d, want 1", counted))...)
}

// hasCompacted reports whether the agent has replaced the history by a shorter one.
func (s *sandboxedAgent) hasCompacted() bool {
	mains := s.mainRequests()
	for i := 1; i < len(mains); i++ {
		if before, after := s.sentItems(&mains[i-1]), s.sentItems(&mains[i]); len(after) <= len(before) && !isPrefix(before, after) {
			return true
		}
	}
	return false
}

func (r *row) checkRetries(direct, through *sandboxedAgent) {
	same := nonEmpty(
		problemUnless(slices.Equal(direct.exitCodes, through.exitCodes), "exit %v directly, %v through precept: %s", direct.exitCodes, through.exitCodes, through.outputs),
		problemUnless(len(direct.mainRequests()) == len(through.mainRequests()), "%d main requests directly, %d through precept", len(direct.mainRequests()), len(through.mainRequests())))
	for _, f := range agentFaults() {
		d, p := direct.faultReaction(f.Name), through.faultReaction(f.Name)
		if f.Unfinished {
			r.set(f.Name, p.kind, append(same, nonEmpty(problemUnless(d.kind == p.kind, "reaction: %s directly, %s through precept", d.kind, p.kind))...)...)
			continue
		}
		if d.kind != requestRepeated && d.kind == p.kind {
			r.set(f.Name, p.kind)
			continue
		}
		r.set(f.Name, "", nonEmpty(
			problemUnless(d.kind == p.kind, "reaction: %s directly, %s through precept", d.kind, p.kind),
			problemUnless(p.kind != requestRepeated || p.sameList, "the retry has a different list"),
			problemUnless(p.kind != requestRepeated || p.sameSession, "the retry belongs to another session"),
			problemUnless(p.kind != requestRepeated || p.oneLesson || through.agent.sendsDeltas, "the retry does not have exactly one lesson"))...)
	}
}

const (
	faultNotReached = "-"     // the run ended before the fault
	agentStopped    = "stops" // no request follows
	requestRepeated = "again" // a request with an equal list follows
	requestChanged  = "on"    // a request with a different list follows
)

type reaction struct {
	kind string // one of the constants above

	sameList, sameSession, oneLesson bool
}

// faultReaction compares the faulted request with the next main request.
func (s *sandboxedAgent) faultReaction(name string) reaction {
	mains := s.mainRequests()
	faultIndex := slices.IndexFunc(mains, func(a harness.ModelRequest) bool { return a.Fault != nil && a.Fault.Name == name })
	if faultIndex < 0 {
		return reaction{kind: faultNotReached}
	}
	if faultIndex+1 == len(mains) {
		return reaction{kind: agentStopped}
	}
	faulted, next := &mains[faultIndex], &mains[faultIndex+1]
	before, after := s.sentItems(faulted), s.sentItems(next)
	if len(before) != len(after) || !isPrefix(before, after) {
		return reaction{kind: requestChanged}
	}
	return reaction{
		kind:        requestRepeated,
		sameList:    len(faulted.Items()) == len(next.Items()) && isPrefix(faulted.Items(), next.Items()),
		sameSession: s.tap.agentRequest(faulted).session == s.tap.agentRequest(next).session,
		oneLesson:   strings.Count(next.Raw, taskSlug) == 1,
	}
}
