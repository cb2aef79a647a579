package chaos

import (
	"testing"

	"precept/store/storetest"
	"precept/test/harness"
)

// The master may have accepted writes that did not reach the replica before the master was killed. precept writes the
// lost rows again from the outbox.
func TestChaosSentinelFailoverLosesNothing(t *testing.T) {
	t.Parallel()
	sentinel, dir := storetest.StartSentinel(t), t.TempDir()
	p := harness.StartWithUpstream(t, dir, harness.InstantModel(t).URL, "--store-url", sentinel.URL())
	l := disruptDuringLoad(t, p, func(*harness.Load) {
		for n := range harness.UsualOrChaos(1, 3) {
			if n > 0 {
				sentinel.AwaitReplica(t)
			}
			old := sentinel.Master(t)
			old.Kill()
			sentinel.AwaitFailover(t, old)
			if err := old.Start(); err != nil { // the old master becomes a replica when the Sentinel reaches it
				t.Fatal(err)
			}
		}
	})
	checkStoredOnce(t, p, dir, sentinel.URL(), l)
}

func TestServeUsesRedisOverTLS(t *testing.T) {
	t.Parallel()
	for kind, start := range map[string]func(t *testing.T, secrets *storetest.TLSFiles) (url string){
		"single server": func(t *testing.T, secrets *storetest.TLSFiles) string {
			t.Helper()
			_, addr := storetest.StartRedisTLS(t, secrets, "yes")
			return "rediss://" + addr + "?"
		},
		"sentinel": func(t *testing.T, secrets *storetest.TLSFiles) string {
			t.Helper()
			_, url := storetest.StartSentinelTLS(t, secrets, "allcommands allchannels")
			return url + "&tls=true&"
		},
		"cluster": func(t *testing.T, secrets *storetest.TLSFiles) string {
			t.Helper()
			return storetest.StartClusterTLS(t, secrets).URL("tls=true") + "&"
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			secrets, dir := storetest.NewTLSFiles(t), t.TempDir()
			url := start(t, secrets) + "ca_file=" + secrets.CA + "&cert_file=" + secrets.Cert + "&key_file=" + secrets.Key
			p := harness.StartWithUpstream(t, dir, harness.InstantModel(t).URL, "--store-url", url)
			checkStoredOnce(t, p, dir, url, disruptDuringLoad(t, p, func(*harness.Load) {}))
		})
	}
}
