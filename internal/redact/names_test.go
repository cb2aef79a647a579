package redact_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"precept/internal/redact"
)

func namedSecrets() []struct{ name, value, kind string } {
	const (
		word = "hunter22xyz"
		long = "a1B2c3D4e5F6g7H8i9J0k1L2"
	)
	return []struct{ name, value, kind string }{
		{"password", word, "secret"},
		{"db.password", word, "secret"},
		{"DB_PASSWORD", word, "secret"},
		{"dbPassword", word, "secret"},
		{"user-password", word, "secret"},
		{"passwd", word, "secret"},
		{"MYSQL_PWD", word, "secret"},
		{"smtp_pass", word, "secret"},
		{"passwort", word, "secret"},
		{"passphrase", word, "secret"},
		{"passcode", word, "secret"},
		{"client_secret", long, "secret"},
		{"aws_credentials", long, "secret"},
		{"credential", long, "secret"},
		{"api_key", long, "secret"},
		{"access_key", long, "secret"},
		{"secretKey", long, "secret"},
		{"private_key", long, "secret"},
		{"auth-key", long, "secret"},
		{"encryption_key", long, "secret"},
		{"signing_key", long, "secret"},
		{"MASTER_KEY", long, "secret"},
		{"session_key", long, "secret"},
		{"access_token", long, "secret"},
		{"refreshToken", long, "secret"},
		{"aws_secret_access_key", long, "aws_key"},
		{"AWS_SECRET_KEY", long, "aws_key"},
		{"aws_session_token", long, "aws_key"},
		{"AccountKey", long, "azure_key"},
		{"SharedAccessKey", long, "azure_key"},
		{"subscription_key", long, "azure_key"},
		{"AZURE_API_KEY", long, "azure_key"},
		{"azure_openai_api_key", long, "secret"},
		{"AZURE_KEY", long, "azure_key"},
	}
}

func TestNamedSecretIsRedactedInEveryFormat(t *testing.T) {
	forms := []string{
		"%s=%s", "%s = %s", "%s: %s", `%s="%s"`, `%s: '%s'`, "export %s=%s", "%s := \"%s\"", `{"%s":"%s"}`, `{"%s": "%s", "n": 1}`,
		"a: 1\n%s: %s\nb: 2", "--%s=%s", `%s => "%s"`, "%s=%s&page=2", "%s=%s; path=/",
	}
	for _, c := range namedSecrets() {
		for _, form := range forms {
			in := fmt.Sprintf(form, c.name, c.value)
			want := fmt.Sprintf(form, c.name, redact.Placeholder+c.kind+":1]")
			if got := redact.New(false).Text(in); got != want {
				t.Errorf("Text(%q) = %q, want %q", in, got, want)
			}
		}
		object, err := json.Marshal(map[string]string{c.name: c.value})
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf(`{%q:"%s%s:1]"}`, c.name, redact.Placeholder, c.kind)
		if got := string(redact.New(false).JSON(nil, object)); got != want {
			t.Errorf("JSON(%s) = %s, want %s", object, got, want)
		}
	}
}

func TestSimilarNamesAreNotRedacted(t *testing.T) {
	for _, name := range []string{
		"bypass", "compass", "passd", "passenger", "password_hash_rounds_n", "secretary", "tokenizer", "keyword", "monkey", "primarykey",
		"key", "pwdx", "credit", "ser", "one", "aig", "signal", "ces1", "words", "passage", "author",
	} {
		for _, form := range []string{"%s=%s", `%s: "%s"`, `{"%s":"%s"}`} {
			in := fmt.Sprintf(form, name, "hunter22xyz")
			if got := redact.New(true).Text(in); got != in {
				t.Errorf("Text(%q) = %q, want it unchanged", in, got)
			}
		}
		object := `{"` + name + `":"hunter22xyz","n":` + `"078051120","m":5550100}`
		if got := string(redact.New(true).JSON(nil, []byte(object))); got != object {
			t.Errorf("JSON(%s) = %s, want it unchanged", object, got)
		}
	}
}

// No pattern finds these numbers without the JSON name.
func TestJSONNamesIdentifyPersonalNumbers(t *testing.T) {
	for name, tc := range map[string]struct{ value, kind string }{
		"phone":                    {"5550100", "phone"},
		"homePhone":                {"5550100", "phone"},
		"mobile":                   {"5550100", "phone"},
		"tel":                      {"5550100", "phone"},
		"cell":                     {"5550100", "phone"},
		"fax":                      {"5550100", "phone"},
		"msisdn":                   {"491701234567", "phone"},
		"phone_number":             {"5550100", "phone"},
		"mobileNumber":             {"5550100", "phone"},
		"contact-number":           {"5550100", "phone"},
		"ssn":                      {"078051120", "ssn"},
		"user_ssn":                 {"078051120", "ssn"},
		"customerSSN":              {"078051120", "ssn"},
		"social_security":          {"078051120", "ssn"},
		"socialSecurityNumber":     {"078051120", "ssn"},
		"hotel":                    {"5550100", ""},
		"cells":                    {"5550100", ""},
		"number":                   {"5550100", ""},
		"telefax":                  {"5550100", ""},
		"session":                  {"078051120", ""},
		"assn":                     {"078051120", ""},
		"social_security_benefits": {"078051120", ""},
	} {
		for _, form := range []string{`{%q:"%s"}`, `{%q:%s}`, `{"":0,%q: "%s" ,"":[]}`} {
			in := fmt.Sprintf(form, name, tc.value)
			want := in
			if tc.kind != "" {
				quoted := `"` + redact.Placeholder + tc.kind + `:1]"`
				want = strings.Replace(strings.Replace(in, `"`+tc.value+`"`, tc.value, 1), tc.value, quoted, 1)
			}
			if got := string(redact.New(true).JSON(nil, []byte(in))); got != want {
				t.Errorf("JSON(%s) = %s, want %s", in, got, want)
			}
			if got := string(redact.New(false).JSON(nil, []byte(in))); got != in {
				t.Errorf("redactor for secrets only: JSON(%s) = %s, want it unchanged", in, got)
			}
		}
	}
}
