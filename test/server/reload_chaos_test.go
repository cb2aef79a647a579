package server

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"precept/test/harness"
)

func TestChaosReloadsFailNoRequest(t *testing.T) {
	t.Parallel()
	reloadUnderLoad(t, harness.UsualOrChaos(150, 5000))
}

// reloadUnderLoad changes the configuration file n times while requests are sent. Every tenth file is invalid. All
// requests must succeed, and afterwards the server must not have more goroutines or open files than before.
func reloadUnderLoad(t *testing.T, n int) {
	t.Helper()
	firstModel, secondModel := harness.InstantModel(t), harness.InstantModel(t)
	settings := func(i int) string {
		upstream := []string{firstModel.URL, secondModel.URL}[i%2]
		text := fmt.Sprintf("upstream: %s/v1\nadmin: {tokens: [token]}\nbandit: {epsilon: 0.%d}\nlimits: {upstream_header_timeout: %ds}\n"+
			"learning: {anonymize_pii: %v, opt_out_patterns: ['*.k%d']}\ninject: {k: %d}\n", upstream, i%9+1, 100+i%5, i%3 == 0, i, i%4)
		if i%10 == 9 {
			text += []string{"bandit: {epsilon: 7}\n", "limits: {nonsense: 1}\n", "keys: [", "tenancy: keys\n"}[i/10%4]
		}
		return text
	}
	s := startWithFile(t, settings(0))
	load := harness.NewLoad(t, 25*time.Millisecond)
	underLoad := func(during func()) {
		t.Helper()
		ctx, stop := context.WithCancel(t.Context())
		wait := load.Start(ctx, s.DataURL, 2)
		during()
		stop()
		wait()
		load.Client.CloseIdleConnections()
	}
	underLoad(func() { load.WaitForRequests(40) }) // so that the goroutines and files that an idle server keeps already exist
	before := s.gauges("go_goroutines", "process_open_fds")

	reloadLine := regexp.MustCompile(`configuration (reloaded|was rejected)`)
	underLoad(func() {
		for i := 1; i <= n; i++ {
			s.writeConfig(settings(i % n))
			if i%100 != 0 { // without a signal, the server must notice the change by polling
				s.Signal(syscall.SIGHUP)
			}
			s.EventuallyEvery(time.Millisecond, fmt.Sprint("reload ", i), func() bool { return s.countReloads(reloadLine) >= i })
		}
	})
	if answered := load.CountAnswered(); answered < n/10 {
		t.Errorf("answered requests: got %d, want at least %d", answered, n/10)
	}
	if refused := strings.Count(s.Log.String(), "the configuration was rejected"); refused < n/10 { // a busy server may read and reject the same file twice
		t.Errorf("rejected configurations: got %d, want at least %d", refused, n/10)
	}
	var after [2]float64
	s.Eventually("at most 8 more goroutines and open files than before the reloads", func() bool {
		after = s.gauges("go_goroutines", "process_open_fds")
		return after[0] <= before[0]+8 && after[1] <= before[1]+8
	})
	t.Logf("%d requests answered; goroutines %v before, %v after; open files %v before, %v after", load.CountAnswered(), before[0], after[0], before[1], after[1])
	s.Stop()
}

// countReloads returns how many log lines since the last call match reloadLine.
func (s *configFileServer) countReloads(reloadLine *regexp.Regexp) int {
	text := s.Log.String()
	end := strings.LastIndexByte(text, '\n') + 1
	s.reloadCount += len(reloadLine.FindAllStringIndex(text[s.scannedLogBytes:end], -1))
	s.scannedLogBytes = end
	return s.reloadCount
}

// gauges returns the values of two metrics without labels.
func (s *configFileServer) gauges(names ...string) (values [2]float64) {
	s.T.Helper()
	_, text := harness.Get(s.T, s.AdminURL+"/metrics", "token")
	for i, name := range names {
		m := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(text)
		if m == nil {
			s.T.Fatalf("/metrics lacks %s", name)
		}
		var err error
		if values[i], err = strconv.ParseFloat(m[1], 64); err != nil {
			s.T.Fatal(err)
		}
	}
	return values
}
