package detect_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"precept/internal/wire"
)

func withTool(tool string, steps ...testStep) (out []testStep) {
	for _, s := range steps {
		s.tool = tool
		out = append(out, s)
	}
	return out
}

func TestStuckAgentIsReportedRepeatedly(t *testing.T) {
	t.Parallel()
	var guesses, walk []testStep
	for i := range 16 {
		path := fmt.Sprintf("/d%d/a.csv", i)
		guesses = append(guesses, call("read_text_file", jsonArgs("path", path), "Error: ENOENT: no such file or directory, open '"+path+"'"))
		walk = append(walk, call("game", jsonArgs("command", fmt.Sprintf("go to %d", i)), []string{"Kitchen\nA white kitchen.", "Hall\nA dusty hall."}[i%2]))
	}
	for _, tc := range []struct {
		steps []testStep
		want  []int
	}{{guesses, []int{4, 9, 14}}, {walk, []int{7, 15}}} {
		if got := replay(t, wire.Chat, tc.steps); !slices.Equal(got, tc.want) {
			t.Errorf("%s: loops at steps %v, want %v", tc.steps[0].tool, got, tc.want)
		}
	}
}

// Calls with different arguments are a loop after five failures with the same message, six identical screens, or six
// answers without a new result. After a change, a wait or a user turn, the count starts again.
func TestDifferentCallsWithoutProgressAreALoop(t *testing.T) {
	t.Parallel()
	callsWith := func(tool, key string, result func(value string) string, values ...string) (steps []testStep) {
		for _, v := range values {
			steps = append(steps, call(tool, jsonArgs(key, v), result(v)))
		}
		return steps
	}
	always := func(text string) func(string) string { return func(string) string { return text } }
	missing := func(path string) string { return "Error: ENOENT: no such file or directory, open '" + path + "'" }
	guesses := callsWith("read_text_file", "path", missing, "/d/a.csv", "/d/b.csv", "/d/c/a.csv", "/d/a.tsv", "/d/old/a.csv")
	paths := []string{"/q/a.csv", "/q/b.csv", "/q/c.csv", "/q/d.csv"}
	transientFailures := callsWith("get_quote", "symbol", always("Error: 503 Service Unavailable"), "A", "B", "C", "D", "E", "F")
	sameScreens := callsWith("send_keys", "keys", always("diff of a.c\n-  int n;\n+  long n;\n(END)"), "make", "ls", "x", "make test", "y", "z")
	gameMoves := callsWith("game", "command", always("It is too heavy."), "pull lever", "lift lever", "move lever", "shift lever", "raise lever", "heave lever")
	seatChecks := callsWith("check_seat", "seat", always("taken"), "1A", "1B", "1C", "1D", "1E", "1F")
	confirmations := callsWith("send_mail", "to", always("Sent."), "a@x", "b@x", "c@x", "d@x", "e@x", "f@x")
	compileErrors := func(n int, message string) (steps []testStep) {
		for i := range n {
			steps = append(steps,
				call("edit", fmt.Sprintf(`{"path":"a.c","old_str":"x%d","new_str":"y"}`, i), "The file a.c has been updated."),
				bash("cc a.c", strings.ReplaceAll(message, "LINE", strconv.Itoa(i))+"\n\nCommand exited with code 1"))
		}
		return steps
	}
	kitchen, hall := call("game", `{"command":"north"}`, "Kitchen\nA white kitchen."), call("game", `{"command":"south"}`, "Hall\nA dusty hall.")
	goNorth, goSouth := call("game", `{"command":"go north"}`, "Kitchen\nA white kitchen."), call("game", `{"command":"go south"}`, "Hall\nA dusty hall.")
	walk := []testStep{kitchen, hall, goNorth, goSouth, kitchen, hall, goNorth, goSouth}
	insertBeforeLast := func(steps []testStep, added ...testStep) []testStep {
		out := append([]testStep{}, steps[:len(steps)-1]...)
		return append(append(out, added...), steps[len(steps)-1])
	}
	const refused = "The user doesn't want to proceed with this tool use. The tool use was rejected."
	listings := func(n int) (steps []testStep) {
		for i := range n {
			steps = append(steps, call("list", jsonArgs("path", fmt.Sprintf("/e%d", i)), fmt.Sprintf("entry %d\nof the folder", i)))
		}
		return steps
	}
	inRepl := func(results ...string) (steps []testStep) {
		for i, r := range results {
			steps = append(steps, call("repl", jsonArgs("input", fmt.Sprintf("f%d = %d", i, i)), r))
		}
		return steps
	}
	inShell := func(program string, results ...string) (steps []testStep) {
		for i, r := range results {
			steps = append(steps, bash(fmt.Sprintf("%s a%d", program, i), r))
		}
		return steps
	}
	const (
		page     = "the first page of the report\nand its second line of text"
		longDone = "The file has been updated. Run the tests of the package to see the effect of the change, please."
		failed   = "\n\nCommand exited with code 1"
	)
	editSteps := func(n int) (steps []testStep) {
		for i := range n {
			steps = append(steps, call("edit", fmt.Sprintf(`{"path":"f%d.c","old_str":"x","new_str":"y"}`, i), longDone))
		}
		return steps
	}
	mailSteps := func(n int) (steps []testStep) {
		for i := range 8 {
			steps = append(steps, call("send_mail", jsonArgs("to", fmt.Sprintf("m%d@x", i%n)), []string{"Sent.", "Delivered."}[i%2]))
		}
		return steps
	}
	formSteps := func(pages ...string) (steps []testStep) {
		for i, p := range pages {
			steps = append(steps, call("fill", fmt.Sprintf(`{"ref":"e%d","value":"v"}`, i), "The field has the new value.\nThe page is open."), call("snapshot", `{}`, "the page\n"+p))
		}
		return steps
	}
	fileReads := []testStep{
		bash("cat db.ini", page), bash("head -50 db.ini", page), call("read", `{"path":"db.ini"}`, page),
		bash("sed -n 1,20p db.ini", page), bash("less db.ini", page), call("view", `{"file":"db.ini"}`, page),
	}
	var shortFileReads []testStep
	for _, s := range fileReads {
		s.result = "port = 1"
		shortFileReads = append(shortFileReads, s)
	}
	var failingTests []testStep
	for i, note := range []string{"red", "green", "blue", "white", "black"} {
		failingTests = append(failingTests, call("edit", fmt.Sprintf(`{"path":"a.py","old_str":"x%d","new_str":"y"}`, i), "The file a.py has been updated."),
			bash("pytest", "the colour is "+note+"\nFAILED a.py::x - boom\n1 failed"+failed))
	}
	var noEffect []testStep
	for i := range 5 {
		noEffect = append(noEffect, bash(fmt.Sprintf("sed -i 's/debug%d/x/' a.ini", i), "(no output)"), bash("grep debug a.ini", "debug: yes"))
	}
	var builds []testStep
	for i := range 5 {
		builds = append(builds, call("edit", fmt.Sprintf(`{"path":"Dockerfile","old_str":"x%d","new_str":"y"}`, i), "The file Dockerfile has been updated."),
			bash("docker build .", fmt.Sprintf("#7 [3/6] RUN apt-get install libfoo\n#7 %d.%03d E: Unable to locate package libfoo", i, 101*i)+failed))
	}
	refuse, waited := call("game", `{"command":"jump"}`, refused), call("wait", `{"seconds":3}`, "waited")
	sameRoom := parallel(call("game", `{"command":"stay"}`, "Study\nA key lies here."))
	edited := call("edit", `{"path":"b.c","old_str":"a","new_str":"b"}`, "The file b.c has been updated.")
	var deadLogs, testsAfterEdits []testStep
	for i := range 5 {
		deadLogs = append(deadLogs, bash(fmt.Sprintf("sleep %d; tail -3 index.log", 60+60*i), "11:02:13 INFO slice 1\n11:02:58 FATAL aborting\nindex.sh: exit 2"))
		testsAfterEdits = append(testsAfterEdits, call("edit", fmt.Sprintf(`{"path":"a.go","old_str":"x%d","new_str":"y"}`, i), "The file a.go has been updated."),
			bash("go test ./a", "--- FAIL: TestCart\n    a_test.go:7: got 1, want 2\nFAIL\n\nCommand exited with code 1"))
	}
	task := func(words, answer string) testStep {
		return call("delegate", jsonArgs("instructions", "Read every report in the folder and list the dates."+words), answer)
	}
	tasks := []testStep{task("", "I cannot open the folder."), task(" Be thorough.", "There is no tool for the folder."), task("", "No report could be read."), task("", "The folder is out of reach.")}
	plan := call("todowrite", `{"todos":[{"content":"read the scripts","status":"in_progress"},{"content":"write the units","status":"pending"}]}`, "ok")
	polls := make([]testStep, 0, 5)
	for i, command := range []string{"kubectl -n shop get pods", "sleep 20; kubectl get pods -n shop", "sleep 30 && kubectl -n shop get pods", "kubectl get pods -n shop", "sleep 60; kubectl -n shop get pods"} {
		polls = append(polls, bash(command, fmt.Sprintf("NAME        READY   STATUS             AGE\nweb-x2kqp   0/1     ImagePullBackOff   %ds\n\n[exit code 0]", 20+40*i)))
	}
	prompts := func(outputs ...string) []testStep {
		steps := []testStep{bash("npm create vite", "Command running in background with ID: b3e91d")}
		for _, output := range outputs {
			steps = append(steps, call("BashOutput", `{"bash_id":"b3e91d"}`, "<status>running</status>\n\n<stdout>"+output+"</stdout>"))
		}
		return steps
	}
	sessionPolls := func(input string) []testStep {
		const running = "Wall time: 5.0 seconds\nProcess running with session ID 48213\nOutput:\n"
		steps := []testStep{call("exec_command", `{"cmd":"./deploy.sh"}`, running+"(deploy@stage02) Password: ")}
		for range 4 {
			steps = append(steps, call("write_stdin", `{"session_id":48213,"chars":"`+input+`"}`, running))
		}
		return steps
	}
	answered := []testStep{call("terminal", `{"input":"sudo make install"}`, "[sudo] password for bob:"), call("terminal", `{"input":"pw"}`, "")}
	var objectKeys []testStep
	for range 4 {
		answered = append(answered, call("terminal", `{"input":""}`, ""))
		objectKeys = append(objectKeys, call("press", `{"keys":[{"key":"y"}]}`, "Password:"))
	}
	var openQuote []testStep
	screen := "root@3f9a:/# awk '{print $1}\n> "
	for _, keys := range []string{"awk '{print $1}\\n", "\\n", "\\n", "cat SUMS\\n", "\\n", "\\n"} {
		openQuote = append(openQuote, call("keystrokes", `{"keystrokes":"`+keys+`"}`, screen))
		screen += "\n> "
	}
	var bounces, menuKeys, delegations []testStep
	for i, subject := range []string{"Agenda", "The agenda", "Agenda for you", "Thursday", "Agenda again"} {
		bounces = append(bounces, call("send_mail", jsonArgs("subject", subject), fmt.Sprintf(`{"status":"failed","smtp":"550 unknown user","tx":"tx-%d"}`, 6514201555+i*7919)))
		delegations = append(delegations, call("delegate", jsonArgs("coworker", subject), "Error executing tool. the coworker was not found"))
	}
	for i := range 8 {
		rows := strings.Split("General setup\nProcessor type\nPower management\nDrivers\nNetworking\nFile systems\nSecurity\nLibraries", "\n")
		rows[i] = "\x1b[7m" + rows[i] + "\x1b[0m"
		menuKeys = append(menuKeys, call("send_keys", `{"keys":["Down"]}`, strings.Join(rows, "\n")))
	}
	var unknownNames, invalidArgs []testStep
	for i, job := range []string{"RMU7IiGqtJ53UhbbhlhpSr", "32DDTiARTe13yoVAGbTQ3D", "cVk7KTmgESfP0ZKJbXqsRD", "dtQlmbgowGicZIAhvur3kp", "MvEsJtGOfFXtXHFTIaciHO"} {
		unknownNames = append(unknownNames, call("run_sql", jsonArgs("query", "SELECT "+strings.Repeat("a, ", i)+"basket FROM orders"),
			fmt.Sprintf("{\"error\":{\"message\":\"Unrecognized name: basket at [1:%d]\"},\"job\":\"job_%s\"}", 8+3*i, job)))
		start := []string{"upon delivery", "on delivery", "delivery", "when delivered", "at delivery"}[i]
		invalidArgs = append(invalidArgs, call("final_result", jsonArgs("start_date", start),
			"1 validation error:\n```json\n[{\"loc\": [\"start_date\"], \"msg\": \"Input should be a valid date\", \"input\": \""+start+"\"}]\n```\n\nFix the errors and try again."))
	}
	var imports, passages, measurements, clicks, droppedEdits []testStep
	for i, line := range []string{"import os", "import os, re", "from os import listdir", "import os as o", "import os, sys"} {
		imports = append(imports, call("python_interpreter", jsonArgs("code", line+"\nprint(1)"),
			"Code execution failed at line '"+line+"' due to: InterpreterError: Import of os is not allowed. Authorized imports are: ['re', 'math']"))
		query := []string{"bereavement of a trainee", "bereavement, trainee", "bereavement days", "funeral days", "days for a funeral"}[i]
		score := fmt.Sprintf("score=0.82%d9", i)
		passages = append(passages, call("retrieve", jsonArgs("query", query), "[1] source=handbook.pdf#p12 "+score+"\nEmployees accrue 2.5 days of annual leave for each month."))
		measurements = append(measurements, call("evaluate", jsonArgs("epoch", strconv.Itoa(i)), "model bert-small on the held-out half of the data set\n"+score))
		clicks = append(clicks, call("browser_click", `{"ref":"e19","element":"`+query+`"}`, "### Page state\n- button \"Place order\" [ref=e19]\n- link \"Imprint\" [ref=e21]\n- text: Review your order and confirm"))
		droppedEdits = append(droppedEdits, call("edit_file", `{"target_file":"a.ts","instructions":"`+query+`","code_edit":"x"}`, "The apply model made no changes to the file."))
	}
	passages = append(passages, passages[0])
	measurements = append(measurements, measurements...)[:6]
	var withHeads []testStep
	for i, command := range []string{"cmake -B build", "cmake -S . -B build", "cd build; cmake .. 2>&1 | tail", "cmake .. ; true", "rm -rf build && cmake -B build"} {
		head := strings.Repeat("-- Looking for a header - found\n", i)
		withHeads = append(withHeads, bash(command, head+"CMake Error at CMakeLists.txt:14 (find_package):\n  Could not find a package configuration file provided by \"Eigen3\""))
	}
	for name, tc := range map[string]struct {
		steps []testStep
		loop  bool
	}{
		"guessed paths":                {guesses, true},
		"four guessed paths":           {guesses[:4], false},
		"guesses with a folder list":   {insertBeforeLast(guesses, call("list", `{}`, "/d")), true},
		"guesses, an unrelated edit":   {insertBeforeLast(guesses, edited), true},
		"guesses, one file exists":     {insertBeforeLast(guesses, call("read_text_file", `{"path":"/d/x"}`, "1,2")), false},
		"guesses, a different failure": {insertBeforeLast(guesses, call("read_text_file", `{"path":"/d"}`, "Error: EISDIR: illegal operation on a directory, read")), false},
		"guesses with a user turn":     {insertBeforeLast(guesses, userTurn("Look in the other folder, please.")), false},
		"checks for missing programs":  {callsWith("bash", "command", always("(no output)\n\nCommand exited with code 1"), "which a", "which b", "which c", "which d", "which e", "which f", "which g"), false},
		"commands without an effect":   {noEffect, true},
		"a build error after edits":    {builds, true},
		"guesses in one answer":        {append(append([]testStep{}, guesses[:3]...), parallel(guesses[3]), parallel(guesses[4])), false},
		"guesses with two tools":       {append(callsWith("open_file", "path", missing, paths...), guesses[:4]...), false},
		"six transient failures":       {transientFailures, true},
		"five transient failures":      {transientFailures[:5], false},
		"transient failures, a wait":   {insertBeforeLast(transientFailures, bash("sleep 60", "")), false},
		"the same error after edits":   {compileErrors(5, "a.c:7: error: unknown type name 'size_tt'"), true},
		"new errors after edits":       {compileErrors(6, "a.c:LINE: error: expected ';'"), false},
		"six identical screens":        {sameScreens, true},
		"five identical screens":       {sameScreens[:5], false},
		"a screen after a wait":        {insertBeforeLast(sameScreens, bash("sleep 5", "")), false},
		"a screen after an edit":       {insertBeforeLast(sameScreens, edited), false},
		"a different screen":           {insertBeforeLast(sameScreens, call("send_keys", `{"keys":"q"}`, "$ ")), false},
		"a game without progress":      {gameMoves, true},
		"checks for different objects": {seatChecks, false},
		"mail confirmations":           {confirmations, false},
		"a walk between two rooms":     {walk, true},
		"a shorter walk":               {walk[:7], false},
		"a walk with a new room":       {insertBeforeLast(walk, call("game", `{"command":"west"}`, "Study\nA key lies here.")), false},
		"a walk with an edit":          {insertBeforeLast(walk, edited), false},

		"guesses within 40 steps":                {append(append(guesses[:1:1], listings(35)...), guesses[1:]...), true},
		"guesses within 41 steps":                {append(append(guesses[:1:1], listings(36)...), guesses[1:]...), false},
		"guesses with a wait":                    {insertBeforeLast(guesses, bash("sleep 60", "")), true},
		"compile errors with a refusal":          {insertBeforeLast(inShell("cc", "boom"+failed, "boom"+failed, "boom"+failed, "boom"+failed, "boom"+failed), bash("cc b", refused)), true},
		"compile errors with a running compiler": {insertBeforeLast(inShell("cc", "boom"+failed, "boom"+failed, "boom"+failed, "boom"+failed, "boom"+failed), bash("cc b", "Process running with session ID 7")), true},
		"four failures, a success":               {inShell("cc", "boom"+failed, "boom"+failed, "boom"+failed, "boom"+failed, "boom\n\nCommand exited with code 0"), false},
		"five pages, a failure":                  {inShell("./show", page, page, page, page, page, page+failed), false},
		"five pages, a failure in between":       {inShell("./show", page, page, page, page+failed, page, page), false},
		"a screen with a read in between":        {insertBeforeLast(sameScreens, call("read", `{"path":"a.c"}`, "long n;")), true},
		"a screen after the same tool waited":    {insertBeforeLast(inShell("cat", page, page, page, page, page), bash("sleep 5; cat b", page)), false},
		"edits with a long confirmation":         {editSteps(7), false},
		"a REPL without output":                  {inRepl("", "", "", "", "", "", ""), false},
		"a REPL with repeated output":            {inRepl("", "3", "", "3", "", "3", "", "3", "", "3"), false},
		"checks for eight objects":               {callsWith("check_seat", "seat", always("free"), "1A", "1B", "1C", "1D", "1E", "1F", "2A", "2B"), false},
		"a walk with two tools":                  {append(walk[:2:2], withTool("other", walk[:6]...)...), false},
		"a walk with a parallel call":            {append(walk[:6:6], goNorth, parallel(goSouth)), false},
		"a walk with waits":                      {append([]testStep{kitchen, hall, waited}, insertBeforeLast(walk[2:], waited)...), false},
		"a walk with refusals":                   {append([]testStep{kitchen, hall, refuse}, insertBeforeLast(walk[2:], refuse)...), false},
		"a walk after a new room":                {[]testStep{kitchen, hall, call("game", `{"command":"west"}`, "Study\nA key lies here."), call("game", `{"command":"look"}`, "Study\nA key lies here."), goNorth, goSouth, kitchen, hall, goNorth}, true},
		"a walk after two calls in a new room":   {[]testStep{kitchen, hall, call("game", `{"command":"west"}`, "Study\nA key lies here."), sameRoom, goNorth, goSouth, kitchen, hall, goNorth}, false},
		"two alternating failures":               {inShell("./do", "one"+failed, "two"+failed, "one"+failed, "two"+failed, "one"+failed, "two"+failed, "one"+failed, "two"+failed), true},
		"two results, then alternating failures": {inShell("./do", "one", "two", "one"+failed, "two"+failed, "one"+failed, "two"+failed, "one"+failed, "two"+failed), false},
		"two alternating command results":        {inShell("./do", "one", "two", "one", "two", "one", "two", "one", "two"), true},
		"one failure from five programs":         {[]testStep{failedBash("./a x"), failedBash("./b x"), failedBash("./c x"), failedBash("./d x"), failedBash("./e x")}, false},
		"tests with the same failed test":        {failingTests, false},
		"a game with two tools":                  {append(gameMoves[:3:3], withTool("adventure", gameMoves[3:]...)...), false},
		"a screen with two reads in between":     {append(append(sameScreens[:1:1], listings(2)...), sameScreens[1:]...), true},
		"a screen with one read twice":           {append(append(append(sameScreens[:1:1], listings(1)...), sameScreens[1]), append(listings(1), sameScreens[2:]...)...), true},
		"a walk seen 38 steps before":            {append(append(walk[:2:2], listings(32)...), walk[2:]...), true},
		"a walk seen 39 steps before":            {append(append(walk[:2:2], listings(33)...), walk[2:]...), false},
		"mails to eight people":                  {mailSteps(8), false},
		"a form whose page changes":              {formSteps("a=", "a=1", "a=1 b=2", "a=1 b=2 c=3", "a=1 b=2 c=3 d=4", "all"), false},
		"a form whose page does not change":      {formSteps("a=", "a=", "a=", "a=", "a=", "a="), true},
		"a file read by six tools":               {fileReads, true},
		"a file read by five tools":              {fileReads[:5], false},
		"a file read by six tools, and an edit":  {insertBeforeLast(fileReads, edited), false},
		"a short file read by six tools":         {shortFileReads, false},
		"mails to two people":                    {mailSteps(2), true},
		"an ended task, polled in five ways":     {polls[:5], true},
		"an ended task, polled in four ways":     {polls[:4], false},
		"a log that ends with a fatal error":     {deadLogs, true},
		"a sub-agent with the same task":         {tasks, true},
		"two sub-agents with the same task":      {tasks[:3], false},
		"the same task after an edit":            {insertBeforeLast(tasks, edited), false},
		"the same plan five times":               {repeatSteps(5, plan), true},
		"the same plan four times":               {repeatSteps(4, plan), false},
		"the same failed test after five edits":  {testsAfterEdits, false},
		"a background program at a prompt":       {prompts("Ok to proceed? (y) ", "", "", ""), true},
		"two polls at a prompt":                  {prompts("Ok to proceed? (y) ", "", ""), false},
		"a background program without output":    {prompts("Installing 214 packages", "", "", "", "", ""), false},
		"output after a prompt":                  {prompts("Password: ", "", "sending a.bin", "", "", ""), false},
		"a session at a password prompt":         {sessionPolls(""), true},
		"a session with answers":                 {sessionPolls("yes\\n"), false},
		"a terminal after an answer":             {answered, false},
		"keys in an object":                      {objectKeys, false},
		"a script that waits for a key":          {prompts("Press any key to continue . . .", "", "", ""), true},
		"a shell in an open quote":               {openQuote, true},
		"one failure before different output":    {withHeads, true},
		"the same error with other ids":          {bounces, true},
		"keys that move a highlighted row":       {menuKeys, false},
		"the same error with other articles":     {delegations, true},
		"an import that is not allowed":          {imports, true},
		"passages with other scores":             {passages, true},
		"measurements with other scores":         {measurements, false},
		"clicks with other descriptions":         {clicks, true},
		"edits that the apply model drops":       {droppedEdits, true},
		"the same error at other positions":      {unknownNames, true},
		"a counted validation error":             {invalidArgs, true},
		"an ended task, polled after a change":   {insertBeforeLast(polls[:5], bash("kubectl -n shop apply -f web.yaml", "configured")), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if n := countLoops(t, tc.steps...); n > 0 != tc.loop {
				t.Errorf("Inspect: %d loops, want a loop: %v", n, tc.loop)
			}
			if got := replay(t, wire.Chat, tc.steps); len(got) > 0 != tc.loop {
				t.Errorf("growing requests: loops at steps %v, want a loop: %v", got, tc.loop)
			}
			if slices.ContainsFunc(tc.steps, func(s testStep) bool { return s.sameAnswer }) {
				return // replayFromCheckpoints can only send one call in each request
			}
			if got := replayFromCheckpoints(t, tc.steps); len(got) > 0 != tc.loop {
				t.Errorf("requests without history: loops at steps %v, want a loop: %v", got, tc.loop)
			}
		})
	}
}
