package redis_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"precept/inject/bank"
	"precept/inject/lesson"
	"precept/internal/session"
	"precept/store/redis"
	"precept/store/storetest"
)

// These constants are the beginnings of two commands in docs/OPERATIONS.md.
const (
	storeRules    = "ACL SETUSER precept on >PASSWORD "
	sentinelRules = "ACL SETUSER watcher on >PASSWORD "
)

// documentedRules returns the ACL rules that follow the text begin in a code block of docs/OPERATIONS.md.
func documentedRules(t *testing.T, begin string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/OPERATIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), begin)
	rules, _, end := strings.Cut(rest, "```")
	if !ok {
		t.Fatalf("docs/OPERATIONS.md has no command %q", begin)
	}
	if !end {
		t.Fatalf("the code block with %q has no end", begin)
	}
	return strings.Join(strings.Fields(rules), " ")
}

// permissions returns the documented ACL rules for commands of the store's Redis user, beginning with -@all.
func permissions(t *testing.T) []string {
	t.Helper()
	rules := strings.Fields(documentedRules(t, storeRules))
	return rules[slices.Index(rules, "-@all"):]
}

// startRestricted starts a Redis server and returns a URL with a user that has only the documented permissions.
func startRestricted(t *testing.T) (server *storetest.Redis, url string) {
	t.Helper()
	server = storetest.StartRedis(t)
	createUser(t, server)
	return server, "redis://precept:secret@" + server.Addr
}

func createUser(t *testing.T, server *storetest.Redis) {
	t.Helper()
	server.MustDo(t, append([]string{"ACL", "SETUSER", "precept", "on", ">secret"}, strings.Fields(documentedRules(t, storeRules))...)...)
}

// callEveryMethod calls each method of Store and Bank, which must succeed.
func callEveryMethod(t *testing.T, server *storetest.Redis, url string, shards int) {
	t.Helper()
	check := func(name string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("call %s: %v", name, err)
		}
	}
	url = fmt.Sprintf("%s/1?prefix=precept:%d", url, shards)
	s := openWithShards(t, url, shards)
	check("ping", s.Ping(t.Context()))
	write := changeCalls()[0]
	for _, call := range append([]storeCall{write}, readCalls()...) {
		_, err := call.do(t.Context(), s)
		check(call.name, err)
	}
	streams, err := s.SampleStreams(t.Context())
	check("sample streams", err)
	for stream, last := range streams {
		_, _, err := s.SamplesAfter(t.Context(), stream, "", "")
		check("samples", err)
		check("acknowledge", s.AckSamples(t.Context(), "lake", map[string]string{stream: last}))
	}
	_, err = s.SampleGroups(t.Context(), "lake")
	check("sample groups", err)
	_, _, err = s.NewExchangeDeleter("lake", "one").DeleteExchanges(t.Context(), time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC), time.Minute)
	check("delete exchanges", err)
	for _, call := range changeCalls()[1:] {
		_, err := call.do(t.Context(), s)
		check(call.name, err)
	}
	_, err = s.AcquireLease(t.Context(), "work", "me", time.Now(), time.Minute)
	check("lease", errors.Join(err, s.ReleaseLease(t.Context(), "work", "me")))
	_, err = s.Epoch(t.Context())
	check("epoch", err)
	check("await replicas", s.AwaitReplicas(t.Context()))
	check("put opt-out marks", s.PutOptOutMarks(t.Context(), map[session.ID]session.OptOutMark{sessionID(5): {Turns: 1, Items: 1}}))
	b, err := redis.OpenBank(redis.Options{URL: url, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close() //nolint:errcheck
	w := b.Watch(nil, func(*lesson.Book, []lesson.Problem) {})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	eventually(t, "a subscription", func() error {
		if list, _ := server.MustDo(t, "PUBSUB", "CHANNELS", "*"+fmt.Sprint(shards)+":{*").([]any); len(list) == 0 {
			return errors.New("no channel")
		}
		return nil
	})
	check("lessons", setText(t.Context(), b, "a.md", []byte(lessonText)))
	r, err := b.Read(t.Context())
	check("read lessons", err)
	check("log a change", b.Commit(t.Context(), bank.Change{Version: r.Version, Log: []lesson.Event{{}}}))
	_, err = b.Tail(t.Context(), 3)
	check("lesson log", err)
	cancel()
	<-done
}

// Callers assume that a write without an error is stored.
func TestCallsFailWithoutALogin(t *testing.T) {
	t.Parallel()
	server, url := startRestricted(t)
	for _, shards := range []int{1, 256} {
		s := openWithShards(t, fmt.Sprintf("%s/1?prefix=precept:%d", url, shards), shards)
		if _, err := changeCalls()[0].do(t.Context(), s); err != nil {
			t.Fatalf("%s before the user is deleted: got error %v, want none", changeCalls()[0].name, err)
		}
		server.MustDo(t, "ACL", "DELUSER", "precept")
		for _, call := range append(changeCalls(), readCalls()...) {
			if _, err := call.do(t.Context(), s); err == nil {
				t.Errorf("%s with %d shards after the user is deleted: got no error, want a login error", call.name, shards)
			}
		}
		createUser(t, server)
		eventually(t, "write after the user is recreated", func() error { // the store tries the server again only after a backoff
			_, err := changeCalls()[0].do(t.Context(), s)
			return err
		})
	}
}

// If a command is missing in the documentation, callEveryMethod fails the test.
func TestDocumentedCommandsMatchUsedCommands(t *testing.T) {
	t.Parallel()
	server, url := startRestricted(t)
	startReplica(t, server)
	for _, shards := range []int{1, 256} {
		callEveryMethod(t, server, url, shards)
	}
	used, _ := server.MustDo(t, "INFO", "commandstats").(string)
	for _, rule := range permissions(t) {
		name, ok := strings.CutPrefix(rule, "+")
		inCluster := strings.HasPrefix(name, "cluster|") || name == "command" || name == "asking"
		if ok && !inCluster && !regexp.MustCompile(`(?m)^cmdstat_`+regexp.QuoteMeta(name)+`:`).MatchString(used) {
			t.Errorf("command %s is documented, but the store does not use it", name)
		}
	}
}

func TestRefusedCommandErrorNamesTheRule(t *testing.T) {
	t.Parallel()
	server, url := startRestricted(t)
	s := openWithLongTimeout(t, url)
	write := func() error { return s.Write(t.Context(), newBatch(1)) }
	if err := write(); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ deny, allow, want string }{
		{"-xadd", "+xadd", "run ACL SETUSER precept +xadd"},
		{"-hincrby -hkeys -hexists", "+hincrby +hkeys +hexists", "run the 'hexists', 'hincrby', 'hkeys' commands; run ACL SETUSER precept +hexists +hincrby +hkeys"},
		{"-zadd", "+zadd", "run ACL SETUSER precept +zadd"},
		{"-evalsha", "+evalsha", "run ACL SETUSER precept +evalsha"},
		{"-sadd", "+sadd", "run ACL SETUSER precept +sadd"},
		{"resetkeys", "~precept:*", "run ACL SETUSER precept ~precept:*"},
	} {
		server.MustDo(t, append([]string{"ACL", "SETUSER", "precept"}, strings.Fields(tc.deny)...)...)
		err := waitForError(t, tc.deny, redis.ErrACL, func() error { return s.Write(t.Context(), fullBatch()) })
		if !strings.Contains(err.Error(), tc.want) {
			t.Errorf("Write after ACL rule %s: got error %v, want an error with %q", tc.deny, err, tc.want)
		}
		server.MustDo(t, append([]string{"ACL", "SETUSER", "precept"}, strings.Fields(tc.allow)...)...)
	}
	eventually(t, "write with all permissions", write)
}
