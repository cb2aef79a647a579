package detect_test

import (
	"strings"
	"testing"
)

// Repeated waits for a task that has ended are a loop. Waits for a task that is still running are not.
func TestWaitsForAnEndedTaskAreALoop(t *testing.T) {
	t.Parallel()
	status := func(state string) []testStep {
		return []testStep{call("get_export", `{"id":4}`, `{"id":4,"status":"`+state+`","rows":12}`), bash("sleep 60", "")}
	}
	const crashed = "step 41 loss 0.7\nstep 42 loss 0.6\nRuntimeError: out of memory on device 0"
	tail := func(seconds, log string) testStep { return bash("sleep "+seconds+"; tail -n 3 train.log", log) }
	for name, tc := range map[string]struct {
		steps []testStep
		loop  bool
	}{
		"a cancelled export, four polls":  {repeatSteps(4, status("cancelled")...), true},
		"a cancelled export, three polls": {repeatSteps(3, status("cancelled")...), false},
		"a running export":                {repeatSteps(8, status("running")...), false},
		"a crashed training":              {[]testStep{tail("60", crashed), tail("60", crashed), tail("60", crashed), tail("60", crashed)}, true},
		"an image that does not exist":    {repeatSteps(4, bash("sleep 60; kubectl get pods", "shop-6d9f7c  0/1  ImagePullBackOff  0  4m")), true},
		"a pod that starts":               {repeatSteps(8, bash("sleep 60; kubectl get pods", "shop-6d9f7c  0/1  ContainerCreating  0  4m")), false},
		"a poll without a sleep":          {repeatSteps(4, bash("kubectl get pods", "shop-6d9f7c  0/1  ImagePullBackOff  0  4m")), true},
		"a running training":              {repeatSteps(8, tail("60", "step 41 loss 0.7\nstep 42 loss 0.6")), false},
	} {
		if got := countLoops(t, tc.steps...) > 0; got != tc.loop {
			t.Errorf("%s: loop found = %v, want %v", name, got, tc.loop)
		}
	}
}

// A failing service may recover while an agent waits, but a page does not change during the wait.
func TestWaitBetweenFailedClicksDoesNotEndTheLoop(t *testing.T) {
	t.Parallel()
	failed := call("click_element", `{"index":4}`, "Error: click: Timeout 30000ms exceeded\n- element is not visible")
	wait := call("wait", `{"seconds":3}`, "waited")
	if got := countLoops(t, failed, wait, failed, wait, failed, wait, failed, wait, failed, wait, failed); got == 0 {
		t.Error("six failed clicks with waits in between: got no loop, want a loop")
	}
}

// If a page stays the same after a click, a wait does not change the page either.
func TestWaitBetweenClicksWithoutEffectDoesNotEndTheLoop(t *testing.T) {
	t.Parallel()
	const page = "the page of the cart has a button and a total of three items"
	wait := call("browser_wait_for", `{"time":2}`, "Waited for 2")
	if got := countLoops(t, click(page), wait, click(page), wait, click(page), wait, click(page)); got == 0 {
		t.Error("four clicks without an effect: got no loop, want a loop")
	}
}

// A scheduler's message asks for the same check again, so the repeated checks are not a loop.
func TestTickOfASchedulerEndsAStreak(t *testing.T) {
	t.Parallel()
	check := call("get_state", `{"sensor":"cellar"}`, `{"sensor":"cellar","state":"dry","since":"2025-02-03"}`)
	for _, text := range []string{"[tick 06:15] check", "[06:15] check"} {
		tick := userTurn(text)
		if got := countLoops(t, check, tick, check, tick, check, tick, check, tick, check, tick, check); got != 0 {
			t.Errorf("one check for each message %q: got %d loops, want none", text, got)
		}
	}
}

// An agent may run one test many times to see whether it fails by chance.
func TestRepeatedTestWithBothOutcomesIsNotALoop(t *testing.T) {
	t.Parallel()
	passed := bash("go test -count=1 ./cart", "ok  \tshop/cart\t1.1s")
	failed := bash("go test -count=1 ./cart", "--- FAIL: TestCart (1.0s)\n    cart_test.go:7: late\nFAIL\nFAIL\tshop/cart\t1.3s\nFAIL")
	if got := countLoops(t, passed, failed, passed, passed, failed, passed, failed, passed, passed, failed); got != 0 {
		t.Errorf("a test that fails by chance: got %d loops, want none", got)
	}
}

func TestLogHeadersAndRandomIDsDoNotHideALoop(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string][2]string{
		"klog":                 {"E1130 11:36:16.943998   39553 memcache.go:265] no route to host", "E1130 11:54:11.525157   4982 memcache.go:265] no route to host"},
		"mail id":              {"552 message size 48210933 exceeds the limit DSPY3QUSKLX", "552 message size 48210933 exceeds the limit XSFCEBHR1AG"},
		"a BuildKit reference": {"a2ca26-e469::0ab5d59bc05d: lock not found", "63640a-eec5::3fdce3396269: lock not found"},
		"a date with minutes":  {"checked at 2025-02-03 08:12 UTC: no host is up", "checked at 2025-02-03 08:14 UTC: no host is up"},
		"a transaction":        {`{"ok":false,"txn":7376,"reason":"no response"}`, `{"ok":false,"txn":2298,"reason":"no response"}`},
		"a gradle daemon":      {"Starting a Gradle Daemon, 2 stopped Daemons could not be reused\nFAILURE: no JDK", "Starting a Gradle Daemon, 3 stopped Daemons could not be reused\nFAILURE: no JDK"},
	} {
		steps := []testStep{bash("./check", lines[0]+"\n\nCommand exited with code 1"), bash("./check", lines[1]+"\n\nCommand exited with code 1")}
		if got := countLoops(t, append(steps, steps[0])...); got == 0 {
			t.Errorf("%s: got no loop for three equal failures, want a loop", name)
		}
	}
	const deadlock = "fatal error: all goroutines are asleep - deadlock!\n\nCommand exited with code 2"
	if got := countLoops(t, bash("./check", deadlock), bash("./check", deadlock)); got == 0 {
		t.Error("two equal deadlocks of a Go program: got no loop, want a loop")
	}
	different := []testStep{bash("./check", "boom in CART9\n\nCommand exited with code 1"), bash("./check", "boom in ROOM7\n\nCommand exited with code 1")}
	if got := countLoops(t, different...); got != 0 {
		t.Errorf("failures with two different names: got %d loops, want none", got)
	}
}

// If commands for different files print the same confirmation, the agent makes progress.
func TestCommandsForDifferentFilesAreNotALoop(t *testing.T) {
	t.Parallel()
	var steps []testStep
	for _, file := range []string{"1", "2", "3", "4", "5", "6", "7"} {
		steps = append(steps, bash("psql -f "+file+".sql", "CREATE TABLE\nCREATE INDEX\n"+strings.Repeat("GRANT\n", 20)))
	}
	if got := countLoops(t, steps...); got != 0 {
		t.Errorf("one command for each of seven files: got %d loops, want none", got)
	}
}

// The results differ only in the number of the step. The page stays the same, so the clicks are a loop.
func TestClicksByIndexWithoutEffectAreALoop(t *testing.T) {
	t.Parallel()
	var steps []testStep
	for _, n := range []string{"3", "4", "5"} {
		steps = append(steps, call("click_element", `{"index":31}`, "Clicked the Pay button\n[28]<input name=\"iban\">\nPlease attach a receipt.\n[Step "+n+"]"))
	}
	if got := countLoops(t, steps...); got == 0 {
		t.Error("three clicks without an effect: got no loop, want a loop")
	}
}
