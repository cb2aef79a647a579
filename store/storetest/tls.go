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

// TLSFiles holds the paths of PEM files: the certificate of a test CA, and a certificate for 127.0.0.1 with its private
// key, which servers and clients use.
type TLSFiles struct{ CA, Cert, Key string }

// NewTLSFiles creates the files in a directory of the test.
func NewTLSFiles(t *testing.T) *TLSFiles {
	t.Helper()
	return newTLSFilesFor(t, 24*time.Hour)
}

// NewExpiredTLSFiles creates files with a certificate that expired a minute ago.
func NewExpiredTLSFiles(t *testing.T) *TLSFiles {
	t.Helper()
	return newTLSFilesFor(t, -time.Minute)
}

// newTLSFilesFor creates the files with a certificate that expires after lifetime.
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

// newKey returns a new private key.
func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// signCertificate returns a certificate in DER with the fields of cert and the public key publicKey. The issuer is
// parent, and parentKey, the private key of parent, signs the certificate.
func signCertificate(t *testing.T, cert, parent *x509.Certificate, publicKey *ecdsa.PublicKey, parentKey *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, publicKey, parentKey)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// writePEM writes der as one PEM block of the type kind to the file path. Only the owner of the file can read the file.
func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Args returns the command-line options of redis-server for an additional TLS port. authClients is the value of the
// option --tls-auth-clients: "yes" (the server requires client certificates) or "no".
func (t *TLSFiles) Args(port, authClients string) []string {
	return []string{"--tls-port", port, "--tls-cert-file", t.Cert, "--tls-key-file", t.Key, "--tls-ca-cert-file", t.CA, "--tls-auth-clients", authClients}
}

// StartRedisTLS starts a Redis server with an additional TLS port, and returns the server and the address of that port.
// authClients is "yes" if the server requires client certificates, else "no". The test is skipped if redis-server was
// built without TLS.
func StartRedisTLS(t *testing.T, files *TLSFiles, authClients string, args ...string) (r *Redis, addr string) {
	t.Helper()
	skipWithoutTLS(t)
	port := FreePort(t)
	return StartRedis(t, append(files.Args(port, authClients), args...)...), net.JoinHostPort("127.0.0.1", port)
}

// skipWithoutTLS skips the test if redis-server was built without TLS.
func skipWithoutTLS(t *testing.T) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "redis-server", "--tls-port", "1", "--port", "0", "--tls-cert-file", "/nowhere").CombinedOutput(); err != nil && strings.Contains(string(out), "Bad directive") {
		t.Skip("redis-server was built without TLS")
	}
}
