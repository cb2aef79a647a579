package redact_test

import (
	"strings"
	"testing"
)

// The kind "" means that the name is not a secret's name.
func TestSecretIsRecognisedByNameEnding(t *testing.T) {
	const random = "Ab1Cd2Ef3Gh4Ij5Kl6Mn7"
	for kind, names := range map[string]string{
		"secret": "password passwd pwd pass db_pass API_TOKEN_PROD db_password_old passphrase PASSCODE passwort userPassword PASSWORD2 credential credentials " +
			"client-secret token authorization api_key x-api-key accessKey secret_key private.key authkey encryption_key " +
			"signingkey masterKey session_key key STRIPE_KEY AppKey maps-key PresharedKey tokenString",
		"aws_key":   "aws_secret_access_key awsSecretKey AWS_SESSION_TOKEN",
		"azure_key": "AccountKey shared_access_key subscription-key azure_api_key azureOpenAIKey azure_key sig",
		"":          "compass bypass cache_key publicKey monkey S3_KEY apikeys tokens secrets design config keyboard url",
	} {
		for name := range strings.FieldsSeq(names) {
			text := name + "=<" + random + ">"
			if kind == "" {
				text = name + "=" + random
			}
			assertMarked(t, kind, text)
		}
	}
}

// In these texts, < and > mark a value that must be redacted. A text without the marks must stay unchanged. At the end
// of a text, a SendGrid key must be redacted even if the key is truncated.
func TestIncompleteValuesAreKept(t *testing.T) {
	part := strings.Repeat("a1B2", 4)
	assertMarked(t, "sendgrid_key", "<SG."+part+"."+part+"> x", "SG."+part+".."+part, "SG."+part+"."+part[:15]+" x", "SG."+part+" x", "<SG."+part+"."+part[:3]+">")
	assertMarked(t, "authorization", "Basic <dXNlcjpwYXNzd29yZA==>", "Basic user_name-1", "basic dXNlcg==", "basic dXMKZXI6cGFzcw==")
	assertMarked(t, "card", "<4000 0000 0000 0002>", "4000 0000 0002", "4000 0000", "4000-0000-0000-00022")
}
