package distill_test

import (
	"fmt"
	"testing"
)

// The lesson describes the form of the value that was accepted, such as "a list". It must not contain the value itself.
func TestLessonNamesAcceptedForm(t *testing.T) {
	for _, tc := range []struct{ name, from, to, form string }{
		{"digits for a word", `"four"`, `"4"`, "a-whole-number"},
		{"number for a word", `"four"`, `4`, "a-number"},
		{"same number, unquoted", `"4"`, `4`, "a-number"},
		{"different number, unquoted", `"4"`, `5`, ""},
		{"list", `"red"`, `["red"]`, "a-list"},
		{"list of lists", `["red"]`, `[["red"]]`, "a-list-of-lists"},
		{"list of lists with a different value", `["red"]`, `[["blue"]]`, ""},
		{"object", `"red"`, `{"colour":"red"}`, "an-object"},
		{"boolean", `"sure"`, `true`, "true-or-false"},
		{"string for a list", `["red"]`, `"red"`, "a-text"},
		{"absolute path", `"./src/a.go"`, `"/srv/src/a.go"`, "an-absolute-path"},
		{"different path", `"./src/a.go"`, `"/srv/src/b.go"`, ""},
		{"URL with a scheme", `"example.com/x"`, `"https://example.com/x"`, "a-url-with-its-scheme"},
		{"date", `"1 May 2031"`, `"2031-05-01"`, "a-date-in-the-form-yyyy-mm-dd"},
		{"different date", `"2031-05-02"`, `"2031-05-01"`, ""},
		{"without quotes", `"'red'"`, `"red"`, "a-value-without-quotes"},
		{"without spaces", `"DE 89 37"`, `"DE8937"`, "a-value-without-spaces"},
		{"lower case", `"ReadMe"`, `"readme"`, "lower-case"},
		{"upper case", `"eur"`, `"EUR"`, "upper-case"},
		{"different word", `"eur"`, `"usd"`, ""},
	} {
		const tool, param = "set_shade", "shade"
		f := newFixture(t)
		refusal := fmt.Sprintf(`{"error":"%s is not in the expected form"}`, param)
		f.addSession("one", user("Set the shade as I like it."),
			call(tool, fmt.Sprintf(`{%q:%s,"room":3}`, param, tc.from), refusal),
			call(tool, fmt.Sprintf(`{%q:%s,"room":3}`, param, tc.to), `{"done":true}`))
		f.runDistiller()
		want := "[]"
		if tc.form != "" {
			want = fmt.Sprintf("[give-%s-as-%s-to-set-shade]", param, tc.form)
		}
		if got := fmt.Sprint(f.slugs()); got != want {
			t.Errorf("%s: lessons = %s, want %s", tc.name, got, want)
		}
	}
}

func TestLessonAsksForLeadingSign(t *testing.T) {
	for sign, value := range map[string]string{"#": "W77812", "@": "marlo", "$": "HOME"} {
		f := newFixture(t)
		f.addSession("one", user("Look for it."),
			call("get_order", fmt.Sprintf(`{"order_id":%q}`, value), `{"error":"order_id is not in the expected form"}`),
			call("get_order", fmt.Sprintf(`{"order_id":%q}`, sign+value), `{"total":12}`))
		f.runDistiller()
		if got := fmt.Sprint(f.slugs()); got != "[give-order-id-with-its-leading-sign-to-get-order]" {
			t.Errorf("sign %s: lessons = %s, want [give-order-id-with-its-leading-sign-to-get-order]", sign, got)
		}
	}
}
