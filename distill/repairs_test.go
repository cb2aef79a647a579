package distill_test

import (
	"fmt"
	"strings"
	"testing"
)

// Repairs of which each makes a lesson of its own kind, and what comes near and makes none.
func TestKindsOfRepairs(t *testing.T) {
	for _, c := range []struct {
		name   string
		events []event
		slugs  string
		says   string // in the advice of the first lesson
	}{
		{"fewer words find more", []event{
			user("Find what was said of the harbour."),
			call("search_notes", `{"query":"harbour plans of the northern quay 2031"}`, `{"error":"no results for this query were found"}`),
			call("search_notes", `{"query":"harbour plans"}`, `{"notes":["quay"]}`),
		}, "ask-search-notes-for-fewer-words", "cut `query` down"},
		{"fewer values at once", []event{
			user("Show the rates."),
			call("get_rates", `{"codes":["EUR","USD","CHF","JPY"]}`, `{"error":"too many codes were given at once"}`),
			call("get_rates", `{"codes":["EUR","USD"]}`, `{"rates":[1,2]}`),
		}, "give-fewer-values-in-codes-of-get-rates", "Split them over several calls"},
		{"a parameter less", []event{
			user("Show the board."),
			call("get_board", `{"board":"W77812","verbose":true}`, `{"error":"unknown argument verbose"}`),
			call("get_board", `{"board":"W77812"}`, `{"cards":[]}`),
		}, "leave-verbose-out-of-get-board", "without it the same call worked"},
		{"the user was asked", []event{
			user("Where is my parcel?"),
			call("get_parcel", `{"parcel_id":"PX-4411-0"}`, `{"error":"parcel not found for this customer"}`),
			user("Sorry, the parcel is PX-7719-3."),
			call("get_parcel", `{"parcel_id":"PX-7719-3"}`, `{"state":"on its way"}`),
		}, "ask-the-user-for-parcel-id-of-get-parcel", "Ask for it once"},
		{"a value of which nobody knows whence it came", []event{
			user("Where is my parcel?"),
			call("get_parcel", `{"parcel_id":"PX-4411-0"}`, `{"error":"parcel not found for this customer"}`),
			call("get_parcel", `{"parcel_id":"PX-7719-3"}`, `{"state":"on its way"}`),
		}, "", ""},
		{"a value that the user had said before", []event{
			user("Where is my parcel PX-7719-3?"),
			call("get_parcel", `{"parcel_id":"PX-4411-0"}`, `{"error":"parcel not found for this customer"}`),
			call("get_parcel", `{"parcel_id":"PX-7719-3"}`, `{"state":"on its way"}`),
		}, "", ""},
	} {
		b := newBench(t)
		b.session("one", c.events...)
		b.distil()
		if got := strings.Join(b.slugs(), " "); got != c.slugs {
			t.Errorf("%s: %q, want %q", c.name, got, c.slugs)
			continue
		}
		for _, l := range b.lessons() {
			if !strings.Contains(l.Advice, c.says) {
				t.Errorf("%s: the advice is %q", c.name, l.Advice)
			}
		}
	}
}

// What may pass by itself, or says nothing, teaches nothing, however often it comes.
func TestWhatTeachesNothing(t *testing.T) {
	for _, refusal := range []string{
		"it took a strange and silent turn", "something went wrong", "internal server error", "the harbour is closed until the tide is back", "unknown error, please try again later",
	} {
		b := newBench(t)
		for i := range 3 {
			failing := call("change_order", `{"order_id":"W77810"}`, fmt.Sprintf(`{"error":%q}`, refusal))
			b.session(fmt.Sprint("s", i), user(fmt.Sprint("Change order number ", i, " as I said.")), failing, failing)
		}
		b.distil()
		if got := b.slugs(); len(got) != 0 {
			t.Errorf("%s: %v", refusal, got)
		}
	}
}

// Where nothing helped, the lesson says what to do instead, by what the error says.
func TestWhatToDoInstead(t *testing.T) {
	for refusal, advice := range map[string]string{
		"the api key is not subscribed to this plan":    "Access is missing",
		"the colour that you named does not exist here": "What was asked for is not there under that name",
		"the monthly quota of calls was exceeded":       "No call of yours lifts that limit",
		"there are not enough seats left on it":         "Look for an alternative first",
		"a delivered order cannot be changed again":     "The rule stands",
		"deliveries on a Sunday are not supported here": "Change what the error names",
	} {
		b := newBench(t)
		for i := range 3 {
			failing := call("change_order", fmt.Sprintf(`{"order_id":"W%d"}`, 77810+i), fmt.Sprintf(`{"error":%q}`, refusal))
			again := call("change_order", fmt.Sprintf(`{"order_id":"W%d"}`, 77810+i), fmt.Sprintf(`{"error":%q}`, refusal))
			b.session(fmt.Sprint("s", i), user(fmt.Sprint("Change order number ", i, " as I said.")), failing, again)
		}
		b.distil()
		list := b.lessons()
		if len(list) != 1 || !strings.HasPrefix(list[0].Slug, "stop-calling-change-order-after") {
			t.Errorf("%s: %v", refusal, b.slugs())
			continue
		}
		if !strings.Contains(list[0].Advice, advice) || list[0].Outcome != "failure" {
			t.Errorf("%s: %s %q", refusal, list[0].Outcome, list[0].Advice)
		}
	}
}
