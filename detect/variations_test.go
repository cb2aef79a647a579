package detect_test

import (
	"strings"
	"testing"

	"precept/internal/wire"
)

// Variations of a call differ in options, spelling or additional arguments. A change, a user turn or many reads end the
// loop.
func TestSameFailureInCallVariationsIsALoop(t *testing.T) {
	t.Parallel()
	const (
		rejected = "To host:cart.git\n ! [rejected] main -> main (non-fast-forward)\nerror: failed to push some refs to 'host:cart.git'"
		python   = "ERROR: Package 'cart' requires a different Python: 3.10.12 not in '>=3.12'"
		tooLarge = `{"ok":false,"reason":"PARTY_TOO_LARGE","trace":"b81f"}`
	)
	push := []testStep{
		bash("git push", rejected), bash("git push origin main", rejected), bash("git push -u origin main", rejected),
		bash("git push origin HEAD:main 2>&1", rejected),
	}
	install := []testStep{
		bash(". .venv/bin/activate && pip install -e .", python), bash("source .venv/bin/activate; pip install --editable . -v", "Using pip 22.0\n"+python),
		bash(".venv/bin/pip install -e .", python), bash("cd /srv && python -m pip install -e '.' | tail -3", python),
	}
	bookings := func(args ...string) (steps []testStep) {
		for _, a := range args {
			steps = append(steps, call("book_table", a, tooLarge))
		}
		return steps
	}
	failingEdits := func(old ...string) (steps []testStep) {
		for _, o := range old {
			steps = append(steps, call("str_replace_editor", `{"command":"str_replace","path":"/srv/db.yaml","old_str":"`+o+`","new_str":"x"}`,
				"No replacement was performed, old_str `"+o+"` did not appear verbatim in /srv/db.yaml."))
		}
		return steps
	}
	insertBeforeLast := func(steps []testStep, added ...testStep) []testStep {
		out := append([]testStep{}, steps[:len(steps)-1]...)
		return append(append(out, added...), steps[len(steps)-1])
	}
	failingPatches := func(lines ...string) (steps []testStep) {
		for _, l := range lines {
			steps = append(steps, call("apply_patch", `{"input":"*** Begin Patch\\n*** Update File: lib/cart.ex\\n`+l+`\\n*** End Patch"}`,
				"apply_patch verification failed: Failed to find expected lines in lib/cart.ex:\n"+l))
		}
		return steps
	}
	var reads []testStep
	for i := range 24 {
		reads = append(reads, bash("cat file"+string(rune('a'+i)), "text of "+string(rune('a'+i))))
	}
	const busy = "error: failed to push some refs: 503 Service Unavailable"
	for name, tc := range map[string]struct {
		steps []testStep
		loop  bool
	}{
		"command options":           {push, true},
		"three variations":          {push[:3], false},
		"install spellings":         {install, true},
		"additional arguments":      {bookings(`{"day":1,"size":8}`, `{"day":1,"size":8,"area":"garden"}`, `{"size":8,"day":1,"vip":"yes"}`, `{"size":8,"day":1,"name":"Li"}`), true},
		"different days":            {bookings(`{"day":1,"size":8}`, `{"day":2,"size":8}`, `{"day":3,"size":8}`, `{"day":4,"size":8}`), false},
		"a failing edit":            {failingEdits("max: 20", "  max: 20", "max:  20", "max: 20 "), true},
		"a failing patch":           {failingPatches("-a", "- a", "-  a", "-   a"), true},
		"different descriptions":    {bookings(`{"day":1,"size":8,"description":"a"}`, `{"day":1,"size":8,"description":"b"}`, `{"day":1,"size":8,"vip":"x","description":"c"}`, `{"day":1,"size":8,"name":"Li","description":"d"}`), true},
		"many reads in between":     {insertBeforeLast(push, reads...), false},
		"a busy server":             {[]testStep{bash("git push", busy), bash("git push origin main", busy), bash("git push -u origin main", busy), bash("git push origin HEAD:main", busy)}, false},
		"a busy server, five times": {[]testStep{bash("git push", busy), bash("git push origin main", busy), bash("git push -u origin main", busy), bash("git push origin HEAD:main", busy), bash("git push -v origin main", busy)}, true},
		"a read in between":         {insertBeforeLast(push, bash("git status", "behind")), true},
		"a change in between":       {insertBeforeLast(push, bash("git pull", "Updating 1..2")), false},
		"a user turn in between":    {insertBeforeLast(push, testStep{user: "try again"}), false},
		"a different failure":       {insertBeforeLast(push, bash("git push origin main --dry-run", "fatal: could not read from remote repository\nerror: 1")), false},
		"different commands":        {[]testStep{bash("git push", rejected), bash("git fetch", rejected), bash("git pull", rejected), bash("git merge", rejected)}, false},
		"different test failures":   {[]testStep{bash("pytest", "FAILED a.py::x\n1 failed"), bash("pytest -x", "FAILED a.py::y\n1 failed"), bash("pytest -s", "FAILED a.py::z\n1 failed"), bash("pytest -v", "FAILED a.py::x\n1 failed")}, false},
		"clicks with new refs":      {[]testStep{clickWithRef("e7"), clickWithRef("e19"), clickWithRef("s3e7")}, true},
		"SQL spellings":             {failedQueries("SELECT * FROM carts LIMIT 10", "select count(*) from carts", "SELECT id FROM carts;", "SELECT * FROM public.carts"), true},
		"SQL for different tables":  {failedQueries("SELECT * FROM carts", "SELECT * FROM users", "SELECT * FROM rooms", "SELECT * FROM gates"), false},
		"curl progress in between":  {[]testStep{bash("curl -s h/a", refusedJSON), bash("curl h/a", curlProgress+refusedJSON), bash("curl -S h/a", refusedJSON), bash("curl -v h/a", curlProgress+refusedJSON)}, true},
		"clicks without an effect":  {[]testStep{click("the page of the cart has a button and a total of three items"), click("the page of the cart has a button and a total of three items"), click("the page of the cart has a button and a total of three items")}, true},
		"clicks with an effect":     {[]testStep{click("the page of the cart has a button and a total of one item now"), click("the page of the cart has a button and a total of two items now"), click("the page of the cart has a button and a total of six items now")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := countLoops(t, tc.steps...) > 0; got != tc.loop {
				t.Errorf("Inspect: loop found = %v, want %v", got, tc.loop)
			}
			if got := len(replay(t, wire.Chat, tc.steps)) > 0; got != tc.loop {
				t.Errorf("Loops with growing requests: loop found = %v, want %v", got, tc.loop)
			}
		})
	}
}

const curlProgress = "  % Total    % Received % Xferd  Average Speed   Time    Time     Time  Current\n                                 Dload  Upload   Total   Spent    Left  Speed\n" +
	"100    82  100    82    0     0  40000      0 --:--:-- --:--:-- --:--:-- 41000\n"

const refusedJSON = `{"statusCode":403,"message":"Cannot GET /a","error":"Forbidden"}`

func clickWithRef(ref string) testStep {
	return call("browser_click", `{"element":"Pay","ref":"`+ref+`"}`, "- button \"Pay\" [ref="+ref+"]\n- text: Please choose a day for the delivery of the cart")
}

// failedQueries returns calls that fail with an error about the statement's table. The table is the last word of the
// statement. If this word is another spelling of carts, such as "carts;", the error names the table carts.
func failedQueries(statements ...string) (steps []testStep) {
	for _, s := range statements {
		name := s[strings.LastIndex(s, " ")+1:]
		if strings.Contains(s, "carts") {
			name = "carts"
		}
		steps = append(steps, call("run_query", jsonArgs("sql", s), `Error: relation "`+name+`" does not exist`))
	}
	return steps
}

func click(page string) testStep { return call("browser_click", `{"ref":"e7"}`, page) }
