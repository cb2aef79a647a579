package distill_test

import (
	"fmt"
	"strings"
	"testing"
)

// draftReasons returns for each advice the reason of its refusal, or "". The sessions contain the names of people.
func draftReasons(t *testing.T, advice []string) []string {
	t.Helper()
	f := newFixture(t)
	for i := range advice {
		f.addSession(fmt.Sprint("s", i), user(fmt.Sprintf("Task %d: change the order.", i)),
			call("get_user", `{"user_id":"U"}`, `{"profile":{"first_name":"Oyin","last_name":"Oyelaran"},"username":"qtern"}`),
			bashCall("git log -1", "commit 9f2c1ab\nAuthor: Marlo Zuberi <m@x.example>\n\n    Ship it", 0),
			failedCall("change_order", `{"order":"W"}`, "the order is sealed"))
	}
	s := &scriptedJudge{answer: func(_ int, a judgeRequest) (int, map[string]string, string) {
		i := 0
		_, after, _ := strings.Cut(a.User, "Task ")
		if _, err := fmt.Sscanf(after, "%d", &i); err != nil {
			t.Error(err)
		}
		return 200, nil, validJudge("failure", string(raw(map[string]any{"lessons": []any{map[string]any{
			"title": fmt.Sprintf("Avoid way%d of a sealed order%d.", i, i), "applies_when": "An order is sealed.", "advice": []string{advice[i]}, "error_patterns": []string{fmt.Sprintf("order is sealed in case%d", i)}, "keywords": []string{},
		}}})))(a)
	}}
	sum, _, err := runJudge(t, f, s)
	if err != nil {
		t.Fatal(err)
	}
	if len(sum.Drafts) != len(advice) {
		t.Fatalf("Drafts = %+v, want %d drafts", sum.Drafts, len(advice))
	}
	out := make([]string, len(advice))
	for _, d := range sum.Drafts {
		i := 0
		if _, err := fmt.Sscanf(d.Title, "Avoid way%d", &i); err != nil {
			t.Fatal(err)
		}
		out[i] = d.Reason
		if d.State != "refused" {
			out[i] = ""
		}
	}
	return out
}

// The reason for the refusal says what kind of session data the draft contains.
func TestDraftWithSessionDataIsRefused(t *testing.T) {
	cases := []struct{ advice, why string }{
		{"Ask Maria Gonzalez before a change.", "names a person"},
		{"Tell Priyanka about the seal.", "names a person"},
		{"Changes have to be approved by Weizenbaum.", "names a person"},
		{"Herr Zöllner opens sealed orders.", "names a person"},
		{"Sarah's branch holds the fix.", "names a person"},
		{"The rule of Zuberi holds for sealed orders.", "names a person in the session"},
		{"Look up Oyelaran first.", "names a person in the session"},
		{"The account qtern may open the seal.", "names a person in the session"},
		{"Open the order INC0012345 first.", "id or a commit"},
		{"Open the order PROJ-48213 first.", "id or a commit"},
		{"Revert 9f2c1ab first.", "id or a commit"},
		{"Give cus_Nf8k2LmQx9 as the customer.", "id or a commit"},
		{"Use 550e8400-e29b-41d4-a716-446655440000 as the key of the order.", "id or a commit"},
		{"Order 88213077 is sealed.", "id or a commit"},
		{"Read /home/qzern/notes.md first.", "path from one run"},
		{"Read /Users/qzern/notes.md first.", "path from one run"},
		{"Read /tmp/pytest-of-x/out.txt first.", "path from one run"},
		{`Read C:\Users\qzern\notes.md first.`, "path from one run"},
		{"Read /workspace/shop/seal.go first.", "path from one run"},
		{"Ask db.prod.internal for the state.", "host in a private network"},
		{"Ask prod-db-01 for the state.", "host in a private network"},
		{"Ask db01.shop.com for the state.", "host in a private network"},
		{"Write to ops@shop.example first.", "email"},
		{"Read the state of the order first.", ""},
		{"Use Kubernetes and GitHub Actions for the release.", ""},
		{"Ask the user before a change of a sealed order.", ""},
		{"Ask Jenkins for the state of the build.", ""},
		{"Call get_user with user_id before change_order.", ""},
		{"Give the date as YYYY-MM-DD, in ISO-8601 or RFC 3339.", ""},
		{"Set the encoding to UTF-8 and the hash to sha256.", ""},
		{"Read /etc/hosts and /usr/local/bin first.", ""},
		{"Handle HTTP 404 and 429 of the API.", ""},
		{"Check the Contact form and the Customer page.", ""},
		{"Prefer x86_64 over arm64, and Python 3.12 over 3.9.", ""},
		{"Compile with TS2339 in mind, and read ORA-01555.", ""},
		{"Start with http://localhost:8080 or 127.0.0.1.", ""},
		{"Ask Reviewers Before You Merge.", ""},
		{"Ask Maintainers For Approval.", ""},
		{"Contact Gatekeepers When A Seal Breaks.", ""},
		{"Ask for the state, then Contact Support.", ""},
		{"Tell React and Vue components apart by their file names.", ""},
	}
	var advice []string
	for _, tc := range cases {
		advice = append(advice, tc.advice)
	}
	for i, reason := range draftReasons(t, advice) {
		if want := cases[i].why; (want == "") != (reason == "") || !strings.Contains(reason, want) {
			t.Errorf("draft %q: reason for the refusal = %q, want %q (if empty: no refusal)", cases[i].advice, reason, want)
		}
	}
}

// If one of the triggers contains a person's name, the draft loses only this trigger.
func TestTriggerWithPersonalNameIsDropped(t *testing.T) {
	f := newFixture(t)
	storeSessionWithBlock(f)
	answer := validJudge("success", strings.Replace(goodLesson, `"run the benchmark"`, `"the benchmark of Maria Gonzalez","run the benchmark"`, 1))
	sum, _, err := runJudge(t, f, &scriptedJudge{answer: func(_ int, a judgeRequest) (int, map[string]string, string) { return 200, nil, answer(a) }})
	if err != nil {
		t.Fatal(err)
	}
	if sum.Proposed != 1 {
		t.Fatalf("Proposed = %d, want 1", sum.Proposed)
	}
	checkEqual(t, "keywords", f.lessonBySlug("warm-the-cache-before-you-measure").Trigger.Keywords, []string{"run the benchmark"})
}
