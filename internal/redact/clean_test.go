package redact_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"precept/internal/redact"
)

// systemPrompt returns a message with at least n bytes and nothing to redact.
func systemPrompt(n int) []byte {
	line := "Read the file before you edit the file. Run the narrowest test first, then the whole suite. "
	return []byte(`{"role":"system","content":"` + strings.Repeat(line, n/len(line)+1) + `"}`)
}

func newCleanTexts(tb testing.TB) *redact.CleanTexts {
	tb.Helper()
	c, err := redact.NewCleanTexts(1 << 20)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

// waitForCached redacts text again and again until the cache, which admits entries asynchronously, has the text.
func waitForCached(tb testing.TB, c *redact.CleanTexts, r *redact.Redactor, text []byte) {
	tb.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		before := c.Hits()
		r.JSONCached(nil, text)
		if c.Hits() > before {
			return
		}
		if time.Now().After(end) {
			tb.Fatal("no cache hit within one minute")
		}
	}
}

func TestCleanTextIsScannedOnce(t *testing.T) {
	c, prompt := newCleanTexts(t), systemPrompt(4<<10)
	first := redact.New(true)
	first.UseCleanTexts(c)
	waitForCached(t, c, first, prompt)
	second := redact.New(true)
	second.UseCleanTexts(c)
	hits := c.Hits()
	if out := second.JSONCached(nil, bytes.Clone(prompt)); !bytes.Equal(out, prompt) || c.Hits() != hits+1 {
		t.Errorf("second redactor: got unchanged text = %v, %d cache hits, want an unchanged text, %d cache hits",
			bytes.Equal(out, prompt), c.Hits(), hits+1)
	}
}

func TestTextWithSecretIsNeverCached(t *testing.T) {
	c := newCleanTexts(t)
	r := redact.New(true)
	r.UseCleanTexts(c)
	prompt := systemPrompt(4 << 10)
	withSecret := bytes.Replace(prompt, []byte("narrowest"), []byte("AKIAIOSFODNN7EXAMPLE"), 1)
	waitForCached(t, c, r, prompt)
	for range 5 {
		if out := r.JSONCached(nil, withSecret); bytes.Contains(out, []byte("AKIAIOSFODNN7EXAMPLE")) {
			t.Fatalf("JSONCached = %.200s, want the key redacted", out)
		}
		time.Sleep(time.Millisecond)
	}
	if c.Misses() < 5 {
		t.Errorf("got %d cache misses, want at least 5", c.Misses())
	}
}

func TestCacheIsSeparateForPersonalData(t *testing.T) {
	c := newCleanTexts(t)
	text := bytes.Replace(systemPrompt(4<<10), []byte("narrowest"), []byte("write to ann@example.org"), 1)
	secrets := redact.New(false)
	secrets.UseCleanTexts(c)
	waitForCached(t, c, secrets, text)
	personal := redact.New(true)
	personal.UseCleanTexts(c)
	if out := personal.JSONCached(nil, text); bytes.Contains(out, []byte("ann@example.org")) {
		t.Errorf("JSONCached = %.200s, want the address redacted", out)
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
			c, r := newCleanTexts(b), redact.New(true)
			r.UseCleanTexts(c)
			waitForCached(b, c, r, text)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				r.JSONCached(nil, text)
			}
		})
	}
}
