package server_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"precept/cmd/precept/server"
	"precept/configs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// console collects the log and the console output of a server. Its methods are safe for concurrent use.
type console struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (c *console) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.b.Write(b)
}

func (c *console) contains(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Contains(c.b.String(), text)
}

func (c *console) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.b.String()
}

func (c *console) count(text string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Count(c.b.String(), text)
}

// runningServer is a server that runs in this process until stop is called.
type runningServer struct {
	t                 *testing.T
	server            *server.Server
	dataURL, adminURL string
	stop              context.CancelFunc
	runErr            chan error
	console           console
}

func testTools() server.Tools { return server.Tools{Now: time.Now, Random: rand.Reader} }

// startServer starts a server and waits until it is ready. Each change may change the options before the start. The
// server ignores signals unless a change sets Embedded to false.
func startServer(t *testing.T, source *server.Source, change ...func(*server.Options)) *runningServer {
	t.Helper()
	cfg, err := source.Load()
	if err != nil {
		t.Fatal(err)
	}
	s := &runningServer{t: t, runErr: make(chan error, 1)}
	ready := make(chan [2]string, 1)
	o := server.Options{
		Tools: testTools(), Config: cfg, Source: source, Console: &s.console, Embedded: true,
		OnReady: func(data, admin string) { ready <- [2]string{data, admin} },
	}
	for _, c := range change {
		c(&o)
	}
	s.server = server.New(o)
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	go func() { s.runErr <- s.server.Run(ctx) }()
	select {
	case addresses := <-ready:
		s.dataURL, s.adminURL = addresses[0], addresses[1]
	case err := <-s.runErr:
		s.stop()
		t.Fatal(err)
	}
	return s
}

// stopAndWait stops the server and returns the error of Run. It calls stop twice, because the second call must have no
// effect.
func (s *runningServer) stopAndWait() error {
	s.stop()
	s.stop()
	return <-s.runErr
}

// newFlagSource returns a configuration source with free ports, new directories and the keys in extra.
func newFlagSource(t *testing.T, extra map[string]string) *server.Source {
	t.Helper()
	flags := map[string]string{
		"listen": "127.0.0.1:0", "admin.listen": "127.0.0.1:0", "data_dir": t.TempDir(), "lessons": t.TempDir(),
		"limits.lookup_timeout": "10s", // the default, 45ms, excludes sessions on a busy machine from the experiment
	}
	maps.Copy(flags, extra)
	return &server.Source{Parse: func(file []byte) (*configs.Config, error) {
		return configs.Parse(configs.Sources{File: file, FileName: "precept.yaml", Flags: flags})
	}}
}

func getStatus(t *testing.T, url, token string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return res.StatusCode
}

// eventually waits until ok returns true. If ok does not return true within a minute, the test fails with a message
// about state, a description of what ok waits for.
func eventually(t *testing.T, state string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not seen within a minute", state)
		}
	}
}

// Two servers with different data directories run in one process. A third server must not start on the data directory
// of the first.
func TestTwoServersRunInOneProcess(t *testing.T) {
	firstSource := newFlagSource(t, map[string]string{"admin.tokens": "[first]"})
	first, second := startServer(t, firstSource), startServer(t, newFlagSource(t, map[string]string{"admin.tokens": "[second]"}))
	if own, other := getStatus(t, first.adminURL+"/api/report", "first"), getStatus(t, first.adminURL+"/api/report", "second"); own != http.StatusOK || other != http.StatusUnauthorized {
		t.Errorf("request to the first server: got status %d with its own token and %d with the second server's token, want 200 and 401", own, other)
	}
	cfg, err := firstSource.Load()
	if err != nil {
		t.Fatal(err)
	}
	third := server.New(server.Options{Tools: testTools(), Config: cfg, Console: io.Discard, Embedded: true})
	if err := third.Run(t.Context()); err == nil || !strings.Contains(err.Error(), cfg.DataDir) {
		t.Errorf("Run of a third server on the data directory of the first server: err = %v, want an error that contains %s", err, cfg.DataDir)
	}
	if err := errors.Join(first.stopAndWait(), second.stopAndWait()); err != nil {
		t.Error(err)
	}
	restarted := startServer(t, firstSource)
	if status := getStatus(t, restarted.dataURL+"/readyz", ""); status != http.StatusOK {
		t.Errorf("/readyz after a restart: got status %d, want 200", status)
	}
	if err := restarted.stopAndWait(); err != nil {
		t.Error(err)
	}
}

func TestStopDuringStreamReturnsErrStreamsCut(t *testing.T) {
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "data: {}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer model.Close()
	s := startServer(t, newFlagSource(t, map[string]string{"upstream": model.URL + "/v1", "limits.drain_timeout": "50ms"}))
	stream := s.openStream()
	if err := s.stopAndWait(); !errors.Is(err, server.ErrStreamsCut) {
		t.Errorf("Run: err = %v, want %v", err, server.ErrStreamsCut)
	}
	if _, err := io.ReadAll(stream); err == nil {
		t.Error("stream at the client: got the complete stream, want a read error")
	}
}

// The server must close WebSockets itself when it stops, because http.Server.Shutdown neither closes them nor waits for
// them.
func TestStopWaitsForWebSockets(t *testing.T) {
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		w.WriteHeader(http.StatusSwitchingProtocols)
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.Copy(c, rw)
		_ = c.Close()
	}))
	defer model.Close()
	s := startServer(t, newFlagSource(t, map[string]string{"upstream": model.URL + "/v1", "limits.drain_timeout": "50ms"}))
	client, err := net.Dial("tcp", strings.TrimPrefix(s.dataURL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	_ = client.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(client, "GET /v1/realtime HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(client), nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("upgrade request: got response %v, error %v, want status 101", res, err)
	}
	_ = res.Body.Close()
	_, _ = io.WriteString(client, "ping")
	if _, err := io.ReadFull(client, make([]byte, len("ping"))); err != nil {
		t.Fatalf("echo of the ping over the WebSocket: err = %v, want none", err)
	}
	if err := s.stopAndWait(); !errors.Is(err, server.ErrStreamsCut) {
		t.Errorf("Run: err = %v, want %v", err, server.ErrStreamsCut)
	}
	if _, err := io.ReadAll(client); err != nil {
		t.Errorf("client's connection after shutdown: err = %v, want a closed connection without an error", err)
	}
}

func TestReloadSurvivesPanic(t *testing.T) {
	source := newFlagSource(t, nil)
	write := addConfigFile(t, source)
	var panics atomic.Bool
	parse := source.Parse
	source.Parse = func(file []byte) (*configs.Config, error) {
		if panics.Load() {
			panic("thrown by the test")
		}
		return parse(file)
	}
	write("admin: {tokens: [first]}\n")
	s := startServer(t, source)
	tokenAccepted := func(token string) bool { return getStatus(t, s.adminURL+"/api/report", token) == http.StatusOK }
	panics.Store(true)
	write("admin: {tokens: [second]}\n")
	eventually(t, "panic in the log", func() bool { return s.console.contains("thrown by the test") })
	if first, second := tokenAccepted("first"), tokenAccepted("second"); !first || second {
		t.Errorf("after the panic: got token \"first\" accepted = %v, token \"second\" accepted = %v, want only the token \"first\" accepted", first, second)
	}
	panics.Store(false)
	write("admin: {tokens: [third]}\n")
	eventually(t, "third token accepted", func() bool { return tokenAccepted("third") })
	if err := s.stopAndWait(); err != nil {
		t.Error(err)
	}
}

func TestOnlyFirstStartPrintsLoginLink(t *testing.T) {
	source := newFlagSource(t, map[string]string{"admin.base_path": "/tools/precept"})
	cfg, err := source.Load()
	if err != nil {
		t.Fatal(err)
	}
	address := regexp.MustCompile(`dashboard: http://127\.0\.0\.1:\d+/tools/precept(/login\?token=\S+)? \(`)
	for n, want := range []bool{true, false} {
		var output console
		s := server.New(server.Options{
			Tools: testTools(), Config: cfg, Source: source, Console: &output,
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		file := filepath.Join(cfg.DataDir, "run.json")
		eventually(t, "run.json", func() bool { _, err := os.Stat(file); return err == nil })
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if !address.MatchString(output.String()) {
			t.Errorf("console after start %d: got no dashboard address with the path prefix, want one; console:\n%s", n+1, output.String())
		}
		for _, text := range []string{"/login?token=", "agents: OPENAI_BASE_URL=http://127.0.0.1:", "; upstream: http"} {
			if output.contains(text) != want {
				t.Errorf("console after start %d contains %q = %v, want %v", n+1, text, !want, want)
			}
		}
	}
}
