package distill_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// The lesson for each kind of repair has the title, description, triggers and advice in testdata/wordings.txt. With
// PRECEPT_GOLDEN=1 the test writes the file.
func TestLessonTextsMatchGoldenFile(t *testing.T) {
	const layout = "the layout engine is missing, nothing was written"
	b := newBench(t)
	for i, events := range [][]event{
		{refused("set_shade", `{"shade":"four"}`, "shade is not in the expected form"), acceptedCommand("set_shade", `{"shade":"4"}`)},
		{refused("check_in", `{"booking":"q1w2e3"}`, "booking was not found"), acceptedCommand("check_in", `{"booking":"Q1W2E3"}`)},
		{refused("get_ticket", `{"ticket_id":"W77812"}`, "ticket_id is not in the expected form"), acceptedCommand("get_ticket", `{"ticket_id":"#W77812"}`)},
		{refused("cancel_trip", `{"reason":"changed mind"}`, "invalid reason, must be one of: 'no longer needed', 'ordered by mistake'"), acceptedCommand("cancel_trip", `{"reason":"no longer needed"}`)},
		{refused("search_mail", `{"query":"rows","limit":500}`, "limit must be between 1 and 100"), acceptedCommand("search_mail", `{"query":"rows","limit":100}`)},
		{refused("search_notes", `{"query":"harbour plans of the northern quay"}`, "no results for this query were found"), acceptedCommand("search_notes", `{"query":"harbour plans"}`)},
		{refused("get_rates", `{"codes":["EUR","USD","CHF"]}`, "too many codes were given at once"), acceptedCommand("get_rates", `{"codes":["EUR","USD"]}`)},
		{refused("create_event", `{"start":"tomorrow at 3"}`, "start must be an ISO 8601 timestamp with offset"), acceptedCommand("create_event", `{"start":"2031-05-07T15:00:00+02:00"}`)},
		{refused("place_bid", `{"lot":"W77812"}`, "currency is required"), acceptedCommand("place_bid", `{"lot":"W77812","currency":"EUR"}`)},
		{refused("read_log", `{"path":"/var/W77812.log"}`, "file is too large, use offset and limit to read portions"), acceptedCommand("read_log", `{"path":"/var/W77812.log","offset":1,"limit":200}`)},
		{refused("get_board", `{"board":"W77812","verbose":true}`, "unknown argument verbose"), acceptedCommand("get_board", `{"board":"W77812"}`)},
		{refused("pay_invoice", `{"method":"visa"}`, "payment method not found"), call("get_customer", `{"name":"Ada Byron"}`, `{"methods":["card_55812"]}`), acceptedCommand("pay_invoice", `{"method":"card_55812"}`)},
		{refused("read_file", `{"path":"/home/marlo/notes.md"}`, "access denied, path outside of allowed directories"), call("list_allowed_directories", `{}`, "/srv/w77812"), acceptedCommand("read_file", `{"path":"/srv/w77812/notes.md"}`)},
		{refused("get_parcel", `{"parcel_id":"PX-4411-0"}`, "parcel not found for this customer"), user("Sorry, the parcel is PX-7719-3."), acceptedCommand("get_parcel", `{"parcel_id":"PX-7719-3"}`)},
		{refused("exchange_shipped_items", `{"order_id":"W77812"}`, "non-shipped order cannot be exchanged"), acceptedCommand("modify_pending_items", `{"order_id":"W77812"}`)},
		{refused("change_seat", `{"booking":"W77812"}`, "a basic fare cannot be changed"), call("get_booking", `{"booking":"W77812"}`, `{"fare":"basic"}`)},
		{refused("change_bag", `{"parcel":"W77812"}`, "a sealed parcel cannot be changed"), call("get_parcel_state", `{"parcel":"W77812"}`, `{"sealed":true}`)},
		{refused("change_box", `{"parcel":"W77813"}`, "a sealed box cannot be changed"), call("get_parcel_state", `{"parcel":"W77813"}`, `{"sealed":true}`)},
		{refused("close_account", `{"account":"W77812"}`, "account cannot be closed with an unpaid balance"), acceptedCommand("settle_account", `{"account":"W77812"}`), acceptedCommand("close_account", `{"account":"W77812"}`)},
		{ran("cargo build", "error: network access failed for the registry index", 101), ran("cargo build --offline", "ok", 0)},
		{ran("git fetch --porcelain", "error: this option is not supported by this version", 129), ran("git fetch", "ok", 0)},
		{ran("fd --glob-all rows", "error: unexpected argument '--glob-all' found", 2), ran("fd --glob rows", "ok", 0)},
		{ran("mypy .", "error: no module with that name was found in this environment", 1), ran("poetry run mypy .", "ok", 0)},
		{ran("make graph", "make: "+layout, 2), ran("apt-get install -y graphviz", "Setting up graphviz", 0), ran("make graph", "ok", 0)},
		{ran("cargo fmt --check", "error: 'cargo-fmt' is not installed for the toolchain 'stable'.\nTo install, run `rustup component add rustfmt`", 1), ran("rustup component add rustfmt", "ok", 0), ran("cargo fmt --check", "ok", 0)},
		{ran("go build ./...", "error: the compiler for this package was not found", 1), ran("CGO_ENABLED=0 go build ./...", "ok", 0)},
		{declined("kubectl delete pods --all"), ran("kubectl get pods", "ok", 0)},
		{declined("terraform apply -auto-approve"), ran("terraform apply", "ok", 0)},
		{ran("npm install left-pad", "added", 0), user("No, we use pnpm here, not npm."), ran("pnpm install left-pad", "added", 0)},
		{ran("cargo clippy", "ok", 0), user("No, that is wrong, I want --all-targets there."), ran("cargo clippy --all-targets", "ok", 0)},
	} {
		b.session(fmt.Sprint("s", i), append([]event{user(fmt.Sprint("Please see to number ", i, "."))}, events...)...)
	}
	b.distil()
	var got strings.Builder
	for _, slug := range b.slugs() {
		l := b.toLesson(slug)
		fmt.Fprintf(&got, "%s (%s, %d)\n  %s\n  %s\n  keywords %q, errors %q, tools %q\n", l.Slug, l.Outcome, len(l.Evidence), l.Title, l.Trigger.Description, l.Trigger.Keywords, l.Trigger.ErrorPatterns, l.Trigger.Tools)
		got.WriteString("  " + strings.ReplaceAll(strings.TrimSpace(l.Advice), "\n", "\n  ") + "\n\n")
	}
	const golden = "testdata/wordings.txt"
	if os.Getenv("PRECEPT_GOLDEN") != "" {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := string(read(t, golden)); got.String() != want {
		t.Errorf("lessons:\n%s\nwant (%s):\n%s", got.String(), golden, want)
	}

	// Each title and each advice in drafts.json occurs in a lesson, with some text in place of the {names}.
	var wordings map[string]struct{ Title, Advice string }
	if err := json.Unmarshal(read(t, "drafts.json"), &wordings); err != nil {
		t.Fatal(err)
	}
	for kind, w := range wordings {
		for _, sentence := range []string{w.Title, w.Advice} {
			pattern := regexp.MustCompile(`\\\{\w+\\\}`).ReplaceAllString(regexp.QuoteMeta(sentence), `.+`)
			if !regexp.MustCompile(pattern).MatchString(got.String()) {
				t.Errorf("no lesson contains %q, the wording of kind %q in drafts.json", sentence, kind)
			}
		}
	}
}
