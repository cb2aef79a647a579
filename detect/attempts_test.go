package detect_test

import (
	"slices"
	"testing"
)

// Calls that differ only in a timeout, limit, page, option or search word repeat each other. Calls with different
// names, dates or ports do not.
func TestLoopsIgnoreLimitsAndOptions(t *testing.T) {
	callSteps := func(tool, result string, args ...string) (out []testStep) {
		for _, a := range args {
			out = append(out, call(tool, a, result))
		}
		return out
	}
	shellSteps := func(result string, commands ...string) (out []testStep) {
		for _, c := range commands {
			out = append(out, bash(c, result))
		}
		return out
	}
	echoedSearches := func(queries ...string) (out []testStep) {
		for _, q := range queries {
			out = append(out, call("search_docs", `{"query":`+q+`}`, "No page has the words "+q+"."))
		}
		return out
	}
	const noSlots, failed = "No slots available", "no answer\n\nCommand exited with code 2"
	for name, tc := range map[string]struct {
		steps []testStep
		loop  bool
	}{
		"dates":                                {callSteps("check_availability", noSlots, `{"start":"2024-05-01"}`, `{"start":"2024-05-02"}`, `{"start":"2024-05-03"}`, `{"start":"2024-05-04"}`), false},
		"years":                                {callSteps("check_availability", noSlots, `{"start":"2021"}`, `{"start":"2022"}`, `{"start":"2023"}`, `{"start":"2024"}`), false},
		"names in a field named after":         {callSteps("list_users", "[]", `{"after":"anna"}`, `{"after":"berta"}`, `{"after":"7"}`, `{"after":"8"}`), false},
		"names in a field named skip":          {callSteps("find_room", noSlots, `{"skip":"3rd floor"}`, `{"skip":"4th floor"}`, `{"skip":"5th floor"}`, `{"skip":"6th floor"}`), false},
		"different values of k":                {callSteps("get_value", "nothing", `{"k":"a1"}`, `{"k":"a2"}`, `{"k":"a3"}`, `{"k":"a4"}`), false},
		"page names":                           {callSteps("get_page", "nothing", `{"page":"home1"}`, `{"page":"about2"}`, `{"page":"x3"}`, `{"page":"y4"}`), false},
		"NaN and infinity as pages":            {callSteps("get_page", "nothing", `{"page":"nan","x":1}`, `{"page":"inf","x":1}`, `{"page":"infinity","x":1}`, `{"page":"NaN","x":1}`), false},
		"line contents":                        {callSteps("show_diff", "nothing", `{"lines":["a1"]}`, `{"lines":["a2"]}`, `{"lines":["a3"]}`, `{"lines":["a4"]}`), false},
		"page tokens":                          {callSteps("list_items", "a, b", `{"page_token":"aa"}`, `{"page_token":"bb"}`, `{"page_token":"cc"}`, `{"page_token":"dd"}`), true},
		"cursors":                              {callSteps("list_items", "a, b", `{"cursor":"x1"}`, `{"cursor":"x2"}`, `{"cursor":"x3"}`, `{"cursor":"x4"}`), true},
		"limits as strings":                    {callSteps("list_items", "a, b", `{"limit":"10"}`, `{"limit":"20"}`, `{"limit":"30"}`, `{"limit":"40"}`), true},
		"timeouts with units":                  {callSteps("list_items", "a, b", `{"timeout":"10s"}`, `{"timeout":"30s"}`, `{"timeout":"1m"}`, `{"timeout":"5m"}`), true},
		"start offsets":                        {callSteps("list_items", "a, b", `{"start":0}`, `{"start":10}`, `{"start":20}`, `{"start":30}`), true},
		"line ranges":                          {callSteps("view_text", "a, b", `{"view_range":[1,9]}`, `{"view_range":[9,20]}`, `{"view_range":[20,30]}`, `{"view_range":[30,40]}`), true},
		"ids in an option":                     {shellSteps(failed, "show-run --job=1", "show-run --job=2", "show-run --job=3", "show-run --job=4"), false},
		"ports in an option":                   {shellSteps(failed, "probe --port=5432", "probe --port=5433", "probe --port=5434", "probe --port=5435"), false},
		"levels in an option":                  {shellSteps(failed, "tune --level=1", "tune --level=2", "tune --level=3", "tune --level=4"), false},
		"timeouts in an option":                {shellSteps(failed, "probe --timeout=1", "probe --timeout=5", "probe --timeout=30s", "probe --timeout=2m"), true},
		"limit as a separate argument":         {shellSteps(failed, "probe --limit 1", "probe --limit 5", "probe --limit 30", "probe --limit 50"), true},
		"added options":                        {shellSteps(failed, "pkg add left", "pkg add left --force", "pkg add left --force --old"), true},
		"different packages":                   {shellSteps(failed, "pkg add left --force", "pkg add right --force", "pkg add up --force"), false},
		"looser patterns for one name":         {shellSteps("", "find . -name 'cart.proto'", "find . -iname '*cart.proto' -type f", "find . -iname '*cart.proto*' | head"), true},
		"different files listed by rg":         {shellSteps("", "rg --files -g '.editorconfig' app", "rg --files -g '.tool-versions' app", "rg --files -g '*.tf' app"), false},
		"looser patterns for files in rg":      {shellSteps("", "rg --files -g 'cart.proto' app", "rg --files --glob '*cart.proto' app", "rg --files -g '*cart.proto*' app"), true},
		"one name in grep and rg spellings":    {shellSteps("", "grep -rn 'lockCart' src/", "rg lockCart src", "grep -rni --include=*.ts lock_cart ./src"), true},
		"grep for different names":             {shellSteps("", "grep -rn lockCart src", "grep -rn freeCart src", "grep -rn dropCart src"), false},
		"grep in different folders":            {shellSteps("", "grep -rn lockCart src", "grep -rn lockCart test", "grep -rn lockCart docs"), false},
		"calls with an idempotency key":        {callSteps("open_gate", "Error: the motor is stuck", `{"gate":"n","idempotency_key":"k-81"}`, `{"gate":"n","idempotency_key":"k-82"}`, `{"gate":"n","idempotency_key":"k-83"}`), true},
		"patterns for files to delete":         {shellSteps(failed, "find . -name 'cart.proto' -delete", "find . -name '*cart.proto' -delete", "find . -name '*cart.proto*' -delete"), false},
		"edit between the calls":               {slices.Insert(callSteps("open_gate", "the motor is stuck", `{"gate":"n"}`, `{"gate":"n","force":true}`, `{"gate":"n","force":true,"slow":true}`), 1, call("edit", jsonArgs("file_path", "gate.ini"), "The file was updated.")), false},
		"patterns for different extensions":    {shellSteps("", "find . -name '*.proto'", "find . -name '*.thrift'", "find . -name '*.capnp'"), false},
		"quoted name, added options":           {shellSteps(failed, "pkg add 'left'", "pkg add 'left' --force", "pkg add 'left' --force --old"), true},
		"added options with a value":           {shellSteps(failed, "git push", "git -c http.proxy=p push", "git -c http.proxy=p -c http.version=2 push"), true},
		"added flags":                          {callSteps("open_gate", "the motor is stuck", `{"gate":"n"}`, `{"gate":"n","force":true}`, `{"gate":"n","force":true,"slow":true}`), true},
		"patterns for extensions":              {callSteps("glob", "no files", `{"pattern":"*.ts"}`, `{"pattern":"*.js"}`, `{"pattern":"*.py"}`), false},
		"test file extensions":                 {callSteps("glob", "no files", `{"pattern":"**/*.test.js"}`, `{"pattern":"**/*.test.ts"}`, `{"pattern":"**/*.test.py"}`), false},
		"test file extensions for find":        {shellSteps("", "find . -name '*.test.js'", "find . -name '*.test.ts'", "find . -name '*.test.py'"), false},
		"patterns for one file name":           {callSteps("glob", "no files", `{"pattern":"**/settings.ini"}`, `{"pattern":"**/*settings*"}`, `{"pattern":"settings.*"}`), true},
		"different identifiers":                {callSteps("grep", "no matches", `{"pattern":"oldApiGet"}`, `{"pattern":"oldApiPut"}`, `{"pattern":"oldApiList"}`), false},
		"identifier spellings":                 {callSteps("grep", "no matches", `{"pattern":"maxRetries"}`, `{"pattern":"max_retries"}`, `{"pattern":"max-retries"}`), true},
		"searches for different sellers":       {callSteps("search_docs", "no documents", `{"query":"acme price 2026"}`, `{"query":"bolt price 2026"}`, `{"query":"cargo price 2026"}`), false},
		"search words in a different order":    {callSteps("search_docs", "no documents", `{"query":"release date of farrow engine"}`, `{"query":"farrow engine launch date"}`, `{"query":"farrow engine release date"}`), true},
		"searches with a common word":          {callSteps("search_docs", "no documents", `{"query":"sign a header"}`, `{"query":"call header"}`, `{"query":"headers"}`), true},
		"search words in the result":           {echoedSearches(`"sign a header"`, `"header to sign"`, `"how to sign"`), true},
		"scroll amounts":                       {callSteps("browser_scroll", "The page shows a banner with the cookies of the shop and a button.", `{"amount":1}`, `{"amount":2}`, `{"amount":9}`), true},
		"added search words":                   {callSteps("search_docs", "no documents", `{"query":"signature"}`, `{"query":"signature header"}`, `{"query":"check signature header"}`), true},
		"unrelated searches":                   {callSteps("search_docs", "no documents", `{"query":"signature"}`, `{"query":"refund"}`, `{"query":"invoice pdf"}`), false},
		"searches in different folders":        {callSteps("grep", "no matches", `{"pattern":"a1b2","path":"x"}`, `{"pattern":"a1b2","path":"y"}`, `{"pattern":"a1b2","path":"z"}`), false},
		"added search options":                 {callSteps("grep", "no matches", `{"pattern":"a1b2"}`, `{"pattern":"a1b2","-i":true}`, `{"pattern":"a1b2","-i":true,"multiline":true}`), true},
		"letter case and LIMIT in a statement": {callSteps("run_sql", "ERROR: no table t9", `{"query":"SELECT a FROM t9"}`, `{"query":"select a from t9;"}`, `{"query":"SELECT a FROM t9 LIMIT 5"}`), true},
		"three pages":                          {callSteps("list_items", "a, b", `{"page":1}`, `{"page":2}`, `{"page":3}`), true},
		"two pages":                            {callSteps("list_items", "a, b", `{"page":1}`, `{"page":2}`), false},
		"pages in an option":                   {shellSteps(failed, "probe --page=1", "probe --page=2", "probe --page=3", "probe --page=4"), true},
	} {
		if got := countLoops(t, tc.steps...) > 0; got != tc.loop {
			t.Errorf("%s: loop found = %v, want %v", name, got, tc.loop)
		}
	}
}

// An agent can undo a fix once in order to see a test fail. The edits are a loop if there is no such test, if the
// failure is the same each time, or if the fix is undone a second time.
func TestRepeatedlyUndoneEditsAreALoop(t *testing.T) {
	fix := call("edit", `{"path":"a.go","old_string":"x","new_string":"y"}`, "The file a.go has been updated.")
	undo := call("edit", `{"path":"a.go","old_string":"y","new_string":"x"}`, "The file a.go has been updated.")
	writeOne := call("write_file", `{"path":"a.txt","content":"one"}`, "File written.")
	writeTwo := call("write_file", `{"path":"a.txt","content":"two"}`, "File written.")
	passingTest := bash("go test ./...", "ok  \tshop\t0.01s\n\nCommand exited with code 0")
	failingTest := bash("go test ./...", "--- FAIL: TestA (0.00s)\nFAIL\n\nCommand exited with code 1")
	readFile := call("read_file", `{"path":"a.go"}`, "x")
	showDiff := bash("git diff", "+y")
	switchOn := bash("sed -i s/off/on/ a.conf", "1 line\n\nCommand exited with code 0")
	switchOff := bash("sed -i s/on/off/ a.conf", "1 line\n\nCommand exited with code 0")
	testByTool := call("run_tests", `{"n":1}`, "1 failed")
	for name, tc := range map[string]struct {
		steps []testStep
		loop  bool
	}{
		"fix undone for a test":              {[]testStep{fix, passingTest, undo, failingTest, fix}, false},
		"tested only without the fix":        {[]testStep{fix, undo, failingTest, fix}, false},
		"tested by a tool":                   {[]testStep{fix, undo, testByTool, fix}, false},
		"tested only with the fix":           {[]testStep{fix, passingTest, undo, readFile, fix}, false},
		"undone and fixed twice":             {[]testStep{fix, passingTest, undo, failingTest, fix, passingTest, undo, failingTest, fix}, true},
		"undone twice":                       {[]testStep{fix, passingTest, undo, failingTest, fix, passingTest, undo}, true},
		"two commands in three rounds":       {[]testStep{switchOn, switchOff, switchOn, switchOff, switchOn, switchOff}, true},
		"two commands in two rounds":         {[]testStep{switchOn, switchOff, switchOn, switchOff}, false},
		"alternating commands and tests":     {[]testStep{switchOn, passingTest, switchOff, failingTest, switchOn, passingTest, switchOff, failingTest, switchOn, passingTest, switchOff, failingTest}, true},
		"commands with different results":    {[]testStep{switchOn, switchOff, switchOn, bash("sed -i s/on/off/ a.conf", "3 lines\n\nCommand exited with code 0"), switchOn, switchOff}, false},
		"not tested":                         {[]testStep{fix, undo, fix}, true},
		"only read between the edits":        {[]testStep{fix, readFile, undo, showDiff, fix}, true},
		"both versions fail in the same way": {[]testStep{fix, failingTest, undo, failingTest, fix}, true},
		"two file versions":                  {[]testStep{writeOne, writeTwo, writeOne, writeTwo}, true},
		"two versions, one passes":           {[]testStep{writeOne, failingTest, writeTwo, passingTest, writeOne, failingTest, writeTwo}, false},
		"two versions in three rounds":       {[]testStep{writeOne, failingTest, writeTwo, passingTest, writeOne, failingTest, writeTwo, passingTest, writeOne, failingTest, writeTwo}, true},
		"two versions with the same failure": {[]testStep{writeOne, failingTest, writeTwo, failingTest, writeOne, failingTest, writeTwo}, true},
		"a third version in between":         {[]testStep{writeOne, writeTwo, call("write_file", `{"path":"a.txt","content":"six"}`, "File written."), writeTwo}, false},
	} {
		if got := countLoops(t, tc.steps...) > 0; got != tc.loop {
			t.Errorf("%s: loop found = %v, want %v", name, got, tc.loop)
		}
		if got := len(replayFromCheckpoints(t, tc.steps)) > 0; got != tc.loop {
			t.Errorf("%s, requests without history: loop found = %v, want %v", name, got, tc.loop)
		}
	}
}

func TestSameNoteInThreeRoundsIsALoop(t *testing.T) {
	note := func(text string) testStep { return call("think", jsonArgs("thought", text), "Noted.") }
	look := bash("echo $HOME", "/\n\nCommand exited with code 0")
	for name, tc := range map[string]struct {
		steps []testStep
		loop  bool
	}{
		"three rounds":    {repeatSteps(3, note("Is the key set?"), look), true},
		"two rounds":      {repeatSteps(2, note("Is the key set?"), look), false},
		"different notes": {[]testStep{note("a"), look, note("b"), look, note("c"), look}, false},
	} {
		if got := countLoops(t, tc.steps...) > 0; got != tc.loop {
			t.Errorf("%s: loop found = %v, want %v", name, got, tc.loop)
		}
		if got := len(replayFromCheckpoints(t, tc.steps)) > 0; got != tc.loop {
			t.Errorf("%s, requests without history: loop found = %v, want %v", name, got, tc.loop)
		}
	}
}
