//go:build !race

package redact_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"precept/internal/redact"
)

func TestLongBase64IsKeptAndFast(t *testing.T) {
	const size = 4 << 20
	minTime := func(in string) time.Duration {
		fastest := time.Hour
		for range 5 {
			begin := time.Now()
			out := redact.New(true).JSON(nil, []byte(in))
			fastest = min(fastest, time.Since(begin))
			if string(out) != in {
				t.Fatalf("JSON(%.60q...) = %.100q, want it unchanged", in, out)
			}
		}
		return fastest
	}
	plainText := `{"content":"` + strings.Repeat("The file is in the folder, and the test of it passes. ", size/54) + `"}`
	data := randomBase64(base64.StdEncoding, 7, size)
	for _, in := range []string{
		`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + data + `"}}`, `{"image_url":{"url":"data:image/png;base64,` + data + `"}}`,
		`{"b64_json":"` + data + `"}`, `{"input_audio":{"format":"wav","data":"` + data + `"}}`, `{"inlineData":{"mimeType":"image/png","data":"` + data + `"}}`,
	} {
		var got, limit time.Duration
		for range 6 {
			if got, limit = minTime(in), 2*minTime(plainText); got <= limit {
				break
			}
		}
		if got > limit {
			t.Errorf("JSON(%.60q...) took %v, want at most %v, twice the time for plain text of the same length", in, got, limit)
		}
	}
}
