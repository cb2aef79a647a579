package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
)

// badResponse is the error of a response that a proxy may not forward.
type badResponse string

func (e badResponse) Error() string { return string(e) }

// errUnasked is the error of a response that came before its request.
const errUnasked = badResponse("the upstream sent more than it was asked for; its connection was closed")

// statusOf returns precept's status and message where the upstream gave no usable response.
func statusOf(err error) (int, string) {
	var ne net.Error
	var op *net.OpError
	var odd badResponse
	switch {
	case errors.As(err, &odd):
		return http.StatusBadGateway, string(odd)
	case errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect"):
		return http.StatusBadGateway, "the upstream could not be reached; check upstreams in the configuration and that it is up"
	case strings.HasSuffix(err.Error(), "TLS handshake timeout"): // net/http does not export the type
		return http.StatusGatewayTimeout, "the upstream was reached, and did not finish the TLS handshake; check that upstreams names https or http as it speaks"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &ne) && ne.Timeout():
		return http.StatusGatewayTimeout, "the upstream did not answer within limits.upstream_header_timeout"
	case untrusted(err):
		return http.StatusBadGateway, "the upstream was reached, and TLS with it failed; check its certificate, and that upstreams names https or http as it speaks"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &op):
		return http.StatusBadGateway, "the upstream was reached, and closed the connection before it answered"
	case gaveUp(err):
		return http.StatusBadGateway, "the upstream was reached, and gave the request up before it answered (HTTP/2)"
	}
	return http.StatusBadGateway, "the upstream was reached, and what it answered is not HTTP as it should be"
}

// brokenBy returns why a reply broke off. The error may quote the upstream, so brokenBy returns the
// kind of the error only.
func brokenBy(err error, left bool) string {
	var op *net.OpError
	switch {
	case left:
		return "the client left"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "the upstream ended in the middle of it"
	case errors.Is(err, net.ErrClosed), errors.Is(err, http.ErrBodyReadAfterClose):
		return "nothing came for limits.stream_idle_timeout"
	case errors.As(err, &op) && op.Err != nil:
		return op.Op + ": " + op.Err.Error()
	}
	return "what came is not HTTP as it should be"
}

// gaveUp reports whether an HTTP/2 upstream reset the request or closed the connection. net/http
// does not export the types of these errors.
func gaveUp(err error) bool {
	text := err.Error()
	return strings.Contains(text, "stream error: stream ID ") || strings.Contains(text, "http2: server sent GOAWAY")
}

// untrusted reports whether TLS failed.
func untrusted(err error) bool {
	var verify *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	return errors.Is(err, http.ErrSchemeMismatch) || errors.As(err, &verify) || errors.As(err, &record) || errors.As(err, &alert)
}

// checkResponse returns the fault of a response that no client may get: an unrequested switch of
// protocols, or an invalid status.
func checkResponse(res *http.Response, r *http.Request) error {
	switch {
	case res.StatusCode < 100 || res.StatusCode > 999:
		return badResponse("the upstream answered with a status that is none")
	case res.StatusCode == http.StatusSwitchingProtocols && r.Header.Get("Upgrade") == "":
		return badResponse("the upstream switched protocols, which nobody asked for")
	}
	return nil
}
