package proxy

import (
	"testing"
	"time"
)

func TestFormatAge(t *testing.T) {
	for age, want := range map[time.Duration]string{
		24 * time.Hour: "1 day", 168 * time.Hour: "7 days", 36 * time.Hour: "36 hours", 90 * time.Minute: "1h30m0s",
	} {
		if got := formatAge(age); got != want {
			t.Errorf("formatAge(%v) = %q, want %q", age, got, want)
		}
	}
}
