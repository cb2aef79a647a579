package proxy_test

import (
	"fmt"
	"strings"
	"testing"
)

// textAgent is an agent that sends no tools. Calls and results are text in the messages.
type textAgent struct {
	name   string
	task   string
	answer func(step int) string                              // model's answer, with a call
	result func(step int) string                              // call's result
	turn   func(step int, answerText, result string) []obj    // messages that the agent appends after a step
	list   func(task string, answers, results []string) []obj // all messages, if the agent rewrites earlier messages
}

// textAgents returns agents that repeat a failing call in steps 0, 2 and 3. Step 1 has a different, successful call.
func textAgents() []textAgent {
	part := func(role, text string) obj {
		return obj{"role": role, "content": []obj{{"type": "text", "text": text}}}
	}
	code := func(i int) string {
		if i == 1 {
			return "lines = open_file(\"Makefile\")\nprint(lines)"
		}
		return "result = build(\"shop\")\nprint(result)"
	}
	command := func(i int) string {
		if i == 1 {
			return "cat Makefile"
		}
		return "make shop"
	}
	// newAgent returns an agent that writes calls in callFormat and results in resultFormat. The result says "passed"
	// in step 1, and "failed" in all other steps.
	newAgent := func(name, callFormat, resultFormat, failed, passed string) textAgent {
		return textAgent{
			name: name, task: "Please fix the build",
			answer: func(i int) string { return fmt.Sprintf("Step %d.\n", i) + fmt.Sprintf(callFormat, command(i)) },
			result: func(i int) string {
				if i == 1 {
					return strings.Replace(fmt.Sprintf(resultFormat, "shop: shop.c"), failed, passed, 1)
				}
				return fmt.Sprintf(resultFormat, "Error: no such module: shop")
			},
			turn: func(_ int, answerText, result string) []obj {
				return []obj{newMessage("assistant", answerText), newMessage("user", result)}
			},
		}
	}
	return []textAgent{
		newAgent("Hermes", "<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"command\": %q}}\n</tool_call>", "<tool_response>\n%s\n</tool_response>", "", ""),
		newAgent("OpenHands", "<function=execute_bash>\n<parameter=command>%s</parameter>\n</function>", "EXECUTION RESULT of [execute_bash]:\n%s\n[Command finished with exit code 2]", "code 2", "code 0"),
		newAgent("Roo", "<execute_command>\n<command>%s</command>\n</execute_command>", "[execute_command for 'a command'] Result:\n\nCommand executed. Exit code: 2\nOutput:\n%s", "code: 2", "code: 0"),
		newAgent("AutoGen", "```sh\n%s\n```", "exitcode: 1 (execution failed)\nCode output: %s", "exitcode: 1 (execution failed)", "exitcode: 0 (execution succeeded)"),
		newAgent("Open Interpreter", "```shell\n%s\n```", "Code output: %s\n\nWhat does this output mean / what's next (if anything, or are we done)?", "", ""),
		newAgent("Langroid", "{\"request\": \"run_shell\", \"command\": %q}", "%s", "", ""),
		newAgent("LangChain's older agents", "```json\n{\"action\": \"run_shell\", \"action_input\": %q}\n```", "TOOL RESPONSE: \n---------------------\n%s\n\nUSER'S INPUT\n--------------------\n\nOkay, so what is the response to my last comment?", "", ""),
		newAgent("AutoGPT", "{\"thoughts\": {\"text\": \"I act\"}, \"command\": {\"name\": \"execute_shell\", \"args\": {\"command_line\": %q}}}", "Command execute_shell returned: %s", "", ""),
		newAgent("agent with tags", "<think>Well.</think>\n<shell>\n%s\n</shell>", "The tool says\n%s", "", ""),
		newAgent("numbered ReAct", "Thought 1: I act.\nAction 1: bash[%s]", "Observation 1: %s", "", ""),
		{
			name: "smolagents", task: "New task:\nPlease fix the build",
			answer: func(i int) string { return fmt.Sprintf("Thought: step %d.\n<code>\n%s\n", i, code(i)) },
			result: func(i int) string {
				if i == 1 {
					return "Call id: call_2\nError:\nCode execution failed at line 'lines = open_file(\"Makefile\")' due to: InterpreterError: The variable `open_file` is not defined.\nNow let's retry: take care not to repeat previous errors! If you have retried several times, try a completely different approach.\n"
				}
				return fmt.Sprintf("Call id: call_%d\nError:\nCode execution failed at line 'result = build(\"shop\")' due to: ValueError: no such module: shop\nNow let's retry: take care not to repeat previous errors! If you have retried several times, try a completely different approach.\n", i+1)
			},
			turn: func(i int, answerText, result string) []obj {
				listed := fmt.Sprintf("\nCalling tools:\n[{'id': 'call_%d', 'type': 'function', 'function': {'name': 'python_interpreter', 'arguments': '%s'}}]", i+1, strings.ReplaceAll(code(i), "\n", `\n`))
				return []obj{part("assistant", strings.TrimSpace(answerText)+"\n</code>"+listed), part("user", result)}
			},
		},
		{
			name: "mini-swe-agent", task: "Please solve this issue: Please fix the build\n\nYou can execute bash commands.",
			answer: func(i int) string {
				return fmt.Sprintf("THOUGHT: step %d.\n\n```mswea_bash_command\n%s\n```", i, command(i))
			},
			result: func(i int) string {
				if i == 1 {
					return "<returncode>0</returncode>\n<output>\nshop: shop.c\n</output>"
				}
				return "<returncode>2</returncode>\n<output>\nmake: no such module: shop\n</output>"
			},
			turn: func(_ int, answerText, result string) []obj {
				return []obj{newMessage("assistant", answerText), newMessage("user", result)}
			},
		},
		{
			name: "ReAct", task: "Please fix the build",
			answer: func(i int) string {
				if i == 1 {
					return "Thought: I look.\nAction: read_file\nAction Input: {\"path\": \"Makefile\"}"
				}
				return "Thought: I build.\nAction: run_command\nAction Input: {\"command\": \"make shop\"}"
			},
			result: func(i int) string {
				if i == 1 {
					return "Observation: shop: shop.c"
				}
				return "Observation: Error: no such module: shop"
			},
			turn: func(_ int, answerText, result string) []obj {
				return []obj{newMessage("assistant", answerText), newMessage("user", result)}
			},
		},
		{
			name: "aider", task: "Please fix the build",
			answer: func(i int) string {
				edit := "shop.c\n```c\n<<<<<<< SEARCH\nint add();\n=======\nint add(void);\n>>>>>>> REPLACE\n```"
				if i == 1 {
					edit = strings.ReplaceAll(edit, "add", "sub")
				}
				return fmt.Sprintf("Step %d.\n\n%s", i, edit)
			},
			result: func(i int) string {
				f := "add"
				if i == 1 {
					f = "sub"
				}
				return "# 1 SEARCH/REPLACE block failed to match!\n\n## SearchReplaceNoExactMatch: This SEARCH block failed to exactly match lines in shop.c, no such module: shop\n<<<<<<< SEARCH\nint " + f + "();\n=======\nint " + f + "(void);\n>>>>>>> REPLACE\n"
			},
			list: func(task string, answers, results []string) []obj {
				rules, files := "\n\n# *SEARCH/REPLACE block* Rules:\n\nEvery *SEARCH/REPLACE block* must use this format:", []obj{newMessage("user", "I have *added these files to the chat* so you can go ahead and edit them.\n\nshop.c"), newMessage("assistant", "Ok, any changes I propose will be to those files.")}
				list := []obj{newMessage("user", task)}
				for i, a := range answers {
					list = append(list, newMessage("assistant", a), newMessage("user", "I updated the files."), newMessage("assistant", "Ok."), newMessage("user", results[i]))
				}
				last := list[len(list)-1]
				last = newMessage("user", fmt.Sprint(last["content"], rules))
				return append(append(list[:len(list)-1:len(list)-1], files...), last)
			},
		},
	}
}

// In each step, the messages that the upstream receives begin with the messages of the previous step, unless the agent
// rewrites its messages.
func TestTextAgentsGetWarningsAndLessons(t *testing.T) {
	for _, a := range textAgents() {
		t.Run(a.name, func(t *testing.T) {
			s := newScene(t, []string{"one: fix the build", "two: no such module"}, nil)
			list := []obj{newMessage("system", "S"), newMessage("user", a.task)}
			var previous, answers, results []string
			session := ""
			for i := range 5 {
				messages := list
				if a.list != nil {
					messages = append(list[:1:1], a.list(a.task, answers, results)...)
				}
				got := s.ask(chatReply("c", a.answer(i)), messages)
				if a.list == nil {
					s.checkPrefix(fmt.Sprint("step ", i), previous, got)
				}
				if session != "" && s.session != session {
					t.Errorf("step %d: session = %q, want %q", i, s.session, session)
				}
				previous, session = got, s.session
				for text, want := range map[string]int{"[one]": 1, "[two]": min(i, 1), "[END LOOP DETECTED]": max(0, min(i-2, 1))} {
					if n := strings.Count(strings.Join(got, "\n"), text); n != want {
						t.Errorf("step %d: got %s %d times, want %d; text sent upstream: %s", i, text, n, want, got)
					}
				}
				if i == 3 && !strings.Contains(got[len(got)-1], "[END LOOP DETECTED]") {
					t.Errorf("step %d: messages = %s, want the loop warning in the newest result", i, got)
				}
				answers, results = append(answers, a.answer(i)), append(results, a.result(i))
				if a.turn != nil {
					list = append(list, a.turn(i, a.answer(i), a.result(i))...)
				}
			}
		})
	}
}

// dspy's ReAct agent writes all earlier steps (the trajectory) into one message.
func TestBlocksKeepPositionsInTrajectory(t *testing.T) {
	s := newScene(t, []string{"one: fix the build", "two: no such module"}, nil)
	const tail = "\n\nRespond with the corresponding output fields, starting with the field `[[ ## next_thought ## ]]`, and then ending with the marker for `[[ ## completed ## ]]`."
	head := "[[ ## question ## ]]\nPlease fix the build\n\n[[ ## trajectory ## ]]\n"
	trajectory, previous, session := "", "", ""
	for i := range 5 {
		tool, args, result := "build", `{"target": "shop"}`, "Execution error in build: \nValueError: no such module: shop"
		if i == 1 {
			tool, args, result = "look", `{"path": "Makefile"}`, "shop: shop.c"
		}
		reply := fmt.Sprintf("[[ ## next_thought ## ]]\nStep %d.\n\n[[ ## next_tool_name ## ]]\n%s\n\n[[ ## next_tool_args ## ]]\n%s\n\n[[ ## completed ## ]]", i, tool, strings.ReplaceAll(args, ": ", ":"))
		got := s.ask(chatReply("c", reply), []obj{newMessage("system", "S"), newMessage("user", head+trajectory+tail)})[1]
		if session != "" && s.session != session {
			t.Errorf("step %d: session = %q, want %q", i, s.session, session)
		}
		withoutTail, _, _ := strings.Cut(got, `\n\nRespond with`)
		if !strings.HasPrefix(got, previous) {
			t.Errorf("step %d: message:\n%s\nwant prefix:\n%s", i, got, previous)
		}
		previous, session = withoutTail, s.session
		for text, want := range map[string]int{"[one]": 1, "[two]": min(i, 1), "[END LOOP DETECTED]": max(0, min(i-2, 1))} {
			if n := strings.Count(got, text); n != want {
				t.Errorf("step %d: got %s %d times, want %d; text sent upstream: %s", i, text, n, want, got)
			}
		}
		if i > 2 && !strings.Contains(got, `[[ ## observation_2 ## ]]\n[LOOP DETECTED]`) {
			t.Errorf("step %d: message = %s, want the loop warning at the second identical failure", i, got)
		}
		if trajectory != "" {
			trajectory += "\n\n"
		}
		trajectory += fmt.Sprintf("[[ ## thought_%d ## ]]\nStep %d.\n\n[[ ## tool_name_%d ## ]]\n%s\n\n[[ ## tool_args_%d ## ]]\n%s\n\n[[ ## observation_%d ## ]]\n%s", i, i, i, tool, i, args, i, result)
	}
}

// The oldest agents send one growing message from a template. Lessons and warnings are inserted before the
// observations, which are the tool results in this message.
func TestScratchpadAgentHasOneSession(t *testing.T) {
	templates := map[string]func(steps []string) string{
		"ReAct": func(steps []string) string {
			return "Answer as best you can.\n\nThought: think\nAction: the action\nAction Input: its input\nObservation: what result\n\nBegin!\n\nQuestion: Please fix the build\nThought:" + strings.Join(steps, "")
		},
		"JSON actions": func(steps []string) string {
			if len(steps) == 0 {
				return "Please fix the build\n\n\n (reminder to respond with an object)"
			}
			return "Please fix the build\n\nThis was your previous work:\nThought:" + strings.Join(steps, "") + "\n (reminder to respond with an object)"
		},
	}
	answers := map[string]string{
		"ReAct": "Step %d.\nAction: run_shell\nAction Input: %s", "JSON actions": "Thought: step %d.\nAction:\n```\n{\"action\": \"run_shell\", \"action_input\": \"%s\"}\n```",
	}
	for name, render := range templates {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, []string{"one: fix the build", "two: no such module"}, nil)
			var steps []string
			session, before := "", ""
			for i := range 5 {
				command, result := "make shop", "Error: no such module: shop"
				if i == 1 {
					command, result = "cat Makefile", "shop: shop.c"
				}
				answer := fmt.Sprintf(answers[name], i, command)
				got := s.ask(chatReply("c", answer), []obj{newMessage("system", "S"), newMessage("user", render(steps))})[1]
				if session != "" && s.session != session {
					t.Errorf("step %d: session = %q, want %q", i, s.session, session)
				}
				withoutReminder, _, _ := strings.Cut(got, `\n (reminder`)
				if i > 1 && !strings.HasPrefix(got, before) {
					t.Errorf("step %d: message:\n%s\nwant prefix:\n%s", i, got, before)
				}
				session, before = s.session, strings.TrimSuffix(withoutReminder, `","role":"user"}`)
				for text, want := range map[string]int{"[one]": 1, "[two]": min(i, 1), "[END LOOP DETECTED]": max(0, min(i-2, 1))} {
					if n := strings.Count(got, text); n != want {
						t.Errorf("step %d: got %s %d times, want %d; text sent upstream: %s", i, text, n, want, got)
					}
				}
				if i > 0 && !strings.Contains(got, `Observation:Lessons from past experience`) || i > 2 && !strings.Contains(got, `Observation:[LOOP DETECTED]`) {
					t.Errorf("step %d: message = %s, want each block at the start of an observation", i, got)
				}
				steps = append(steps, answer+"\nObservation: "+result+"\nThought: ")
			}
		})
	}
}

func TestRepeatedPastesGetNoLoopWarning(t *testing.T) {
	shown := "Run this:\n\n```bash\nmake shop\n```"
	for name, list := range map[string][]obj{
		"user pastes the error":     {newMessage("user", "Please fix the build"), newMessage("assistant", shown), newMessage("user", "make: no such module: shop"), newMessage("assistant", shown), newMessage("user", "make: no such module: shop")},
		"user quotes a result tag":  {newMessage("user", "Please fix the build"), newMessage("assistant", shown), newMessage("user", "It says <returncode>2</returncode>"), newMessage("assistant", shown), newMessage("user", "It says <returncode>2</returncode>")},
		"aider runs the test twice": {newMessage("user", "Please fix the build"), newMessage("assistant", "Done."), newMessage("user", "I ran this command:\n\nsh t.sh\n\nAnd got this output:\n\nFAIL: no such module"), newMessage("assistant", "Ok."), newMessage("user", "I ran this command:\n\nsh t.sh\n\nAnd got this output:\n\nFAIL: no such module")},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, nil, nil)
			for i := 0; i < len(list); i += 2 {
				reply := "The end."
				if i+1 < len(list) {
					reply = fmt.Sprint(list[i+1]["content"])
				}
				s.checkText(name, s.ask(chatReply("c", reply), list[:i+1]), "[LOOP DETECTED]")
			}
		})
	}
}
