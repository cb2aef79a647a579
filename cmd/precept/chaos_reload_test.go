package main

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Many reloads under load, by signal and by the file alone, a tenth of them of configurations with
// faults: no request fails, and nothing of a configuration that has gone stays in goroutines or
// files. TestAThousandReloads has more of them.
func TestChaosReloads(t *testing.T) {
	t.Parallel()
	reloads(t, longer(150, 5000))
}

func reloads(t *testing.T, n int) {
	t.Helper()
	one, other := brief(t), brief(t)
	settings := func(i int) string {
		up := []string{one.URL, other.URL}[i%2]
		text := fmt.Sprintf("upstream: %s/v1\nadmin: {tokens: [token]}\nbandit: {epsilon: 0.%d}\nlimits: {upstream_header_timeout: %ds}\n"+
			"learning: {anonymize_pii: %v, opt_out_patterns: ['*.k%d']}\ninject: {k: %d}\n", up, i%9+1, 100+i%5, i%3 == 0, i, i%4)
		if i%10 == 9 {
			text += []string{"bandit: {epsilon: 7}\n", "limits: {nonsense: 1}\n", "keys: [", "tenancy: keys\n"}[i/10%4]
		}
		return text
	}
	s := reloading(t, settings(0))
	load := newLoad(t, 25*time.Millisecond)
	during := func(what func()) {
		t.Helper()
		ctx, stop := context.WithCancel(t.Context())
		wait := load.start(ctx, s.Data, 2)
		what()
		stop()
		wait()
		load.client.CloseIdleConnections()
	}
	during(func() { load.more(40) }) // all that is made once is made
	before := s.uses("go_goroutines", "process_open_fds")

	seen := regexp.MustCompile(`configuration (was not )?taken over`)
	during(func() {
		for i := 1; i <= n; i++ {
			s.write(settings(i % n))
			if i%100 != 0 { // the others are seen by themselves
				s.signal(syscall.SIGHUP)
			}
			s.eventuallyAt(time.Millisecond, fmt.Sprint("reload ", i), func() bool { return s.reloads(seen) >= i })
		}
	})
	if answered := load.all(); answered < n/10 {
		t.Errorf("only %d requests were answered meanwhile", answered)
	}
	if refused := strings.Count(s.log.String(), "the configuration was not taken over"); refused < n/10 { // under load one may be read twice
		t.Errorf("%d configurations were refused, want at least %d", refused, n/10)
	}
	var after [2]float64
	s.eventually("goroutines and files of before", func() bool {
		after = s.uses("go_goroutines", "process_open_fds")
		return after[0] <= before[0]+8 && after[1] <= before[1]+8
	})
	t.Logf("%d answered; goroutines %v before, %v after; files %v, %v", load.all(), before[0], after[0], before[1], after[1])
	s.stops()
}

// reloads counts the reloads that the log tells of. It is asked often: what was counted is not
// looked at again.
func (s *settled) reloads(line *regexp.Regexp) int {
	text := s.log.String()
	end := strings.LastIndexByte(text, '\n') + 1
	s.counted += len(line.FindAllStringIndex(text[s.read:end], -1))
	s.read = end
	return s.counted
}

// uses reads two figures of the server's metrics.
func (s *settled) uses(names ...string) (out [2]float64) {
	s.t.Helper()
	_, text := get(s.t, s.Admin+"/metrics", "token")
	for i, name := range names {
		m := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(text)
		if m == nil {
			s.t.Fatalf("there is no metric %s", name)
		}
		var err error
		if out[i], err = strconv.ParseFloat(m[1], 64); err != nil {
			s.t.Fatal(err)
		}
	}
	return out
}
