package redact_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"precept/internal/redact"
)

// systemPrompt returns a JSON message of at least n bytes without anything to redact.
func systemPrompt(n int) []byte {
	line := "Read the file before you edit the file. Run the narrowest test first, then the whole suite. "
	return []byte(`{"role":"system","content":"` + strings.Repeat(line, n/len(line)+1) + `"}`)
}

func cleanTexts(tb testing.TB) *redact.CleanTexts {
	tb.Helper()
	c, err := redact.NewCleanTexts(1 << 20)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

// waitCached waits until a look-up finds the text: the cache admits entries asynchronously.
func waitCached(tb testing.TB, c *redact.CleanTexts, r *redact.Redactor, text []byte) {
	tb.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		before := c.Hits()
		r.JSONCached(nil, text)
		if c.Hits() > before {
			return
		}
		if time.Now().After(end) {
			tb.Fatal("got no cache hit for the text within one minute, want one")
		}
	}
}

func TestCleanTextIsScannedOnce(t *testing.T) {
	c, prompt := cleanTexts(t), systemPrompt(4<<10)
	first := redact.New(true)
	first.UseCleanTexts(c)
	waitCached(t, c, first, prompt)
	second := redact.New(true)
	second.UseCleanTexts(c)
	hits := c.Hits()
	if out := second.JSONCached(nil, bytes.Clone(prompt)); !bytes.Equal(out, prompt) || c.Hits() != hits+1 {
		t.Errorf("another session: got an unchanged text = %v and %d cache hits, want true and %d",
			bytes.Equal(out, prompt), c.Hits(), hits+1)
	}
}

// A text with a secret is never in the cache. Each scan redacts the secret.
func TestTextWithASecretIsNeverCached(t *testing.T) {
	c := cleanTexts(t)
	r := redact.New(true)
	r.UseCleanTexts(c)
	prompt := systemPrompt(4 << 10)
	withSecret := bytes.Replace(prompt, []byte("narrowest"), []byte("AKIAIOSFODNN7EXAMPLE"), 1)
	waitCached(t, c, r, prompt)
	for range 5 {
		if out := r.JSONCached(nil, withSecret); bytes.Contains(out, []byte("AKIAIOSFODNN7EXAMPLE")) {
			t.Fatalf("got %.200s with the key, want the key redacted", out)
		}
		time.Sleep(time.Millisecond)
	}
	if c.Misses() < 5 {
		t.Errorf("got %d cache misses, want at least 5", c.Misses())
	}
}

// The cache knows a text as clean for a redactor that keeps personal data. A redactor of personal data still scans the
// text.
func TestCacheSeparatesSecretsFromPersonalData(t *testing.T) {
	c := cleanTexts(t)
	text := bytes.Replace(systemPrompt(4<<10), []byte("narrowest"), []byte("write to ann@example.org"), 1)
	secrets := redact.New(false)
	secrets.UseCleanTexts(c)
	waitCached(t, c, secrets, text)
	personal := redact.New(true)
	personal.UseCleanTexts(c)
	if out := personal.JSONCached(nil, text); bytes.Contains(out, []byte("ann@example.org")) {
		t.Errorf("got %.200s with the address, want the address redacted", out)
	}
}

func BenchmarkCleanText(b *testing.B) {
	for _, size := range []int{4 << 10, 32 << 10} {
		text := systemPrompt(size)
		b.Run(fmt.Sprintf("scan/%dK", size>>10), func(b *testing.B) {
			r := redact.New(true)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				r.JSON(nil, text)
			}
		})
		b.Run(fmt.Sprintf("hit/%dK", size>>10), func(b *testing.B) {
			c, r := cleanTexts(b), redact.New(true)
			r.UseCleanTexts(c)
			waitCached(b, c, r, text)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				r.JSONCached(nil, text)
			}
		})
	}
}
