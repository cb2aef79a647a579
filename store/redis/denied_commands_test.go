//go:build !race

package redis_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"precept/store/redis"
)

// A script that stopped halfway would write only a part of the data, and a repeated call would skip the rest.
func TestRepeatedCallCompletesDataAfterDeniedCommand(t *testing.T) {
	t.Parallel()
	server, url := startRestricted(t)
	write := func(prefix, denied string) string {
		s := openWithShards(t, url+"?prefix=precept:"+prefix, 2)
		for _, call := range changeCalls()[:addingCallCount] {
			if denied != "" {
				server.MustDo(t, "ACL", "SETUSER", "precept", "-"+denied)
			}
			_, err := call.do(t.Context(), s)
			if denied != "" {
				server.MustDo(t, "ACL", "SETUSER", "precept", "+"+denied)
			}
			if errors.Is(err, redis.ErrACL) {
				_, err = call.do(t.Context(), s)
			}
			if err != nil {
				t.Errorf("%s, whose command %q was denied in the first call: got error %v, want none", call.name, denied, err)
			}
		}
		return readDataWithoutPosition(t, s)
	}
	want := write("all", "")
	for _, rule := range permissions(t) {
		if command, ok := strings.CutPrefix(rule, "+"); ok && !slices.Contains([]string{"hello", "ping", "select"}, command) {
			if got := write(command, command); got != want {
				t.Errorf("data after command %s was denied in the first calls: got lines that differ from a run without a denied command: %s", command, diffLines(got, want))
			}
		}
	}
}
