package chaos

import (
	"testing"

	"precept/store/storetest"
	"precept/test/harness"
)

// The master of a Sentinel group is killed, and its replica takes over: capture continues, and writes that the old
// master did not replicate are written again.
func TestChaosSentinelFailoverLosesNothing(t *testing.T) {
	t.Parallel()
	g, dir := storetest.StartSentinel(t), t.TempDir()
	p := harness.Serve(t, dir, harness.InstantModel(t).URL, "--store-url", g.URL())
	l := played(t, p, func(*harness.Load) {
		for n := range harness.Longer(1, 3) {
			if n > 0 {
				g.AwaitReplica(t)
			}
			old := g.Master(t)
			old.Kill()
			g.AwaitFailover(t, old)
			if err := old.Start(); err != nil { // the old master becomes a replica when the Sentinel reaches it
				t.Fatal(err)
			}
		}
	})
	whole(t, p, dir, g.URL(), l)
}

// A server with TLS requires client certificates; the test runs the whole program.
func TestServeWithTLSAndClientCertificates(t *testing.T) {
	t.Parallel()
	secrets := storetest.NewSecrets(t)
	_, addr := storetest.StartRedisTLS(t, secrets, "yes")
	url := "rediss://" + addr + "?ca_file=" + secrets.CA + "&cert_file=" + secrets.Cert + "&key_file=" + secrets.Key
	dir := t.TempDir()
	p := harness.Serve(t, dir, harness.InstantModel(t).URL, "--store-url", url)
	whole(t, p, dir, url, played(t, p, func(*harness.Load) {}))
}
