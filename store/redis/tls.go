package redis

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// secrecy is what an address says of TLS.
type secrecy struct {
	on         bool
	skipVerify bool
	serverName string // that the certificate must hold; "": the host's of the address
	caFile     string // authorities to trust, in the place of the system's
	certFile   string // what a server that asks for a certificate is shown
	keyFile    string
}

// config is what the client needs of it, nil where there is no TLS. Without a name of its own each
// server must prove to be the one that was asked.
func (y *secrecy) config() (*tls.Config, error) {
	if !y.on {
		return nil, nil //nolint:nilnil // the client's own way to say it
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: y.skipVerify, ServerName: y.serverName} //nolint:gosec // where the operator says so
	if y.caFile != "" {
		pem, err := os.ReadFile(y.caFile)
		if err != nil {
			return nil, fmt.Errorf("%w: ca_file: %w", ErrURL, err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%w: ca_file %s holds no certificate in PEM", ErrURL, y.caFile)
		}
	}
	if (y.certFile == "") != (y.keyFile == "") {
		return nil, fmt.Errorf("%w: cert_file and key_file go together", ErrURL)
	}
	if y.certFile != "" {
		pair, err := tls.LoadX509KeyPair(y.certFile, y.keyFile)
		if err != nil {
			return nil, fmt.Errorf("%w: cert_file and key_file: %w", ErrURL, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// distrusts says whether an error tells that a certificate was refused, by us or by the server.
func distrusts(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	_, ok := errors.AsType[tls.AlertError](err)
	return ok
}
