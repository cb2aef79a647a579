package distill_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// If PRECEPT_GOLDEN is 1, the test writes the golden file testdata/wordings.txt instead of comparing the lessons with
// the file.
func TestLessonTextsMatchGoldenFile(t *testing.T) {
	const layout = "the layout engine is missing, nothing was written"
	f := newFixture(t)
	for i, events := range [][]event{
		{failedCall("set_shade", `{"shade":"four"}`, "shade is not in the expected form"), acceptedCall("set_shade", `{"shade":"4"}`)},
		{failedCall("check_in", `{"booking":"q1w2e3"}`, "booking was not found"), acceptedCall("check_in", `{"booking":"Q1W2E3"}`)},
		{failedCall("get_ticket", `{"ticket_id":"W77812"}`, "ticket_id is not in the expected form"), acceptedCall("get_ticket", `{"ticket_id":"#W77812"}`)},
		{failedCall("cancel_trip", `{"reason":"changed mind"}`, "invalid reason, must be one of: 'no longer needed', 'ordered by mistake'"), acceptedCall("cancel_trip", `{"reason":"no longer needed"}`)},
		{failedCall("search_mail", `{"query":"rows","limit":500}`, "limit must be between 1 and 100"), acceptedCall("search_mail", `{"query":"rows","limit":100}`)},
		{failedCall("search_notes", `{"query":"harbour plans of the northern quay"}`, "no results for this query were found"), acceptedCall("search_notes", `{"query":"harbour plans"}`)},
		{failedCall("get_rates", `{"codes":["EUR","USD","CHF"]}`, "too many codes were given at once"), acceptedCall("get_rates", `{"codes":["EUR","USD"]}`)},
		{failedCall("create_event", `{"start":"tomorrow at 3"}`, "start must be an ISO 8601 timestamp with offset"), acceptedCall("create_event", `{"start":"2031-05-07T15:00:00+02:00"}`)},
		{failedCall("place_bid", `{"lot":"W77812"}`, "currency is required"), acceptedCall("place_bid", `{"lot":"W77812","currency":"EUR"}`)},
		{failedCall("read_log", `{"path":"/var/W77812.log"}`, "file is too large, use offset and limit to read portions"), acceptedCall("read_log", `{"path":"/var/W77812.log","offset":1,"limit":200}`)},
		{failedCall("get_board", `{"board":"W77812","verbose":true}`, "unknown argument verbose"), acceptedCall("get_board", `{"board":"W77812"}`)},
		{failedCall("pay_invoice", `{"method":"visa"}`, "payment method not found"), call("get_customer", `{"name":"Ada Byron"}`, `{"methods":["card_55812"]}`), acceptedCall("pay_invoice", `{"method":"card_55812"}`)},
		{failedCall("read_file", `{"path":"/home/marlo/notes.md"}`, "access denied, path outside of allowed directories"), call("list_allowed_directories", `{}`, "/srv/w77812"), acceptedCall("read_file", `{"path":"/srv/w77812/notes.md"}`)},
		{failedCall("get_parcel", `{"parcel_id":"PX-4411-0"}`, "parcel not found for this customer"), user("Sorry, the parcel is PX-7719-3."), acceptedCall("get_parcel", `{"parcel_id":"PX-7719-3"}`)},
		{failedCall("exchange_shipped_items", `{"order_id":"W77812"}`, "non-shipped order cannot be exchanged"), acceptedCall("modify_pending_items", `{"order_id":"W77812"}`)},
		{failedCall("change_seat", `{"booking":"W77812"}`, "a basic fare cannot be changed"), call("get_booking", `{"booking":"W77812"}`, `{"fare":"basic"}`)},
		{failedCall("change_bag", `{"parcel":"W77812"}`, "a sealed parcel cannot be changed"), call("get_parcel_state", `{"parcel":"W77812"}`, `{"sealed":true}`)},
		{failedCall("change_box", `{"parcel":"W77813"}`, "a sealed box cannot be changed"), call("get_parcel_state", `{"parcel":"W77813"}`, `{"sealed":true}`)},
		{failedCall("close_account", `{"account":"W77812"}`, "account cannot be closed with an unpaid balance"), acceptedCall("settle_account", `{"account":"W77812"}`), acceptedCall("close_account", `{"account":"W77812"}`)},
		{bashCall("cargo build", "error: network access failed for the registry index", 101), bashCall("cargo build --offline", "ok", 0)},
		{bashCall("git fetch --porcelain", "error: this option is not supported by this version", 129), bashCall("git fetch", "ok", 0)},
		{bashCall("fd --glob-all rows", "error: unexpected argument '--glob-all' found", 2), bashCall("fd --glob rows", "ok", 0)},
		{bashCall("mypy .", "error: no module with that name was found in this environment", 1), bashCall("poetry run mypy .", "ok", 0)},
		{bashCall("make graph", "make: "+layout, 2), bashCall("apt-get install -y graphviz", "Setting up graphviz", 0), bashCall("make graph", "ok", 0)},
		{bashCall("cargo fmt --check", "error: 'cargo-fmt' is not installed for the toolchain 'stable'.\nTo install, run `rustup component add rustfmt`", 1), bashCall("rustup component add rustfmt", "ok", 0), bashCall("cargo fmt --check", "ok", 0)},
		{bashCall("go build ./...", "error: the compiler for this package was not found", 1), bashCall("CGO_ENABLED=0 go build ./...", "ok", 0)},
		{rejectedCommand("kubectl delete pods --all"), bashCall("kubectl get pods", "ok", 0)},
		{rejectedCommand("terraform apply -auto-approve"), bashCall("terraform apply", "ok", 0)},
		{bashCall("npm install left-pad", "added", 0), user("No, we use pnpm here, not npm."), bashCall("pnpm install left-pad", "added", 0)},
		{bashCall("cargo clippy", "ok", 0), user("No, that is wrong, I want --all-targets there."), bashCall("cargo clippy --all-targets", "ok", 0)},
	} {
		f.addSession(fmt.Sprint("s", i), append([]event{user(fmt.Sprint("Please see to number ", i, "."))}, events...)...)
	}
	f.runDistiller()
	var got strings.Builder
	for _, slug := range f.slugs() {
		l := f.lessonBySlug(slug)
		fmt.Fprintf(&got, "%s (%s, %d)\n  %s\n  %s\n  keywords %q, errors %q, tools %q\n", l.Slug, l.Outcome, len(l.Evidence), l.Title, l.Trigger.Description, l.Trigger.Keywords, l.Trigger.ErrorPatterns, l.Trigger.Tools)
		got.WriteString("  " + strings.ReplaceAll(strings.TrimSpace(l.Advice), "\n", "\n  ") + "\n\n")
	}
	const golden = "testdata/wordings.txt"
	if os.Getenv("PRECEPT_GOLDEN") != "" {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := string(readFile(t, golden)); got.String() != want {
		t.Errorf("lessons:\n%s\nwant (%s):\n%s", got.String(), golden, want)
	}

	// Each title and advice in drafts.json must occur in a lesson, with text in place of {names}.
	var wordings map[string]struct{ Title, Advice string }
	if err := json.Unmarshal(readFile(t, "drafts.json"), &wordings); err != nil {
		t.Fatal(err)
	}
	for kind, w := range wordings {
		for _, sentence := range []string{w.Title, w.Advice} {
			pattern := regexp.MustCompile(`\\\{\w+\\\}`).ReplaceAllString(regexp.QuoteMeta(sentence), `.+`)
			if !regexp.MustCompile(pattern).MatchString(got.String()) {
				t.Errorf("sentence %q, the wording for kind %q in drafts.json: got no lesson with this sentence, want at least one", sentence, kind)
			}
		}
	}
}
