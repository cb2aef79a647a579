package redact

import (
	"strings"
	"testing"
)

func TestTokenAfterLabelInOtherAlphabetIsRedacted(t *testing.T) {
	const value = "4vgMAjAoE8brhK5mhmuISuXo3cV1jVfIxxqd"
	for _, label := range []string{"访问令牌：", "密钥: ", `"密钥": "`, "APIキー：", "トークン: ", "API 키: ", "토큰 = ", "API-ключ: ", "токен: "} {
		if out := New(true).Text(label + value); strings.Contains(out, value) {
			t.Errorf("token after %q: Text = %q, want the token redacted", label, out)
		}
	}
	for _, text := range []string{"令牌: 已过期", "主键: user_id_2024", "キャッシュキー: node-modules-20-x64"} {
		if out := New(true).Text(text); out != text {
			t.Errorf("Text(%q) = %q, want it unchanged", text, out)
		}
	}
}

func TestQuestionAfterWordForPasswordIsKept(t *testing.T) {
	for _, text := range []string{"Passwort vergessen?", "Password forgotten?"} {
		if out := New(true).Text(text); out != text {
			t.Errorf("Text(%q) = %q, want it unchanged", text, out)
		}
	}
	if out := New(true).Text("password hunter2x?"); strings.Contains(out, "hunter2x") {
		t.Errorf("password with a digit and a question mark: Text = %q, want the password redacted", out)
	}
}
