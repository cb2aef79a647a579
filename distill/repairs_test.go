package distill_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestEachRepairKindGivesLesson(t *testing.T) {
	for _, tc := range []struct {
		name       string
		events     []event
		slugs      string // separated by spaces
		wantAdvice string // substring of each lesson's advice
	}{
		{"shorter search query", []event{
			user("Find what was said of the harbour."),
			call("search_notes", `{"query":"harbour plans of the northern quay 2031"}`, `{"error":"no results for this query were found"}`),
			call("search_notes", `{"query":"harbour plans"}`, `{"notes":["quay"]}`),
		}, "ask-search-notes-for-fewer-words", "shorten `query`"},
		{"shorter list of values", []event{
			user("Show the rates."),
			call("get_rates", `{"codes":["EUR","USD","CHF","JPY"]}`, `{"error":"too many codes were given at once"}`),
			call("get_rates", `{"codes":["EUR","USD"]}`, `{"rates":[1,2]}`),
		}, "give-fewer-values-in-codes-of-get-rates", "over several calls"},
		{"two changed values, one named in the error", []event{
			user("Book the blue room at nine."),
			call("book_room", `{"room":"blue","start":"9am","end":"10am"}`, `{"error":"start must be an ISO 8601 datetime"}`),
			call("book_room", `{"room":"blue","start":"2031-05-05T09:00:00Z","end":"2031-05-05T10:00:00Z"}`, `{"ok":true}`),
		}, "give-start-to-book-room-as-its-error-describes", "“start must be an ISO 8601 datetime”"},
		{"value above the limit", []event{
			user("Twelve lamps, please."),
			call("add_to_cart", `{"sku":"LAMP-01","quantity":12}`, `{"error":"quantity exceeds the limit of 10 per order"}`),
			call("add_to_cart", `{"sku":"LAMP-01","quantity":10}`, `{"items":10}`),
		}, "keep-quantity-of-add-to-cart-within-its-bounds", "the nearest allowed value for `quantity`"},
		{"value from a lookup", []event{
			user("Which flights leave New York?"),
			call("search_flights", `{"origin":"New York","destination":"BOS"}`, `{"error":"unknown airport code"}`),
			call("list_airports", `{"city":"New York"}`, `{"airports":["JFK","LGA"]}`),
			call("search_flights", `{"origin":"JFK","destination":"BOS"}`, `{"flights":["F1"]}`),
		}, "take-origin-from-list-airports-before-search-flights", "copy `origin` from the result"},
		{"removed parameter", []event{
			user("Show the board."),
			call("get_board", `{"board":"W77812","verbose":true}`, `{"error":"unknown argument verbose"}`),
			call("get_board", `{"board":"W77812"}`, `{"cards":[]}`),
		}, "leave-verbose-out-of-get-board", "the same call without `verbose` succeeded"},
		{"value from the user after the error", []event{
			user("Where is my parcel?"),
			call("get_parcel", `{"parcel_id":"PX-4411-0"}`, `{"error":"parcel not found for this customer"}`),
			user("Sorry, the parcel is PX-7719-3."),
			call("get_parcel", `{"parcel_id":"PX-7719-3"}`, `{"state":"on its way"}`),
		}, "ask-the-user-for-parcel-id-of-get-parcel", "ask the user once"},
		{"value from an unknown source", []event{
			user("Where is my parcel?"),
			call("get_parcel", `{"parcel_id":"PX-4411-0"}`, `{"error":"parcel not found for this customer"}`),
			call("get_parcel", `{"parcel_id":"PX-7719-3"}`, `{"state":"on its way"}`),
		}, "", ""},
		{"value from the user before the error", []event{
			user("Where is my parcel PX-7719-3?"),
			call("get_parcel", `{"parcel_id":"PX-4411-0"}`, `{"error":"parcel not found for this customer"}`),
			call("get_parcel", `{"parcel_id":"PX-7719-3"}`, `{"state":"on its way"}`),
		}, "", ""},
	} {
		f := newFixture(t)
		f.addSession("one", tc.events...)
		f.runDistiller()
		if got := strings.Join(f.slugs(), " "); got != tc.slugs {
			t.Errorf("%s: lessons = %q, want %q", tc.name, got, tc.slugs)
			continue
		}
		for _, l := range f.lessons() {
			if !strings.Contains(l.Advice, tc.wantAdvice) {
				t.Errorf("%s: advice = %q, want it to contain %q", tc.name, l.Advice, tc.wantAdvice)
			}
		}
	}
}

func TestTransientOrUnspecificErrorsGiveNoLesson(t *testing.T) {
	for _, refusal := range []string{
		"it took a strange and silent turn", "something went wrong", "internal server error", "the harbour is closed until the tide is back", "unknown error, please try again later",
	} {
		f := newFixture(t)
		for i := range 3 {
			failing := call("change_order", `{"order_id":"W77810"}`, fmt.Sprintf(`{"error":%q}`, refusal))
			f.addSession(fmt.Sprint("s", i), user(fmt.Sprint("Change order number ", i, " as I said.")), failing, failing)
		}
		f.runDistiller()
		if got := f.slugs(); len(got) != 0 {
			t.Errorf("error %q: lessons = %v, want none", refusal, got)
		}
	}
}

// Each case with a lesson is just within the limit of a rule, and each case without a lesson is just beyond the limit.
func TestRepairRulesHaveLimits(t *testing.T) {
	checkLessons(t, []lessonCase{
		{"second lookup for the same objects", "use-find-order-by-name-when-find-order-by-id-fails", []event{
			failedCall("find_order_by_id", `{"id":"W77812"}`, "an order cannot be found by the id of an item"), acceptedCall("find_order_by_name", `{"name":"Ada"}`),
		}},
		{"lookup for other objects", "", []event{
			failedCall("find_ticket", `{"id":"W77812"}`, "a ticket cannot be found by the id of a seat"), acceptedCall("find_person", `{"name":"Ada"}`),
		}},
		{"a call without arguments", "call-open-shift-before-print-rota", []event{
			failedCall("print_rota", `{}`, "the rota cannot be printed while the shift is not open"), acceptedCall("open_shift", `{"shop":"W77812"}`), acceptedCall("print_rota", `{}`),
		}},
		{"two required parameters", "give-height-and-width-to-crop-photo", []event{
			failedCall("crop_photo", `{"photo":"W77812"}`, "missing required parameter width"), acceptedCall("crop_photo", `{"photo":"W77812","width":3,"height":4}`),
		}},
		{"two parameters, neither asked for", "", []event{
			failedCall("mirror_photo", `{"photo":"W77812"}`, "missing required parameter photo"), acceptedCall("mirror_photo", `{"photo":"W77812","width":3,"height":4}`),
		}},
		{"two parameters, named but not asked for", "", []event{
			failedCall("turn_photo", `{"photo":"W77812"}`, "the angle is not valid for this photo"), acceptedCall("turn_photo", `{"photo":"W77812","angle":3,"height":4}`),
		}},
		{"a removed parameter that the error does not name", "", []event{
			failedCall("close_ticket", `{"ticket":"W77812","mood":"sad"}`, "the ticket cannot be closed with this value"), acceptedCall("close_ticket", `{"ticket":"W77812"}`),
		}},
		{"a symbol before a single letter", "", []event{
			failedCall("draw_line", `{"from":"a"}`, "from is not in the expected form"), acceptedCall("draw_line", `{"from":"#a"}`),
		}},
		{"a list with different values", "", []event{
			failedCall("get_quotes", `{"codes":["EUR","USD","CHF"]}`, "too many codes were given at once"), acceptedCall("get_quotes", `{"codes":["SEK","NOK"]}`),
		}},
		{"an error phrased with should", "give-start-to-book-shift-as-its-error-describes", []event{
			failedCall("book_shift", `{"start":"tomorrow"}`, "start should be an ISO 8601 timestamp with offset"), acceptedCall("book_shift", `{"start":"2031-05-07T15:00:00+02:00"}`),
		}},
		{"a date with mixed separators", "", []event{
			failedCall("book_break", `{"on":"1 May 2031"}`, "on is not in the expected form"), acceptedCall("book_break", `{"on":"2031-05/01"}`),
		}},
		{"an error of two words", "", []event{bashCall("pulumi up", "fatal: not found", 1), bashCall("pulumi up --refresh", "ok", 0)}},
	})
}

func TestFormLessonNeedsSameValue(t *testing.T) {
	for _, tc := range []struct{ name, form, failed, worked string }{
		{"a number in words", "as-a-whole-number", `"five"`, `"5"`},
		{"a different number", "", `"500"`, `"100"`},
		{"a date in words", "as-a-date-in-the-form-yyyy-mm-dd", `"May 5th"`, `"2031-05-05"`},
		{"a different date", "", `"2031-05-06"`, `"2031-06-06"`},
		{"an impossible date", "", `"May 5th"`, `"2031-55-05"`},
		{"a missing scheme", "as-a-url-with-its-scheme", `"quay.example"`, `"https://quay.example"`},
		{"a different address", "", `"quay.example"`, `"https://pier.example"`},
		{"a missing symbol", "with-its-leading-sign", `"quay"`, `"#quay"`},
		{"a missing letter", "", `"quay"`, `"xquay"`},
		{"changed to lower case", "as-lower-case", `"Quay"`, `"quay"`},
		{"changed to upper case", "as-upper-case", `"quay"`, `"QUAY"`},
		{"changed to upper case in a longer name", "", `"northern quay"`, `"NORTHERN QUAY"`},
		{"a list in a list", "as-a-list-of-lists", `["a","b"]`, `[["a","b"]]`},
		{"two lists in a list", "", `["a","b"]`, `[["a","b"],["c"]]`},
		{"surplus quotes", "as-a-value-without-quotes", `"'quay'"`, `"quay"`},
		{"surplus spaces", "as-a-value-without-spaces", `"north quay"`, `"northquay"`},
	} {
		slug := ""
		if tc.form != "" {
			slug = "give-field-" + tc.form + "-to-set-order"
		}
		checkLessons(t, []lessonCase{{tc.name, slug, []event{
			failedCall("set_order", `{"field":`+tc.failed+`,"on":"W77812"}`, "the value of this field is not valid for the account"),
			acceptedCall("set_order", `{"field":`+tc.worked+`,"on":"W77812"}`),
		}}})
	}
}

func TestUnrelatedCallsGiveNoLesson(t *testing.T) {
	const missing = "the order was not found for this customer"
	checkLessons(t, []lessonCase{
		{"fewer and different values in a text", "", []event{
			failedCall("get_taxes", `{"codes":"EUR,USD,CHF"}`, "too many codes were given at once"), acceptedCall("get_taxes", `{"codes":"JPY,CAD"}`),
		}},
		{"a call to a different tool", "", []event{failedCall("close_order", `{"order":"W77812"}`, missing), acceptedCall("get_weather", `{"city":"Ghent"}`)}},
		{"a success after too many calls", "", append(append([]event{failedCall("find_order", `{"order":"W77812","by":"name"}`, missing)},
			slices.Repeat([]event{failedCall("find_nothing", `{}`, "no")}, 10)...), acceptedCall("find_order", `{"order":"W77812"}`))},
		{"two removed parameters", "", []event{failedCall("move_order", `{"order":"W77812","kind":1,"size":2}`, "unknown arguments kind and size"), acceptedCall("move_order", `{"order":"W77812"}`)}},
	})
}
