package storetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TLSFiles contains the paths of PEM files for servers and clients: the certificate of a test CA, a certificate for
// 127.0.0.1, and the private key for this certificate.
type TLSFiles struct{ CA, Cert, Key string }

// NewTLSFiles creates the files in a temporary directory.
func NewTLSFiles(t *testing.T) *TLSFiles {
	t.Helper()
	return newTLSFilesFor(t, 24*time.Hour)
}

// NewExpiredTLSFiles creates files with a certificate that expired a minute ago.
func NewExpiredTLSFiles(t *testing.T) *TLSFiles {
	t.Helper()
	return newTLSFilesFor(t, -time.Minute)
}

func newTLSFilesFor(t *testing.T, lifetime time.Duration) *TLSFiles {
	t.Helper()
	dir := t.TempDir()
	s := &TLSFiles{filepath.Join(dir, "ca.pem"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
	caKey, key := newKey(t), newKey(t)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), //nolint:forbidigo // TLS checks the certificate against the real clock
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "test server"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"redis.test"},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		NotBefore: ca.NotBefore, NotAfter: time.Now().Add(lifetime), //nolint:forbidigo // see above
	}
	writePEM(t, s.CA, "CERTIFICATE", signCertificate(t, ca, ca, &caKey.PublicKey, caKey))
	writePEM(t, s.Cert, "CERTIFICATE", signCertificate(t, leaf, ca, &key.PublicKey, caKey))
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, s.Key, "PRIVATE KEY", der)
	return s
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func signCertificate(t *testing.T, cert, parent *x509.Certificate, publicKey *ecdsa.PublicKey, parentKey *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, publicKey, parentKey)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Args returns redis-server options for an additional TLS port. The argument authClients is "yes" if the server
// requires client certificates, and otherwise "no".
func (t *TLSFiles) Args(port, authClients string) []string {
	return []string{"--tls-port", port, "--tls-cert-file", t.Cert, "--tls-key-file", t.Key, "--tls-ca-cert-file", t.CA, "--tls-auth-clients", authClients}
}

// StartRedisTLS starts a Redis server with an additional TLS port, and returns the server and the address of this port.
// For authClients, see Args. If redis-server was built without TLS, StartRedisTLS skips the test.
func StartRedisTLS(t *testing.T, files *TLSFiles, authClients string, args ...string) (r *Redis, addr string) {
	t.Helper()
	skipWithoutTLS(t)
	port := FreePort(t)
	return StartRedis(t, append(files.Args(port, authClients), args...)...), net.JoinHostPort("127.0.0.1", port)
}

func skipWithoutTLS(t *testing.T) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "redis-server", "--tls-port", "1", "--port", "0", "--tls-cert-file", "/nowhere").CombinedOutput(); err != nil && strings.Contains(string(out), "Bad directive") {
		t.Skip("redis-server was built without TLS")
	}
}
