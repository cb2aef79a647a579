package redact_test

import (
	"strings"
	"testing"

	"precept/internal/redact"
)

// PW stands for the password.
func TestPasswordAfterKnownProgramFlagIsRedacted(t *testing.T) {
	t.Parallel()
	const password = "hunter22"
	far := strings.Repeat("x", 80)
	for command, kept := range map[string]bool{
		"mysql -u root -pPW shop":                   false,
		"mysqladmin -pPW ping":                      false,
		"mariadb-dump -pPW shop":                    false,
		"sshpass -p PW ssh host":                    false,
		"sshpass -pPW ssh host":                     false,
		"sshpass -p   PW ssh host":                  false,
		"mongosh -u bob -p PW":                      false,
		"docker login -u bob -p PW":                 false,
		"podman login -p PW host":                   false,
		"redis-cli -a PW ping":                      false,
		"valkey-cli -a PW ping":                     false,
		"redis-cli -h " + far + " -a PW":            false,
		"ls; sshpass -p PW ssh host":                false,
		"mysql -p PW":                               true, // database name: mysql asks for the password
		"mongosh -pPW":                              true,
		"redis-cli -aPW":                            true,
		"redis-cli -p PW":                           true, // redis-cli port
		"mysql -aPW":                                true,
		"docker run -p PW":                          true,
		"mkdir -p PW":                               true,
		"redis-cli ping; tar -a PW":                 true,
		"redis-cli ping && tar -a PW":               true,
		"redis-cli ping | grep -a PW":               true,
		"redis-cli ping\ngrep -a PW":                true,
		"redis-cli -h " + far + far + " -a PW ping": true, // too far away
	} {
		text := strings.ReplaceAll(command, "PW", password)
		want := text
		if !kept {
			want = strings.ReplaceAll(command, "PW", "[REDACTED:secret:1]")
		}
		if got := redact.New(false).Text(text); got != want {
			t.Errorf("Text(%q) = %q, want %q", text, got, want)
		}
	}
}
