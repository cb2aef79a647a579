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

// A server with TLS supports each call. An untrusted server or client gets an error with the remedy.
func TestTLSSupportsAllCallsAndNamesTheRemedy(t *testing.T) {
	t.Parallel()
	mine, theirs := storetest.NewSecrets(t), storetest.NewSecrets(t)
	server, addr := storetest.StartRedisTLS(t, mine, "no")
	url := "rediss://" + addr + "?ca_file=" + mine.CA
	s := open(t, url)
	if err := s.Write(t.Context(), batch(1)); err != nil {
		t.Fatal(err)
	}
	stored(t, s, 1)
	stored(t, open(t, server.URL()), 1) // the same data without TLS
	stored(t, open(t, "redis://"+addr+"?tls=true&skip_verify=true"), 1)
	stored(t, open(t, url+"&server_name=redis.test"), 1)

	for what, bad := range map[string]string{
		"the system's authorities": "rediss://" + addr,
		"another authority":        "rediss://" + addr + "?ca_file=" + theirs.CA,
		"another name":             url + "&server_name=example.test",
	} {
		s := faulty(t, bad)
		err := becomes(t, what, redis.ErrTLS, func() error { return s.Ping(t.Context()) })
		if !strings.Contains(err.Error(), "ca_file") {
			t.Errorf("%s: the error does not say what to do: %v", what, err)
		}
	}
	unavailable(t, "in clear", faulty(t, "redis://"+addr).Ping(t.Context()), redis.ErrDown)
}

// A server may require a client certificate.
func TestTLSWithAClientCertificate(t *testing.T) {
	t.Parallel()
	secrets := storetest.NewSecrets(t)
	_, addr := storetest.StartRedisTLS(t, secrets, "yes")
	url := "rediss://" + addr + "?ca_file=" + secrets.CA
	s := open(t, url+"&cert_file="+secrets.Cert+"&key_file="+secrets.Key)
	if err := s.Write(t.Context(), batch(1)); err != nil {
		t.Fatal(err)
	}
	stored(t, s, 1)
	// The server's refusal arrives as an alert or as the end of the connection; the order is random.
	if err := faulty(t, url).Ping(t.Context()); !errors.Is(err, redis.ErrTLS) && !errors.Is(err, redis.ErrDown) {
		t.Errorf("without one: %v", err)
	}
}

func TestInvalidTLSFilesAreRefused(t *testing.T) {
	t.Parallel()
	secrets := storetest.NewSecrets(t)
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{
		"ca_file=/nowhere.pem", "ca_file=" + empty, "cert_file=" + secrets.Cert, "key_file=" + secrets.Key, "cert_file=" + secrets.CA + "&key_file=" + secrets.Key,
	} {
		if err := redis.CheckURL("rediss://:canary@h?" + query); !errors.Is(err, redis.ErrURL) || strings.Contains(err.Error(), "canary") {
			t.Errorf(`%s: got %v, want error redis.ErrURL and err.Error() without "canary"`, query, err)
		}
	}
}

// In a Sentinel group, the master is found by its name, and a replica becomes the master when the
// old master dies. The new epoch shows that writes may have been lost.
func TestSentinelFailoverChangesTheEpoch(t *testing.T) {
	t.Parallel()
	g := storetest.StartSentinel(t)
	s := open(t, g.URL())
	if err := s.Write(t.Context(), batch(1)); err != nil {
		t.Fatal(err)
	}
	before, err := s.Epoch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	master := g.Master(t)
	master.Must(t, "WAIT", "1", "0")
	master.Kill()
	g.Failed(t, master)
	eventually(t, "write to the new master", func() error { return s.Write(t.Context(), batch(2)) })
	stored(t, s, 2)
	eventually(t, "epoch", func() error {
		after, err := s.Epoch(t.Context())
		if err == nil && after == before {
			err = errors.New("it has not changed")
		}
		return err
	})
	for _, password := range []string{storetest.SentinelPassword, storetest.ServersPassword} {
		s := faulty(t, strings.Replace(g.URL(), password, "wrong", 1))
		_ = becomes(t, password, redis.ErrAuth, func() error { return s.Ping(t.Context()) })
	}
	other := faulty(t, strings.Replace(g.URL(), "master="+g.Name, "master=other", 1))
	unavailable(t, "another group", other.Write(t.Context(), batch(3)), redis.ErrDown)
	_, _, err = other.Session(t.Context(), "default", sid(1))
	unavailable(t, "a look-up in another group", err, redis.ErrDown)
}
