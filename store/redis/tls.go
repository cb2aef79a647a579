package redis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

type tlsParams struct {
	enabled    bool
	skipVerify bool
	serverName string // expected in the server's certificate; "" means the host in the address
	caFile     string // trusted authorities, instead of the system's
	certFile   string // client certificate
	keyFile    string // client certificate's private key

	// clientCertRequested becomes true when a server asks for a client certificate; nil if precept has one.
	clientCertRequested *atomic.Bool
}

// config returns the TLS configuration; nil means no TLS. Without serverName, each server's certificate must be valid
// for the host in the server's address.
func (p *tlsParams) config() (*tls.Config, error) {
	if !p.enabled {
		return nil, nil //nolint:nilnil // nil means no TLS for the client
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: p.skipVerify, ServerName: p.serverName} //nolint:gosec // skip_verify is the operator's choice
	if p.caFile != "" {
		pem, err := os.ReadFile(p.caFile)
		if err != nil {
			return nil, fmt.Errorf("%w: ca_file: %w", ErrURL, err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%w: ca_file %s contains no PEM certificate", ErrURL, p.caFile)
		}
	}
	if (p.certFile == "") != (p.keyFile == "") {
		return nil, fmt.Errorf("%w: cert_file and key_file must be set together", ErrURL)
	}
	if p.certFile != "" {
		pair, err := tls.LoadX509KeyPair(p.certFile, p.keyFile)
		if err != nil {
			return nil, fmt.Errorf("%w: cert_file and key_file: %w", ErrURL, err)
		}
		c.Certificates = []tls.Certificate{pair}
		return c, nil
	}
	p.clientCertRequested = &atomic.Bool{}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		p.clientCertRequested.Store(true)
		return &tls.Certificate{}, nil // the server decides whether it accepts a connection without a certificate
	}
	return c, nil
}

// classifyTLSError returns err with a remedy if it is a TLS handshake error, else nil.
func classifyTLSError(err error) error {
	var (
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
		roots     x509.SystemRootsError
		record    tls.RecordHeaderError
		remote    *net.OpError
		other     *tls.CertificateVerificationError
	)
	remedy := ""
	switch {
	case errors.As(err, &host):
		remedy = "set server_name in store.url to a name in Redis' certificate (" + certificateNames(host.Certificate) + "), or issue the certificate for the host in store.url"
	case errors.As(err, &authority), errors.As(err, &roots):
		remedy = "set ca_file in store.url to a file with the certificate of the authority that signed Redis' certificate"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		remedy = fmt.Sprintf("renew Redis' certificate, which is valid from %s to %s, or correct this machine's clock",
			invalid.Cert.NotBefore.UTC().Format(time.DateTime), invalid.Cert.NotAfter.UTC().Format(time.DateTime))
	case errors.As(err, &record):
		remedy = "the Redis port does not use TLS; write redis:// instead of rediss:// in store.url and remove the TLS parameters, or write the port that Redis sets as tls-port"
	case errors.As(err, &remote) && remote.Op == "remote error": // an alert from the server
		remedy = clientRemedy
	case errors.As(err, &invalid), errors.As(err, &other):
		remedy = "replace Redis' certificate"
	default:
		return nil
	}
	return fmt.Errorf("%w: %w; %s", ErrTLS, err, remedy)
}

// portRemedy returns the remedy for a failed first connection, if the likely cause is a port that uses TLS while
// precept does not, or the reverse; "" means none.
func (p *tlsParams) portRemedy(err error) string {
	switch {
	case p.enabled && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)):
		return "if the Redis port does not use TLS, write redis:// instead of rediss:// in store.url and remove the TLS parameters"
	case !p.enabled && isClosedConnection(err):
		return "if the Redis port uses TLS, write rediss:// in store.url; otherwise look for the reason in Redis' log"
	}
	return ""
}

func isClosedConnection(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

const clientRemedy = "Redis refuses precept's certificate, or requires one: set cert_file and key_file in store.url to a certificate from an authority in Redis' tls-ca-cert-file"

func certificateNames(c *x509.Certificate) string {
	names := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		return "the certificate has none"
	}
	return strings.Join(names, ", ")
}

// isRefusedClient reports whether a server closed the connection after asking for a client certificate that precept
// does not have. This is the likely cause, even if the server's TLS alert was lost.
func (p *tlsParams) isRefusedClient(err error) bool {
	return p.clientCertRequested != nil && p.clientCertRequested.Load() && isClosedConnection(err)
}
