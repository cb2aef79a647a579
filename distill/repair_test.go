package distill_test

import "testing"

// If a call succeeds after a change that does not explain the success, there is no lesson.
func TestLessonStatesOnlyObservedRepair(t *testing.T) {
	for name, c := range map[string]ruleCase{
		"expected form quoted from the error": {
			events: []event{
				user("Book it."),
				call("create_event", `{"title":"W77812","start":"tomorrow at 3"}`, `{"status":"error","message":"start must be an ISO 8601 timestamp with offset"}`),
				call("create_event", `{"title":"W77812","start":"2031-05-07T15:00:00+02:00"}`, `{"status":"ok"}`),
			},
			slug:     "give-start-to-create-event-as-its-error-describes",
			contains: []string{"`start`", "ISO 8601 timestamp with offset"},
			matches:  `{"status":"error","message":"start must be an ISO 8601 timestamp with offset"}`,
		},
		"expected form with a private word": {
			events: []event{
				user("Book it."),
				call("create_event", `{"title":"W77812","start":"tomorrow at 3"}`, `{"status":"error","message":"start must be a W77812 timestamp"}`),
				call("create_event", `{"title":"W77812","start":"2031-05-07T15:00:00+02:00"}`, `{"status":"ok"}`),
			},
		},
		"number in a different unit": {
			events: []event{
				user("Refund 80."),
				call("issue_refund", `{"order":"W77812","amount":"80"}`, `{"error":"amount is not a valid integer number of cents"}`),
				call("issue_refund", `{"order":"W77812","amount":8000}`, `{"refund":"R-20931"}`),
			},
		},
		"number in the error that is not an offer": {
			events: []event{
				user("Move 200."),
				call("transfer_money", `{"from":"W77812","amount":200}`, `{"error":"insufficient_funds","available":120}`),
				agent("There are 120. Shall I move those?"),
				user("Yes."),
				call("transfer_money", `{"from":"W77812","amount":120}`, `{"ok":true}`),
			},
		},
		"value offered by the error": {
			events: []event{
				user("Cancel it."),
				call("cancel_order", `{"order_id":"W77812","reason":"changed mind"}`, "Error: invalid reason. Must be one of: 'no longer needed', 'ordered by mistake'"),
				call("cancel_order", `{"order_id":"W77812","reason":"no longer needed"}`, `{"status":"cancelled"}`),
			},
			slug:     "take-what-the-error-of-cancel-order-offers",
			contains: []string{"`reason`"},
			matches:  "Error: invalid reason. Must be one of: 'lost', 'found'",
		},
		"different form after a timeout": {
			events: []event{
				user("Is it on time?"),
				call("flight_status", `{"flight":"W7 7812"}`, "Error: upstream timeout"),
				call("flight_status", `{"flight":"W77812"}`, `{"status":"on time"}`),
			},
		},
		"nested list": {
			events: []event{
				user("Add it."),
				call("append_rows", `{"sheet":"W77812","values":["1","2","3"]}`, "Error: Invalid value at 'data.values[0]'"),
				call("append_rows", `{"sheet":"W77812","values":[["1","2","3"]]}`, `{"updated":1}`),
			},
			slug:     "give-values-as-a-list-of-lists-to-append-rows",
			contains: []string{"`values`"},
			matches:  "Error: Invalid value at 'data.values[2]'",
		},
		"renamed parameter with a value from a lookup": {
			events: []event{
				user("Order it."),
				call("place_order", `{"item":"W77812","address":"home"}`, `{"error":"address_id is required"}`),
				call("list_addresses", `{}`, `[{"address_id":"ad_55812","label":"home"}]`),
				call("place_order", `{"item":"W77812","address_id":"ad_55812"}`, `{"ok":true}`),
			},
			slug:     "take-address-id-from-list-addresses-before-place-order",
			contains: []string{"`address_id`"},
			matches:  `{"error":"address_id is required"}`,
		},
		"same call after a related call": {
			events: []event{
				user("Close it."),
				call("close_account", `{"account":"W77812"}`, `{"error":"account cannot be closed with an unpaid balance"}`),
				call("settle_account", `{"account":"W77812"}`, `{"ok":true}`),
				call("close_account", `{"account":"W77812"}`, `{"ok":true}`),
			},
			slug:     "call-settle-account-before-close-account",
			contains: []string{"`settle_account`"},
			matches:  `{"error":"account cannot be closed with an unpaid balance"}`,
		},
		"same call after an unrelated call": {
			events: []event{
				user("Close it."),
				call("close_account", `{"account":"W77812"}`, `{"error":"account cannot be closed now"}`),
				call("send_letter", `{"to":"Ada Byron"}`, `{"ok":true}`),
				call("close_account", `{"account":"W77812"}`, `{"ok":true}`),
			},
		},
		"private script option": {
			events: []event{
				user("Migrate."),
				call("bash", `{"command":"python manage.py makemigrations"}`, "EOFError: EOF when reading a line\n[exit code: 1]"),
				call("bash", `{"command":"python manage.py makemigrations --noinput"}`, "done"),
			},
		},
		"project make target": {
			events: []event{
				user("Format it."),
				call("bash", `{"command":"gofmt -l ."}`, "main.go"),
				agent("I ran gofmt."),
				user("No, don't run gofmt, always use make pretty."),
				call("bash", `{"command":"make pretty"}`, "done"),
			},
		},
		"parameter force": {
			events: []event{
				user("Reset it."),
				call("reset_password", `{"user":"W77812"}`, `{"error":"password cannot be reset for this account"}`),
				call("reset_password", `{"user":"W77812","force":true}`, `{"ok":true}`),
			},
		},
		"project npm script": {
			events: []event{
				user("Lint it."),
				call("bash", `{"command":"npx eslint --fix ."}`, "done"),
				user("Please use npm run pretty, not npx eslint."),
				call("bash", `{"command":"npm run pretty"}`, "done"),
			},
		},
		"short option with a private value": {
			events: []event{
				user("Compile it."),
				call("bash", `{"command":"javac Main.java"}`, "Main.java:3: error: cannot find symbol in this class\n[exit code: 1]"),
				call("bash", `{"command":"javac -cp w77812.jar Main.java"}`, "done"),
			},
		},
		"options with a private value": {
			events: []event{
				user("Test it."),
				call("bash", `{"command":"mvn test"}`, "BUILD SUCCESS"),
				agent("All is well."),
				user("No, that's wrong, use -pl w77812 -am."),
				call("bash", `{"command":"mvn test -pl w77812 -am"}`, "BUILD SUCCESS"),
			},
		},
	} {
		t.Run(name, c.check)
	}
}
