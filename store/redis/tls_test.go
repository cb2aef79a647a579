package redis_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"precept/store/redis"
	"precept/store/storetest"
)

func TestUntrustedServerErrorNamesTheRemedy(t *testing.T) {
	t.Parallel()
	secrets, otherSecrets := storetest.NewTLSFiles(t), storetest.NewTLSFiles(t)
	server, addr := storetest.StartRedisTLS(t, secrets, "no")
	url := "rediss://" + addr + "?ca_file=" + secrets.CA
	s := open(t, url)
	if err := s.Write(t.Context(), newBatch(1)); err != nil {
		t.Fatal(err)
	}
	checkStored(t, s, 1)
	checkStored(t, open(t, server.URL()), 1) // a client without TLS must see the same data
	checkStored(t, open(t, "redis://"+addr+"?tls=true&skip_verify=true"), 1)
	checkStored(t, open(t, url+"&server_name=redis.test"), 1)

	for trusted, tc := range map[string]struct{ url, want string }{
		"only the system's CAs": {"rediss://" + addr, "set ca_file in store.url"},
		"another CA":            {"rediss://" + addr + "?ca_file=" + otherSecrets.CA, "set ca_file in store.url"},
		"another server name":   {url + "&server_name=example.test", "set server_name in store.url to a name in Redis' certificate (redis.test, 127.0.0.1)"},
	} {
		s := openWithLongTimeout(t, tc.url)
		err := waitForError(t, trusted, redis.ErrTLS, func() error { return s.Ping(t.Context()) })
		if !strings.Contains(err.Error(), tc.want) {
			t.Errorf("client that trusts %s: got error %v, want an error with %q", trusted, err, tc.want)
		}
	}
	checkUnavailable(t, "Ping without TLS, server with TLS", openWithLongTimeout(t, "redis://"+addr).Ping(t.Context()), redis.ErrDown)
}

func TestServerAcceptsOnlyValidClientCertificate(t *testing.T) {
	t.Parallel()
	secrets := storetest.NewTLSFiles(t)
	_, addr := storetest.StartRedisTLS(t, secrets, "yes")
	openWithClientCertificate(t, secrets, "rediss://"+addr+"?ca_file="+secrets.CA)
}

func TestExpiredCertificateErrorNamesTheRemedy(t *testing.T) {
	t.Parallel()
	secrets := storetest.NewExpiredTLSFiles(t)
	_, addr := storetest.StartRedisTLS(t, secrets, "no")
	s := openWithLongTimeout(t, "rediss://"+addr+"?ca_file="+secrets.CA)
	err := waitForError(t, "expired", redis.ErrTLS, func() error { return s.Ping(t.Context()) })
	if !strings.Contains(err.Error(), "renew Redis' certificate") {
		t.Errorf("Ping with an expired server certificate: got error %v, want an error with \"renew Redis' certificate\"", err)
	}
}

func TestSentinelAcceptsOnlyValidClientCertificate(t *testing.T) {
	t.Parallel()
	secrets := storetest.NewTLSFiles(t)
	_, url := storetest.StartSentinelTLS(t, secrets, documentedRules(t, sentinelRules))
	openWithClientCertificate(t, secrets, url+"&tls=true&ca_file="+secrets.CA)

	files := "&ca_file=" + secrets.CA + "&cert_file=" + secrets.Cert + "&key_file=" + secrets.Key
	wrong := openWithLongTimeout(t, strings.Replace(url, storetest.SentinelPassword, "wrong", 1)+"&tls=true"+files)
	_ = waitForError(t, "Sentinel password", redis.ErrAuth, func() error { return wrong.Ping(t.Context()) })
}

func TestClusterAcceptsOnlyValidClientCertificate(t *testing.T) {
	t.Parallel()
	secrets := storetest.NewTLSFiles(t)
	cluster := storetest.StartClusterTLS(t, secrets)
	for _, n := range cluster.Nodes {
		createUser(t, n)
	}
	url := strings.Replace(cluster.URL("tls=true", "ca_file="+secrets.CA), "redis://", "redis://precept:secret@", 1)
	s := openWithClientCertificate(t, secrets, url)

	slot, from, to, _ := findSlot(t, cluster)
	if err := cluster.MoveSlot(slot, from, to); err != nil {
		t.Fatal(err)
	}
	if err := s.Write(t.Context(), newBatch(1)); err != nil {
		t.Errorf("Write after the slot was moved: got error %v, want none", err)
	}
	checkStored(t, s, 1)
}

// openWithClientCertificate opens a store with the client certificate. It fails the test unless the servers refuse a
// store without a certificate, and a store with a certificate from another CA.
func openWithClientCertificate(t *testing.T, secrets *storetest.TLSFiles, url string) *redis.Store {
	t.Helper()
	s := open(t, url+"&cert_file="+secrets.Cert+"&key_file="+secrets.Key)
	if err := s.Write(t.Context(), newBatch(1)); err != nil {
		t.Fatal(err)
	}
	checkStored(t, s, 1)
	other := storetest.NewTLSFiles(t)
	for certificate, url := range map[string]string{"no certificate": url, "another CA's certificate": url + "&cert_file=" + other.Cert + "&key_file=" + other.Key} {
		refused := openWithLongTimeout(t, url)
		err := waitForError(t, certificate, redis.ErrTLS, func() error { return refused.Ping(t.Context()) })
		if !strings.Contains(err.Error(), "cert_file and key_file in store.url") {
			t.Errorf("Ping with %s: got error %v, want an error with \"cert_file and key_file in store.url\"", certificate, err)
		}
	}
	return s
}

func TestInvalidTLSFilesAreRefused(t *testing.T) {
	t.Parallel()
	secrets := storetest.NewTLSFiles(t)
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{
		"ca_file=/nowhere.pem", "ca_file=" + empty, "cert_file=" + secrets.Cert, "key_file=" + secrets.Key, "cert_file=" + secrets.CA + "&key_file=" + secrets.Key,
	} {
		if err := redis.CheckURL("rediss://:canary@h?" + query); !errors.Is(err, redis.ErrURL) || strings.Contains(err.Error(), "canary") {
			t.Errorf("CheckURL with %s: got error %v, want redis.ErrURL without the password \"canary\" in the text", query, err)
		}
	}
}

// After a failover, the epoch must change, because the failover may have lost writes.
func TestSentinelFailoverChangesTheEpoch(t *testing.T) {
	t.Parallel()
	g := storetest.StartSentinel(t)
	s := open(t, g.URL())
	if err := s.Write(t.Context(), newBatch(1)); err != nil {
		t.Fatal(err)
	}
	before, err := s.Epoch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	master := g.Master(t)
	master.MustDo(t, "WAIT", "1", "0")
	master.Kill()
	g.AwaitFailover(t, master)
	eventually(t, "write to the new master", func() error { return s.Write(t.Context(), newBatch(2)) })
	checkStored(t, s, 2)
	eventually(t, "epoch", func() error {
		after, err := s.Epoch(t.Context())
		if err == nil && after == before {
			err = errors.New("the epoch has not changed")
		}
		return err
	})
	for _, password := range []string{storetest.SentinelPassword, storetest.ServersPassword} {
		s := openWithLongTimeout(t, strings.Replace(g.URL(), password, "wrong", 1))
		_ = waitForError(t, password, redis.ErrAuth, func() error { return s.Ping(t.Context()) })
	}
	other := openWithLongTimeout(t, strings.Replace(g.URL(), "master="+g.Name, "master=other", 1))
	checkUnavailable(t, "Write to an unknown group", other.Write(t.Context(), newBatch(3)), redis.ErrDown)
	_, _, err = other.Session(t.Context(), "default", sessionID(1))
	checkUnavailable(t, "Session in an unknown group", err, redis.ErrDown)
}
