package detect_test

import (
	"fmt"
	"testing"

	"precept/detect"
	"precept/internal/wire"
)

// scriptResult returns the result of Codex's script tool. The script printed results.
func scriptResult(results ...string) string {
	text := "Script completed\nWall time 0.1 seconds\nOutput:\n"
	for _, r := range results {
		text += "\n" + r
	}
	return text
}

func commandResult(code int, output string) string {
	return fmt.Sprintf(`{"chunk_id":"952bb9","wall_time_seconds":0.0000067,"exit_code":%d,"original_token_count":13,"output":%q}`, code, output)
}

// grep exits with code 1 if nothing matches, which is not a failure. Classify recognises grep only in a string literal
// of the script.
func TestScriptOutcomeFollowsItsCommands(t *testing.T) {
	const program = "const r = await tools.exec_command({cmd: \"make\"});\ntext(r);"
	for name, tc := range map[string]struct {
		program, text string
		want          detect.Outcome
		code          int
	}{
		"failed command": {
			program, scriptResult(commandResult(3, "error: no rule to make target demo\n")), detect.Error, 3,
		},
		"successful command": {program, scriptResult(commandResult(0, "built\n")), detect.OK, 0},
		"failed second command": {
			program, scriptResult(commandResult(0, "built\n"), commandResult(2, "boom\n")), detect.Error, 2,
		},
		"failed first command": {
			program, scriptResult(commandResult(2, "boom\n"), commandResult(0, "built\n")), detect.Error, 2,
		},
		"failed script": {
			program,
			"Script failed\nWall time 0.1 seconds\nOutput:\n\nReferenceError: x is not defined",
			detect.Error, 1,
		},
		"text output":               {program, scriptResult("all is well"), detect.OK, 0},
		"JSON that is not a result": {program, scriptResult(`{"exit_code":3}`), detect.OK, 0},
		"search without a match": {
			`text(await tools.exec_command({"cmd": 'grep -rn x .'}))`, scriptResult(commandResult(1, "")),
			detect.OK, 0,
		},
		"search in a template with a variable": {
			"text(await tools.exec_command({cmd: `grep -rn ${what} .`}))", scriptResult(commandResult(1, "")),
			detect.Error, 1,
		},
	} {
		got := detect.Classify("exec", tc.program, tc.text, 0)
		if got.Outcome != tc.want || tc.want == detect.Error && got.Code != tc.code {
			t.Errorf("%s: got judgement %+v, want outcome %q and code %d", name, got, tc.want, tc.code)
		}
	}
}

func TestScriptFrameDoesNotChangeTheSignature(t *testing.T) {
	got := detect.Signature(scriptResult(commandResult(3, "error: no rule to make target demo\n")))
	if want := detect.Signature("error: no rule to make target demo"); got != want {
		t.Errorf("Signature of a script result = %q, want %q, as without the script", got, want)
	}
}

func TestRepeatedScriptFailureIsALoop(t *testing.T) {
	input := []obj{{"type": "message", "role": "user", "content": "Build it."}}
	for i, chunk := range []string{"952bb9", "0a1b2c"} {
		id := fmt.Sprint("c", i)
		out := scriptResult(fmt.Sprintf(`{"chunk_id":%q,"wall_time_seconds":0.%d,"exit_code":2,"output":"no rule\n"}`, chunk, i+1))
		input = append(input,
			obj{
				"type": "custom_tool_call", "call_id": id, "name": "exec", "namespace": "functions",
				"input": `text(await tools.exec_command({cmd: "make"}))`,
			},
			obj{"type": "custom_tool_call_output", "call_id": id, "output": []obj{{"type": "input_text", "text": out}}})
	}
	req := parse(t, wire.Responses, obj{"model": "m", "input": input})
	if loops := new(detect.Results).Loops(req, map[string]bool{}, nil); len(loops) != 1 || loops[0].CallID != "c1" {
		t.Errorf("Loops = %+v, want one loop at call c1", loops)
	}
}
