package storetest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// SentinelGroup is a master and a replica with a Sentinel.
type SentinelGroup struct {
	Name    string
	Servers []*Redis // at the start, the first server is the master
	*Redis           // the Sentinel
}

// The two passwords differ, so that a test fails if the client confuses them.
const (
	ServersPassword  = "canary-servers"
	SentinelPassword = "canary-sentinel"
)

// StartSentinel starts a group on free ports, and waits until the Sentinel knows the replica.
func StartSentinel(t *testing.T) *SentinelGroup {
	t.Helper()
	g := &SentinelGroup{Name: "fleet"}
	auth := []string{"--requirepass", ServersPassword, "--masterauth", ServersPassword}
	master := StartRedis(t, auth...)
	host, port, _ := net.SplitHostPort(master.Addr)
	g.Servers = []*Redis{master, StartRedis(t, append(auth, "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0")...)}
	path := filepath.Join(t.TempDir(), "sentinel.conf")
	conf := fmt.Sprintf("requirepass %s\nsentinel monitor %s %s %s 1\nsentinel auth-pass %s %s\nsentinel down-after-milliseconds %s 2000\nsentinel failover-timeout %s 10000\n",
		SentinelPassword, g.Name, host, port, g.Name, ServersPassword, g.Name, g.Name)
	if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	g.Redis = &Redis{Addr: net.JoinHostPort("127.0.0.1", FreePort(t)), dir: filepath.Dir(path), config: path}
	if err := g.Start(); err != nil {
		t.Fatal("the Sentinel does not start: ", err)
	}
	t.Cleanup(g.Kill)
	g.AwaitReplica(t)
	return g
}

// SentinelUser is the user of the Sentinel that StartSentinelTLS starts. The user's password is SentinelPassword.
const SentinelUser = "watcher"

// StartSentinelTLS starts a master and a Sentinel with TLS, which both require client certificates. The argument rules
// contains the ACL rules of SentinelUser. The returned url has no TLS parameters.
func StartSentinelTLS(t *testing.T, files *TLSFiles, rules string, args ...string) (master *Redis, url string) {
	t.Helper()
	master, addr := StartRedisTLS(t, files, "yes", append([]string{"--requirepass", ServersPassword}, args...)...)
	host, port, _ := net.SplitHostPort(addr)
	tlsPort := FreePort(t)
	path := filepath.Join(t.TempDir(), "sentinel.conf")
	conf := fmt.Sprintf("user %s on >%s %s\nsentinel monitor fleet %s %s 1\nsentinel auth-pass fleet %s\ntls-replication yes\n"+
		"tls-port %s\ntls-cert-file %s\ntls-key-file %s\ntls-ca-cert-file %s\ntls-auth-clients yes\n",
		SentinelUser, SentinelPassword, rules, host, port, ServersPassword, tlsPort, files.Cert, files.Key, files.CA)
	if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	sentinel := &Redis{Addr: net.JoinHostPort("127.0.0.1", FreePort(t)), dir: filepath.Dir(path), config: path}
	if err := sentinel.Start(); err != nil {
		t.Fatal("the Sentinel does not start: ", err)
	}
	t.Cleanup(sentinel.Kill)
	return master, fmt.Sprintf("redis-sentinel://:%s@127.0.0.1:%s?master=fleet&sentinel_user=%s&sentinel_password=%s", ServersPassword, tlsPort, SentinelUser, SentinelPassword)
}

// AwaitReplica waits until the Sentinel knows a replica that follows the master.
func (g *SentinelGroup) AwaitReplica(t testing.TB) {
	t.Helper()
	g.await(t, "a replica that follows the master", func() bool {
		list, _ := g.MustDo(t, "SENTINEL", "REPLICAS", g.Name).([]any)
		reply := fmt.Sprint(list...)
		return len(list) == 1 && strings.Contains(reply, "master-link-status ok") && !strings.Contains(reply, "s_down")
	})
}

// Master returns the server that the Sentinel reports as the master.
func (g *SentinelGroup) Master(t testing.TB) *Redis {
	t.Helper()
	addr, _ := g.MustDo(t, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", g.Name).([]any)
	for _, r := range g.Servers {
		if len(addr) == 2 && r.Addr == fmt.Sprintf("%s:%s", addr...) {
			return r
		}
	}
	t.Fatalf("master reported by the Sentinel: got %v, want a server in the group", addr)
	return nil
}

// AwaitFailover waits until the Sentinel names a new master, and the master confirms the role.
func (g *SentinelGroup) AwaitFailover(t testing.TB, old *Redis) {
	t.Helper()
	g.await(t, "a new master", func() bool {
		master := g.Master(t)
		if master == old {
			return false
		}
		role, _ := master.MustDo(t, "ROLE").([]any)
		return len(role) > 0 && role[0] == "master"
	})
}

// await waits until ok returns true. The limit is long, because a Sentinel that detects a delay in its own process
// pauses for half a minute (TILT mode).
func (g *SentinelGroup) await(t testing.TB, event string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(4 * startLimit); !ok(); time.Sleep(50 * time.Millisecond) { //nolint:forbidigo // see above
		if time.Now().After(end) { //nolint:forbidigo // see above
			t.Fatalf("timed out after %v waiting for %s", 4*startLimit, event)
		}
	}
}

// URL returns the group's address for store.url, with additional parameters.
func (g *SentinelGroup) URL(parameters ...string) string {
	return "redis-sentinel://:" + ServersPassword + "@" + g.Addr + "?" +
		strings.Join(append([]string{"master=" + g.Name, "sentinel_password=" + SentinelPassword}, parameters...), "&")
}

func (r *Redis) sentinelCommand(port string) *exec.Cmd {
	return exec.Command("redis-server", r.config, "--sentinel", "--port", port, "--bind", "127.0.0.1", "--dir", r.dir) //nolint:gosec,noctx // a test process, ended by Kill
}
