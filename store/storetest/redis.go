package storetest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startLimit is how long a test waits for a server to start. It is long enough for a busy machine.
const startLimit = 30 * time.Second

// Redis is a real Redis server that runs until the test ends.
type Redis struct {
	Addr string // host:port

	dir    string
	args   []string
	script string // shell script that runs redis-server with the configuration on standard input; may be ""
	config string // configuration file that a Sentinel reads and changes; "" if the server is no Sentinel
	cmd    *exec.Cmd
	done   chan struct{} // closed when the process has ended
}

// StartRedis starts a redis-server on a free port of the loopback interface, in a temporary directory. The arguments
// args are options such as "--appendonly", "yes". If redis-server is not installed, StartRedis skips the test, or in CI
// fails it.
func StartRedis(t testing.TB, args ...string) *Redis {
	t.Helper()
	return startRedis(t, &Redis{args: args})
}

// StartRedisScript starts a server with a shell script that runs `redis-server -`.
func StartRedisScript(t testing.TB, script string) *Redis {
	t.Helper()
	return startRedis(t, &Redis{script: script})
}

func startRedis(t testing.TB, r *Redis) *Redis {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") == "" {
			t.Skip("redis-server is not installed")
		}
		t.Fatal("redis-server is not installed: ", err)
	}
	var last error
	for range 5 { // several attempts, because another process may take the port first
		r.Addr, r.dir = net.JoinHostPort("127.0.0.1", FreePort(t)), t.TempDir()
		if last = r.Start(); last == nil {
			t.Cleanup(r.Kill)
			return r
		}
		r.Kill()
	}
	t.Fatal("redis-server does not start: ", last)
	return nil
}

// Start starts the server. After Kill, it starts the server again with the same port and data directory.
func (r *Redis) Start() error {
	_, port, _ := net.SplitHostPort(r.Addr)
	args := append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", r.dir, "--daemonize", "no"}, r.args...)
	r.cmd = exec.Command("redis-server", args...) //nolint:gosec,noctx // a test process, ended by Kill
	if r.config != "" {
		r.cmd = r.sentinelCommand(port)
	}
	if r.script != "" {
		options := fmt.Sprintf("redis-server - --port %s --bind 127.0.0.1 --dir '%s'", port, r.dir)
		r.cmd = exec.Command("sh", "-c", strings.Replace(r.script, "redis-server -", options, 1)) //nolint:gosec,noctx // see above
	}
	if err := r.cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	cmd := r.cmd
	r.done = done
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	for end := time.Now().Add(startLimit); ; { //nolint:forbidigo // the server uses the real clock
		// A server that requires a password replies to PING with an error.
		_, err := r.Do("PING")
		var reply replyError
		if err == nil || errors.As(err, &reply) && !strings.HasPrefix(string(reply), "LOADING") {
			return nil
		}
		select {
		case <-done:
			return fmt.Errorf("redis-server %s ended: %w", r.Addr, err)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(end) { //nolint:forbidigo // see above
			return fmt.Errorf("redis-server %s does not answer: %w", r.Addr, err)
		}
	}
}

// Kill kills the server's process and waits until it has ended.
func (r *Redis) Kill() {
	if r.cmd == nil || r.cmd.Process == nil {
		return
	}
	_ = r.cmd.Process.Signal(syscall.SIGCONT)
	_ = r.cmd.Process.Kill()
	<-r.done
}

// Freeze suspends the server's process. Connections stay open, but get no reply until Thaw.
func (r *Redis) Freeze(t testing.TB) {
	t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal("freeze redis-server: ", err)
	}
}

// Thaw resumes a process suspended by Freeze.
func (r *Redis) Thaw(t testing.TB) {
	t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal("thaw redis-server: ", err)
	}
}

// PID returns the server's process id.
func (r *Redis) PID() int { return r.cmd.Process.Pid }

// URL returns the server's address for store.url.
func (r *Redis) URL() string { return "redis://" + r.Addr }

// MustDo runs a command and returns the result. If the command returns an error, MustDo fails the test and ends it.
func (r *Redis) MustDo(t testing.TB, args ...string) any {
	t.Helper()
	v, err := r.Do(args...)
	if err != nil {
		t.Fatalf("redis command %s: %v", strings.Join(args, " "), err)
	}
	return v
}

// Do runs a command on a new connection and returns a string, an int64, nil or a []any.
func (r *Redis) Do(args ...string) (any, error) {
	c, err := r.dial()
	if err != nil {
		return nil, err
	}
	defer c.Close()                                       //nolint:errcheck // the error does not matter, because nothing is lost
	err = c.SetDeadline(time.Now().Add(20 * time.Second)) //nolint:forbidigo // sockets use the real clock
	if err != nil {
		return nil, err
	}
	if password := r.password(); password != "" && args[0] != "PING" {
		if _, err := sendCommand(c, []string{"AUTH", password}); err != nil {
			return nil, err
		}
	}
	return sendCommand(c, args)
}

func (r *Redis) password() string {
	if r.config != "" {
		return SentinelPassword
	}
	for i, a := range r.args {
		if a == "--requirepass" {
			return r.args[i+1]
		}
	}
	return ""
}

func (r *Redis) dial() (net.Conn, error) {
	d := net.Dialer{Timeout: 5 * time.Second}
	return d.Dial("tcp", r.Addr) //nolint:noctx // Timeout limits the call
}

// Monitor records all commands that the server receives, but not the commands in scripts. The function stop ends the
// recording and returns the commands.
func (r *Redis) Monitor(t testing.TB) (stop func() []string) {
	t.Helper()
	c, err := r.dial()
	if err != nil {
		t.Fatal("monitor redis: ", err)
	}
	if _, err := c.Write([]byte("MONITOR\r\n")); err != nil {
		t.Fatal("monitor redis: ", err)
	}
	in := bufio.NewReader(c)
	if ok, err := in.ReadString('\n'); err != nil || ok != "+OK\r\n" {
		t.Fatalf("reply to MONITOR: got %q, error %v, want +OK", ok, err)
	}
	var lines []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			line, err := in.ReadString('\n')
			if err != nil || strings.Contains(line, `"end of monitoring"`) {
				return
			}
			if !strings.Contains(line, " lua] ") {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
	}()
	return func() []string {
		r.MustDo(t, "ECHO", "end of monitoring")
		select {
		case <-done:
		case <-time.After(startLimit):
			t.Fatalf("MONITOR did not report the last command within %v", startLimit)
		}
		_ = c.Close()
		return lines
	}
}

type replyError string

func (e replyError) Error() string { return string(e) }

// sendCommand sends a command in the protocol RESP2, and reads the reply. It does not use precept's Redis client,
// because tests of the client must not depend on it.
func sendCommand(c net.Conn, args []string) (any, error) {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := c.Write(b); err != nil {
		return nil, err
	}
	return readReply(bufio.NewReader(c))
}

func readReply(r *bufio.Reader) (any, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 {
		return nil, fmt.Errorf("invalid RESP line %q", line)
	}
	kind, text := line[0], line[1:len(line)-2]
	if kind == '+' {
		return text, nil
	}
	if kind == '-' {
		return nil, replyError(text)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("invalid RESP line %q", line)
	}
	switch {
	case kind == ':':
		return n, nil
	case n < 0:
		return nil, nil //nolint:nilnil // nil represents a null reply
	case kind == '$':
		b := make([]byte, n+2)
		_, err := io.ReadFull(r, b)
		return string(b[:max(len(b)-2, 0)]), err
	case kind == '*':
		list := make([]any, n)
		for i := range list {
			if list[i], err = readReply(r); err != nil {
				return nil, err
			}
		}
		return list, nil
	default:
		return nil, fmt.Errorf("invalid RESP line %q", line)
	}
}
