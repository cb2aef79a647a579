package configs

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseSize(t *testing.T) {
	good := map[string]Size{"0": 0, "512": 512, "8MiB": 8 << 20, "8 MiB": 8 << 20, "1GiB": 1 << 30, "2TiB": 2 << 40, "64KiB": 64 << 10, "3B": 3, "1MB": 1e6, "5kB": 5000, "5KB": 5000, "2GB": 2e9}
	for text, want := range good {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, error %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "1.5MiB", "8mib", "1 2", "9223372036854775808", "9000000TiB", "0x10"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("ParseSize(%q) = %d, want an error", text, got)
		}
	}
}

func TestSizeStringParsesToTheSameSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := Size(rapid.Int64Range(0, 1<<62).Draw(t, "n"))
		if rapid.Bool().Draw(t, "round") {
			n &^= 1<<20 - 1
		}
		if parsed, err := ParseSize(n.String()); err != nil || parsed != n {
			t.Fatalf("size %d: String = %s, ParseSize(String) = %d, want the same size: %v", n, n, parsed, err)
		}
	})
}

func TestParseDuration(t *testing.T) {
	good := map[string]time.Duration{"300s": 300 * time.Second, "24h": 24 * time.Hour, "1h30m": 90 * time.Minute, "30d": 720 * time.Hour, "0": 0, "0s": 0, "250ms": 250 * time.Millisecond, "0d": 0}
	for text, want := range good {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("parseDuration(%q) = %v, error %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "10", "d", "-1d", "1.5d", "99999999d", "1w", "soon"} {
		if got, err := parseDuration(text); err == nil {
			t.Errorf("parseDuration(%q) = %v, want an error", text, got)
		}
	}
}

func TestExpandReplacesEnvironmentVariables(t *testing.T) {
	lookup := env("A", "1", "EMPTY", "")
	good := map[string]string{
		"": "", "$A": "$A", "${A}": "1", "x${A}y${A}": "x1y1", "${B:-2}": "2", "${A:-2}": "1", "${EMPTY}": "", "${EMPTY:-3}": "3",
		"$${A}": "${A}", "$$": "$$", "a$b{c}": "a$b{c}", "${B:-a:-b}": "a:-b", "${B:-}": "",
	}
	for text, want := range good {
		if got, err := expandVariables(text, lookup); err != nil || got != want {
			t.Errorf("expandVariables(%q) = %q, error %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"${B}", "${", "a${A", "${}"} {
		if got, err := expandVariables(text, lookup); err == nil {
			t.Errorf("expandVariables(%q) = %q, want an error", text, got)
		}
	}
}

func TestExpandIsSinglePass(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.String().Draw(t, "value")
		if got, err := expandVariables("<${X}>", env("X", value)); err != nil || got != "<"+value+">" {
			t.Fatalf("expandVariables(<${X}>) = %q, error %v; want %q and no error", got, err, "<"+value+">")
		}
	})
}

func TestSecretIsHiddenInJSON(t *testing.T) {
	b, err := json.Marshal(struct{ Set, Unset Secret }{"s", ""})
	if err != nil || string(b) != `{"Set":"(hidden)","Unset":""}` {
		t.Fatalf("JSON = %s, error %v; want `{\"Set\":\"(hidden)\",\"Unset\":\"\"}` and no error", b, err)
	}
}
