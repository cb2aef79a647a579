package distill_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"precept/distill"
)

func unusualEvents() []event {
	refused := "The user doesn't want to proceed with this tool use. The tool use was rejected"
	return []event{
		user("Test it."), user("No, use pnpm instead of npm."), user("No! Use --workspace with npm run, please use make test"), user("never that, rather use"), user(""),
		call("get_order", `{"id":"W77812"}`, `{"error":"order not found for this customer"}`), call("get_order", `{"id":7}`, `{"error":"id must be a string"}`),
		call("get_order", `{"":1,"id":"W77812"}`, "Error: limit must be between 1 and 9"), call("get_order", `{"":5,"id":"W77812"}`, `{"ok":true}`),
		call("get_order", `["W77812"]`, "ok"), call("get_order", `not JSON`, "Error: the arguments are invalid"), call("", `{}`, "Error: this tool does not exist"),
		call("find_orders", `{"ids":[1,[2,{"a":null}]],"deep":{"a":{"b":{"c":{"d":{"e":1}}}}}}`, "Error: too many ids were given at once"),
		call("send_mail", `{"to":"ada"}`, refused), call("bash", `{"command":"git push --force"}`, refused), call("bash", `{"command":"git"}`, refused),
		call("bash", `{"command":""}`, "error: the command must not be empty"), call("bash", `{"command":"A=1"}`, "bash: error: the variable is read-only"), call("bash", `{"command":[]}`, "error: the command is missing in this request"),
		call("bash", `{"command":[1,null]}`, "error: the command is not valid"), call("bash", `{"command":"'"}`, "bash: unexpected end of file while looking for a quote"),
		call("bash", `{"command":"npm run test"}`, "npm error: the script is missing in this package"), call("bash", `{"command":"pnpm run test"}`, "12 passed"), call("bash", `{"command":"make test"}`, "12 passed"),
		call("bash", `{"command":"npm run test --workspace"}`, "12 passed"), call("bash", `{"command":"python3 -m"}`, "error: the argument is missing in this command"), call("bash", `{"command":"uv"}`, "12 passed"),
		call("bash", `{"command":"cd x"}`, "bash: cd: x: no such file or directory"), call("bash", `{"command":"sudo -u"}`, "sudo: error: the argument is missing in this command"), call("bash", `{"command":"> "}`, "error: the command is missing in this request"),
	}
}

func TestUnusualSessionsAreReadWithoutErrors(t *testing.T) {
	const sessions = 400
	events, dice := unusualEvents(), rand.New(rand.NewPCG(7, 7))
	f := newFixture(t)
	for n := range sessions {
		list := []event{user("Begin.")}
		for range 2 + dice.IntN(12) {
			list = append(list, events[dice.IntN(len(events))])
		}
		f.addSession(fmt.Sprint("odd", n), list...)
	}
	sum := f.runDistiller(func(o *distill.Options) {
		o.DryRun, o.OnFailure = true, func(name string, err error) {
			t.Errorf("reading session %s: %v", name, err)
		}
	})
	if sum.Judged != sessions {
		t.Errorf("Judged = %d, want %d", sum.Judged, sessions)
	}
	if sum.Failed != 0 {
		t.Errorf("Failed = %d, want 0", sum.Failed)
	}
}

func TestSessionWithEmptyParameterNameIsRead(t *testing.T) {
	f := newFixture(t)
	f.addSession("one", user("Show the rates."),
		call("get_rates", `{"":500}`, "Error: limit must be between 1 and 100"),
		call("get_rates", `{"":100}`, `{"rates":[1,2]}`))
	if sum := f.runDistiller(); sum.Judged != 1 {
		t.Errorf("Judged = %d, want 1", sum.Judged)
	} else if sum.Failed != 0 {
		t.Errorf("Failed = %d, want 0", sum.Failed)
	}
}

// A known failure gives a lesson only if it occurs twice, in one session or in two, or if the call succeeds within the
// next ten calls.
func TestKnownFailureNeedsSecondOccurrenceOrSuccess(t *testing.T) {
	const slug = "look-at-the-body-before-parsing-json"
	failure := call("run_query", `{"sql":"W77812"}`, "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)")
	other, success := call("run_query", `{"sql":"other"}`, "Error: no"), call("run_query", `{"sql":"another"}`, "12 rows")
	for name, tc := range map[string]struct {
		one, two []event
		slug     string
	}{
		"once":                      {[]event{failure}, nil, ""},
		"once, then other error":    {[]event{failure, other}, nil, ""},
		"twice":                     {[]event{failure, failure}, nil, slug},
		"once, then a success":      {[]event{failure, other, success}, nil, slug},
		"once, then a late success": {slices.Concat([]event{failure}, slices.Repeat([]event{other}, 10), []event{success}), nil, ""},
		"once in two sessions":      {[]event{failure}, []event{failure}, slug},
	} {
		f := newFixture(t)
		f.addSession("one", append([]event{user("Show the sums.")}, tc.one...)...)
		if tc.two != nil {
			f.addSession("two", append([]event{user("Draw the totals of May.")}, tc.two...)...)
		}
		f.runDistiller()
		checkEqual(t, name+": lessons", strings.Join(f.slugs(), " "), tc.slug)
	}
}
