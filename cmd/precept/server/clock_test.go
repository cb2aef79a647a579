package server

import (
	"testing"
	"time"

	"precept/store/redis"
	"precept/store/storetest"
)

// If this machine's clock is ahead, ageNow returns Redis' time, so that sessions do not seem older than they are. A
// difference of a few seconds is normal and leads to no warning.
func TestClockIsComparedWithRedis(t *testing.T) {
	t.Parallel()
	db, err := redis.Open(redis.Options{URL: storetest.StartRedis(t).URL(), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // nothing is lost
	for _, tc := range []struct {
		ahead, wantDifference, wantAge time.Duration
		wantWarning                    string
	}{
		{24 * time.Hour, 24 * time.Hour, 0, "this machine's clock is 24h0m0s ahead of Redis' clock, so sessions close too early or too late; set both clocks, for example with NTP"},
		{-time.Hour, -time.Hour, -time.Hour, "this machine's clock is 1h0m0s behind Redis' clock, so sessions close too early or too late; set both clocks, for example with NTP"},
		{2 * time.Second, 0, 0, ""},
	} {
		tools := Tools{Now: func() time.Time { return time.Now().Add(tc.ahead) }}
		difference := tools.ClockDifference(t.Context(), db)
		if (difference-tc.wantDifference).Abs() > time.Second || tc.wantDifference == 0 && difference != 0 {
			t.Errorf("ClockDifference with a clock that is %s ahead of Redis = %s, want %s", tc.ahead, difference, tc.wantDifference)
		}
		if got := ClockWarning(tc.wantDifference); got != tc.wantWarning {
			t.Errorf("ClockWarning(%s) = %q, want %q", tc.wantDifference, got, tc.wantWarning)
		}
		before := time.Now()
		now, latest, err := tools.ageNow(db)(t.Context())
		if earliest := before.Add(tc.wantAge - time.Second); err != nil || now.Before(earliest) || now.After(time.Now().Add(tc.wantAge+time.Second)) {
			t.Errorf("ageNow with a clock that is %s ahead of Redis: got now = %s, error %v, want about %s, no error", tc.ahead, now, err, earliest)
		}
		if wantLatest := before.Add(max(tc.ahead, 0) - time.Second); latest.Before(wantLatest) || latest.After(wantLatest.Add(time.Minute)) {
			t.Errorf("ageNow with a clock that is %s ahead of Redis: got latest = %s, want about %s", tc.ahead, latest, wantLatest)
		}
	}
}
