package redact_test

import (
	"encoding/json"
	"strings"
	"testing"

	"precept/internal/redact"
)

// In these texts, < and > mark a value that must be redacted. A text without the marks must stay unchanged.
func TestNameValuePairIsRedacted(t *testing.T) {
	assertMarked(t, "secret",
		`{"name":"DB_PASSWORD","value":"<hunter22>"}`,
		`{"Name": "DB_PASSWORD", "Value": "<hunter22>"}`,
		`{"Key":"api.token","Value":"<aB3dE5fG7hI9jK1lM3nO5pQ7rS9>"}`,
		`{"headerName" : "X-Api-Key" , "value" : "<aB3dE5fG7hI9jK1lM3nO5pQ7rS9>"}`,
		"- name: DB_PASSWORD\n  value: <hunter22>\n",
		"- name: \"DB_PASSWORD\"\n  value: '<hunter22>'\n",
		`add key="DbPassword" value="<hunter22>"/`,
		"input name='password' value='<hunter22>' /",
		`[{"name":"HOME","value":"/home/a1"},{"name":"PGPASSWORD","value":"<hunter22>"},{"name":"TERM","value":"x2"}]`,
	)
	assertMarked(t, "authorization",
		`{"name":"Authorization","value":"Bearer <aB3dE5fG7hI9jK1lM3nO5pQ7rS9>"}`,
		`{"name":"Cookie","value":"theme=dark; sid=<aB3dE5fG7hI9jK1lM3nO5pQ7rS9>"}`)
	assertMarked(t, "openai_key", `{"name":"OPENAI_TOKEN","value":"<s`+`k-proj-aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5>"}`)
	for _, harmless := range []string{
		`{"name":"DB_USER","value":"hunter22"}`,
		`{"name":"password","value":"required"}`,
		`{"name":"password","value":"at least 8 characters"}`,
		`{"name":"password","value":"${PASSWORD}"}`,
		`{"name":"password","type":"hunter22","value":"hunter22"}`,
		`{"name":"password","n":1,"value":"hunter22"}`,
		`[{"name":"password"},{"value":"hunter22"}]`,
		`{"label":"password","value":"hunter22"}`,
		`{"name":"password","values":"hunter22"}`,
		`{"name":"next_token","value":"page2"}`,
		"password\n  value: hunter22\n",
		"name: password\nevalue: hunter22\n",
		"the value of a name",
	} {
		if got := redact.New(true).Text(harmless); got != harmless {
			t.Errorf("Text(%q) = %q, want it unchanged", harmless, got)
		}
		if !json.Valid([]byte(harmless)) {
			continue
		}
		if got := string(redact.New(true).JSON(nil, []byte(harmless))); got != harmless {
			t.Errorf("JSON(%q) = %q, want it unchanged", harmless, got)
		}
	}
}

func TestNameValuePairInNestedJSONIsRedacted(t *testing.T) {
	const secret = "hunter22"
	list := `{"env":[{"name":"DB_PASSWORD","value":"` + secret + `"},{"name":"USER","value":"bob"}],"other":{"value":"` + "kept33" + `"}}`
	for depth := range 4 {
		got := string(redact.New(true).JSON(nil, []byte(list)))
		if strings.Contains(got, secret) || !strings.Contains(got, "kept33") || !strings.Contains(got, "bob") || !json.Valid([]byte(got)) {
			t.Errorf("depth %d: JSON = %s, want valid JSON with kept33 and bob, and the secret redacted", depth, got)
		}
		wrapped, err := json.Marshal(map[string]string{"text": list})
		if err != nil {
			t.Fatal(err)
		}
		list = string(wrapped)
	}
}
