package detect_test

import (
	"strings"
	"testing"

	"precept/detect"
)

// A domain tool belongs to an application, such as a booking system. A tool that changes a record fails if the record
// stays the same. A lookup fails if the object does not exist.
func TestDomainToolResultsAreClassified(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		tool, text string
		want       detect.Outcome
	}{
		{"remove_album", "You are not allowed to remove this album.", detect.Error},
		{"get_guest", "There is no guest with this number.", detect.Error},
		{"get_tariff", "The service is temporarily unavailable.", detect.Error},
		{"get_album", "Not Allowed, the second album of the band.", detect.OK},
		{"get_guest", "There is no meal in the booking of this guest.", detect.OK},
		{"remove_album", "The album is removed.", detect.OK},
		{"get_guest", "Guest numbers have six digits. There is no guest 7.", detect.Error},
		{"search_guests", "No guests match this name.", detect.OK},
		{"get_photo", "This photo was deleted last week.", detect.Error},
		{"find_spice", "We have nothing under this name. Is it called cumin?", detect.Error},
		{"change_plan", "There's no plan named Tiny.", detect.Error},
		{"reserve_desk", "A colleague has the desk. Your desk was not reserved.", detect.Error},
		{"reserve_desk", "A colleague has the desk; nothing was reserved.\n\nFree desks:\n- 4A\n- 4B\n- 4C", detect.Error},
		{"reserve_desk", "Desk 4B is confirmed. The chair was not ordered.", detect.OK},
		{"check_in", "The counter has closed. The seat has not been assigned.", detect.Error},
		{"activate_badge", "Well, this didn't work.", detect.Error},
		{"activate_badge", "You don't need a badge for this door.", detect.OK},
		{"reserve_desk", "No problem, desk 4B is yours.", detect.OK},
		{"reserve_desk", "No desk is free at this hour.", detect.Error},
		{"reserve_desk", "Thanks for asking. Guests may use desks on Fridays only.", detect.Error},
		{"reserve_desk", "Desk 4B is reserved. It can only be kept until noon.", detect.OK},
		{"reserve_desk", "Your request was sent. No further action is needed.", detect.OK},
		{"deny_desk", "Desk 4B was denied. The guest was informed.", detect.OK},
		{"reset_badge", "Badge reset. The old badge will not open the door.", detect.OK},
		{"cambiar_mesa", "La mesa no se puede cambiar.", detect.Error},
		{"reserve_desk", `{"status":"REJECTED","reason":"FULL"}`, detect.Error},
		{"reserve_desk", `{"id":4,"reserved":false}`, detect.Error},
		{"reserve_desk", `{"id":4,"reserved":true,"approved":false}`, detect.OK},
		{"reject_desk", `{"id":4,"status":"rejected"}`, detect.OK},
		{"buchen_tisch", "Leider konnte der Tisch nicht gebucht werden.", detect.Error},
		{"buchen_tisch", "Der Tisch wurde gebucht. Er kann nicht verlegt werden.", detect.OK},
		{"get_guest", "Der Gast wurde nicht gefunden.", detect.Error},
		{"get_guest", "该客人不存在。", detect.Error},
		{"reserve_desk", `{"code":4107,"msg":"工位已被占用","data":null}`, detect.Error},
		{"reserve_desk", `{"code":200,"msg":"ok","data":null}`, detect.OK},
		{"create_badge", `[{"message":"Is this badge one of these?","errorCode":"SIMILAR_BADGES","fields":[]}]`, detect.Error},
		{"create_watch", `{"watch":4,"on_failure":"mail","max_rejected":3}`, detect.OK},
		{"reserve_desk", "DESK NOT RESERVED\nDesk 4B\n- the badge has expired\n- the floor is closed", detect.Error},
		{"get_guest", "There is no booking 7781 in this year. Ask the desk.", detect.OK},
		{"get_guests", "2 validation errors for GetGuests\nguest_id\n  Input should be a valid integer", detect.Error},
		{"list_desks", "-32603: Internal error: no route to the database", detect.Error},
		{"floor_plan", `{"accepted":false,"why":[{"rule":"FULL","text":"no desk is free"}]}`, detect.Error},
		{"reserve_desk", `{"code":"E41","msg":"no desk","data":null}`, detect.Error},
		{"reserve_desk", `{"exito":false,"mensaje":"no hay mesas"}`, detect.Error},
		{"add_desk", `{"id":4,"completed":false,"error":null}`, detect.OK},
		{"charge_card", `{"state":"declined","decline_reason":"expired"}`, detect.Error},
		{"run_select", "002003 (02000): 77: SQL compilation error:\nObject 'DESKS' does not exist", detect.Error},
		{"floor_plan", `{"desks":4,"why":"the floor is new"}`, detect.OK},
		{"badge_position", `{"badge":4,"position":null,"info":"the monthly look-ups are used up"}`, detect.Error},
		{"desk_hire_search", "2 desks \"Not Booked Yet\"\n- 4A, on hire until May\n- 4B", detect.OK},
		{"compile_plan", "This is the plan compiler\n(plan.tex\nplan.tex:7: error: undefined desk\nmake: *** [plan] Error 1", detect.Error},
		{"delete_desk", "Desk 4B was removed. It no longer exists in the plan.", detect.OK},
		{"run_sum", `{"type":"error","name":"Killed","message":"the sandbox ran out of memory"}`, detect.Error},
		{"get_desk", `{"id":4,"status":"rejected"}`, detect.OK},
		{"turn_on", `{"data":{"success":[],"failed":[{"id":"lamp.hall"}]}}`, detect.Error},
		{"turn_on", `{"data":{"success":[{"id":"lamp.hall"}],"failed":[{"id":"lamp.desk"}]}}`, detect.OK},
		{"find_desk", "null", detect.OK},
		{"ask_user", "No, that is not possible. The desk is not available.", detect.OK},
		{"reserve_desk", "No, that is not possible. The desk is not available.", detect.Error},
		{"reserve_desk", "│ No, that is not possible. The desk is not available. │", detect.OK},
		{"reserve_desk", "No, that is not possible. The desk is not available." + strings.Repeat(" ", 1000) + "x", detect.OK},
		{"get_desk", `{"desk":null}`, detect.Error},
		{"reserve_desk", "Desks may only be reserved by members.", detect.Error},
		{"get_desk", `{"desk":4,"guest":null}`, detect.OK},
		{"reserve_desk", `{"id":4,"desk":null}`, detect.Error},
		{"reserve_desk", `{"seen":9,"reserved":0}`, detect.Error},
		{"reserve_desk", `{"seen":9,"reserved":2,"skipped":7}`, detect.OK},
		{"reserve_desk", `[{"code":"DESK_NOT_FREE"}]`, detect.Error},
		{"reserve_desk", `{"desk":"4B","missing_papers":[]}`, detect.OK},
		{"reserve_desk", `{"desk":"4B","hold_status":"denied"}`, detect.Error},
		{"reserve_desk", `{"room":{"desks":[{"desk":"4B","valid":false}]}}`, detect.Error},
		{"reserve_desk", `{"reservation_id":"R7","note":"Desks may only be kept until noon."}`, detect.OK},
		{"reserve_desk", `{"desk":"4B","status":"booked","note":"Desks may only be kept until noon."}`, detect.OK},
		{"disable_desk", `{"desk":"4B","state":"disabled","previous":true}`, detect.OK},
		{"hold_desk", `{"desk":"4B","hold_expires":"noon"}`, detect.OK},
		{"reserve_desk", `{"desk":"4B","skip_reason":"7"}`, detect.OK},
		{"reserve_desk", `{"reserving":"4B","note":"Desks may only be kept until noon."}`, detect.OK},
		{"reserve_desk", `{"chair":"reserved","note":"Desks may only be kept until noon."}`, detect.OK},
		{"reserve_desk", "Until noon, the desk is reserved. Only members may use the chair.", detect.OK},
		{"reserve_desk", "| check | result |\n|---|---|\n| desk | 4B |\n| status | **DENIED** |", detect.Error},
		{"reserve_desk", "status: reserved\nreason: only groups", detect.OK},
		{"reserve_desk", "status: denied" + strings.Repeat("\nguest: Ann", 21), detect.OK},
		{"cancel_desk", "This desk is ineligible for a refund. The visit remains confirmed.", detect.Error},
		{"reserve_desk", "Thank you.\n\nDesks are restricted to members until the fee is paid.", detect.Error},
		{"submit", "diff --git a/x b/x\n+// not for members", detect.OK},
		{"Task", "I did not find the desk. The list must be read again.", detect.OK},
		{"log_search", "Logs must be read again.", detect.OK},
		{"file_claim", "Claims must be made within a week.", detect.Error},
	} {
		if got := detect.Classify(tc.tool, `{"id":7}`, tc.text, 0); got.Outcome != tc.want {
			t.Errorf("%s: result %q: got outcome %s (rule %q), want %s", tc.tool, tc.text, got.Outcome, got.Rule, tc.want)
		}
	}
}

func TestAnswerAboutAnErrorIsNotAFailure(t *testing.T) {
	t.Parallel()
	const text = "EPERM: operation not permitted. The process lacks a right."
	if got := detect.Classify("look_up_error_code", `{"question":"What is EPERM?"}`, text, 0); got.Outcome != detect.OK {
		t.Errorf("an answer about EPERM: got outcome %s (rule %q), want %s", got.Outcome, got.Rule, detect.OK)
	}
	if got := detect.Classify("save_box", `{"question":"Where?"}`, text, 0); got.Outcome != detect.Error {
		t.Errorf("a failure with EPERM: got outcome %s (rule %q), want %s", got.Outcome, got.Rule, detect.Error)
	}
}

// If a command's output shows a failure and then a successful retry, the failure does not count.
func TestFailureAfterProgressLinesIsFound(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text string
		want detect.Outcome
	}{
		{"🔧 Packing\n💥 The store said no: 409", detect.Error},
		{"✅ Packed\nSending... ok\nError: the store is full\nFree some space.", detect.Error},
		{"Step 1/2: pack\n❌ Packing stopped\nSee the log.", detect.Error},
		{"🔧 Packing\n❌ The store said no: 409\n🔁 Second attempt\n✅ Sent", detect.OK},
		{"Packed the first box\n❌ the second box is missing", detect.OK},
	} {
		if got := detect.Classify("bash", `{"command":"./pack"}`, tc.text, 0); got.Outcome != tc.want {
			t.Errorf("result %q: got outcome %s (rule %q), want %s", tc.text, got.Outcome, got.Rule, tc.want)
		}
	}
}

// After a timeout, a hint about background servers in the result must not make the command count as still running.
func TestTimeoutWithHintOrHeadingIsFound(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ tool, args, text string }{
		{"shell", `{"command":"make"}`, "Command timed out after 90 seconds. Start servers in the background."},
		{"browser_navigate", `{"url":"https://shop.example"}`, "### Result\nTimeoutError: page.goto: Timeout 9000ms exceeded."},
	} {
		if got := detect.Classify(tc.tool, tc.args, tc.text, 0); got.Outcome != detect.Error {
			t.Errorf("result %q: got outcome %s (rule %q), want error", tc.text, got.Outcome, got.Rule)
		}
	}
}
