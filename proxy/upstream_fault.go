package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// stage is the last stage reached by a request to an upstream.
type stage int32

const (
	stageDial      stage = iota // not connected to the upstream, or to a proxy before the upstream
	stageConnected              // the connection is open; a proxy's tunnel may not be open yet
	stageTLS                    // the TLS handshake has begun
	stageSent                   // the connection is ready, and the request is being sent or was sent
)

// badResponse is the error for a response that precept does not forward.
type badResponse string

func (e badResponse) Error() string { return string(e) }

const errEarlyResponse = badResponse("sent data before precept's request, so precept closed the connection; try again")

// refusedTunnel is the error for a proxy that refuses CONNECT. It replaces net/http's error, which has no status code
// and quotes the proxy's text.
type refusedTunnel struct{ status int }

func (e *refusedTunnel) Error() string { return fmt.Sprintf("CONNECT: status %d", e.status) }

// checkTunnel implements http.Transport.OnProxyConnectResponse.
func checkTunnel(_ context.Context, _ *url.URL, _ *http.Request, res *http.Response) error {
	if res.StatusCode == http.StatusOK {
		return nil
	}
	return &refusedTunnel{res.StatusCode}
}

// errInvalidProxy does not quote HTTPS_PROXY or HTTP_PROXY, which may contain a password.
var errInvalidProxy = errors.New("invalid proxy in the environment")

func environmentProxy(r *http.Request) (*url.URL, error) {
	u, err := http.ProxyFromEnvironment(r)
	if err != nil {
		return nil, errInvalidProxy
	}
	return u, nil
}

// hop is the upstream, or the proxy before it, in an error message.
type hop struct {
	name    string // name and host, without a credential
	setting string // key or variable with the address
}

// hops returns the upstream, and the proxy before the upstream; via is nil without a proxy.
func (t *target) hops() (up hop, via *hop) {
	up = hop{"the upstream " + t.name + " (" + t.base.Host + ")", "upstreams." + t.name + ".url"}
	if t.name == "default" {
		up.setting = "upstream"
	}
	if proxy, err := t.transport.Proxy(&http.Request{URL: t.base}); err == nil && proxy != nil {
		via = &hop{"the proxy " + proxy.Host, strings.ToUpper(t.base.Scheme) + "_PROXY"}
	}
	return up, via
}

// failureAnswer returns precept's answer to a request without a usable response. The message quotes no bytes from a
// hop. Agents retry after a 502, 503 or 504.
func (t *target) failureAnswer(err error, reached stage) (status int, message string) {
	up, via := t.hops()
	var bad badResponse
	var refused *refusedTunnel
	var op *net.OpError
	switch text := err.Error(); {
	case errors.As(err, &bad):
		return http.StatusBadGateway, up.name + " " + string(bad)
	case errors.Is(err, errInvalidProxy):
		return http.StatusBadGateway, "HTTPS_PROXY or HTTP_PROXY in precept's environment is not a proxy URL; write http://user:password@host:port and restart precept"
	case via != nil && errors.As(err, &refused):
		return refused.failureAnswer(t, via)
	case via != nil && errors.As(err, &op) && (op.Op == "proxyconnect" || op.Op == "socks connect"):
		return dialFailure(via, op.Err)
	case errors.As(err, &op) && op.Op == "dial":
		return dialFailure(&up, op.Err)
	case via != nil && t.base.Scheme == "https" && reached == stageConnected:
		return via.noTunnel(err)
	case strings.HasSuffix(text, "TLS handshake timeout"): // net/http does not export the type
		return http.StatusGatewayTimeout, up.name + " did not finish the TLS handshake within 10 s; check whether " + up.setting + " must begin with http:// or https://" + viaText(via)
	case isTimeout(err):
		return http.StatusGatewayTimeout, up.name + " did not answer within limits.upstream_header_timeout; try again, or raise the limit"
	}
	if fact, remedy := tlsFailure(err, &up); fact != "" {
		return http.StatusBadGateway, up.name + " " + fact + "; " + remedy
	}
	return http.StatusBadGateway, up.name + " " + responseFailure(err, reached, &up, via)
}

func viaText(via *hop) string {
	if via == nil {
		return ""
	}
	return " (the connection goes through " + via.name + ")"
}

func (e *refusedTunnel) failureAnswer(t *target, via *hop) (int, string) {
	host, status := t.base.Hostname(), http.StatusBadGateway
	remedy := "ask the proxy's operator to allow this host, or list the host in NO_PROXY"
	switch e.status {
	case http.StatusProxyAuthRequired, http.StatusUnauthorized:
		remedy = "put the user and the password into " + via.setting + " (http://user:password@host:port)"
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusInternalServerError, http.StatusNotFound:
		remedy = "the proxy could not reach this host: try again, or list the host in NO_PROXY if it is reachable without the proxy"
	case http.StatusTooManyRequests:
		remedy = "try again later"
	case http.StatusMethodNotAllowed, http.StatusNotImplemented, http.StatusBadRequest:
		remedy = "the proxy does not support CONNECT: correct " + via.setting
	}
	return status, strings.TrimSpace(fmt.Sprintf("%s refused the connection to %s with status %d %s", via.name, host, e.status, http.StatusText(e.status))) + "; " + remedy
}

// noTunnel answers for a proxy that accepted the connection but sent no usable response to CONNECT.
func (h *hop) noTunnel(err error) (int, string) {
	if isTimeout(err) {
		return http.StatusGatewayTimeout, h.name + " did not answer CONNECT; check " + h.setting
	}
	if isClosed(err) {
		return http.StatusBadGateway, h.name + " closed the connection without an answer to CONNECT; check " + h.setting
	}
	return http.StatusBadGateway, h.name + " did not answer CONNECT with HTTP; check that " + h.setting + " names a proxy's port"
}

// dialFailure answers for a hop that accepts no connection.
func dialFailure(h *hop, err error) (int, string) {
	var dns *net.DNSError
	isErrno := func(numbers ...syscall.Errno) bool {
		for _, n := range numbers {
			if errors.Is(err, n) {
				return true
			}
		}
		return false
	}
	answer := func(status int, fact, remedy string) (int, string) {
		return status, h.name + " could not be reached: " + fact + "; " + remedy
	}
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return answer(http.StatusBadGateway, "DNS does not know the host name", "correct "+h.setting+" or this machine's DNS; if only a proxy knows the name, set HTTPS_PROXY")
	case errors.As(err, &dns):
		return answer(http.StatusBadGateway, "the DNS server does not answer", "check this machine's DNS; if a proxy is required, set HTTPS_PROXY")
	case isErrno(syscall.ECONNREFUSED):
		return answer(http.StatusBadGateway, "connection refused", "start the server, or correct the port in "+h.setting)
	case isErrno(syscall.EHOSTUNREACH, syscall.ENETUNREACH):
		return answer(http.StatusBadGateway, "no route to the host", "check the network; if a proxy is required, set HTTPS_PROXY")
	case isErrno(syscall.EACCES, syscall.EPERM):
		return answer(http.StatusBadGateway, "this machine forbids the connection", "check the firewall or sandbox")
	case isErrno(syscall.EMFILE, syscall.ENFILE):
		return answer(http.StatusServiceUnavailable, "precept has no free file descriptor", "raise the limit on open files (ulimit -n, LimitNOFILE)")
	case isErrno(syscall.EADDRNOTAVAIL):
		return answer(http.StatusServiceUnavailable, "this machine has no free port", "try again; many short connections use up the ports")
	case isTimeout(err):
		return answer(http.StatusGatewayTimeout, "no connection within 10 s", "check "+h.setting+", routes and firewalls; if a proxy is required, set HTTPS_PROXY")
	}
	if fact, remedy := tlsFailure(err, h); fact != "" {
		return answer(http.StatusBadGateway, "it "+fact, remedy)
	}
	if isClosed(err) {
		return answer(http.StatusBadGateway, "it closed the connection", "check "+h.setting)
	}
	return answer(http.StatusBadGateway, "the connection failed", "check "+h.setting)
}

// tlsFailure explains a failed TLS handshake. For another error, fact is "".
func tlsFailure(err error, h *hop) (fact, remedy string) {
	var verify *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	var alert *net.OpError
	switch {
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &record):
		return "does not speak TLS on this port", "write http:// in " + h.setting + ", or correct the port"
	case errors.As(err, &authority):
		return "has a certificate from an unknown authority", "add the authority's certificate, or that of a proxy that decrypts TLS, to the file in SSL_CERT_FILE (docs/OPERATIONS.md)"
	case errors.As(err, &host):
		return "has a certificate for another host", "correct the host in " + h.setting + ", or the certificate"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "has a certificate that is expired or not yet valid", "renew the certificate, or correct this machine's clock"
	case errors.As(err, &verify):
		return "has an invalid certificate", "check the certificate, and SSL_CERT_FILE"
	case errors.As(err, &alert) && alert.Op == "remote error": // Err is a crypto/tls text
		return "ended the TLS handshake (" + alert.Err.Error() + ")", "check that the server accepts TLS 1.2 or newer and requires no client certificate"
	}
	return "", ""
}

// responseFailure explains a failure after the connection and before the response.
func responseFailure(err error, reached stage, up *hop, via *hop) string {
	text := err.Error()
	switch {
	case reached == stageTLS && isClosed(err):
		return "closed the connection in the TLS handshake; check the host and port in " + up.setting + ", and firewalls that decrypt TLS" + viaText(via)
	case reached == stageTLS:
		return "and precept did not agree on TLS; check whether " + up.setting + " must begin with http:// or https://, and whether the server accepts TLS 1.2 or newer" + viaText(via)
	case isClosed(err):
		return "closed the connection without an answer; try again, and read the upstream's log if the failure recurs" + viaText(via)
	case strings.Contains(text, "stream error: stream ID "), strings.Contains(text, "http2: server sent GOAWAY"): // no exported types
		return "cancelled the request without an answer (HTTP/2); try again"
	case strings.Contains(text, "response headers exceeded"):
		return "sent more than 1 MiB of response headers"
	case strings.Contains(text, `malformed HTTP response "\x15\x03`): // a TLS alert
		return "speaks TLS on this port; write https:// in " + up.setting + ", or correct the port"
	}
	return "sent a malformed HTTP response; check that " + up.setting + " names an HTTP server's port" + viaText(via)
}

func isClosed(err error) bool {
	var op *net.OpError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &op) && !op.Timeout() ||
		err.Error() == "http: server closed idle connection"
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &ne) && ne.Timeout()
}

// endReason returns why a stream ended, without the error's text, which may come from the upstream.
func endReason(err error, clientLeft bool) string {
	var op *net.OpError
	switch {
	case clientLeft:
		return "the client disconnected"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "the upstream closed the connection"
	case errors.Is(err, net.ErrClosed), errors.Is(err, http.ErrBodyReadAfterClose):
		return "no bytes for limits.stream_idle_timeout"
	case errors.As(err, &op) && op.Err != nil:
		return op.Op + ": " + op.Err.Error()
	}
	return "malformed HTTP"
}

// checkResponse refuses an unrequested protocol switch, an invalid status, and a proxy's request for credentials.
func (t *target) checkResponse(res *http.Response, r *http.Request) error {
	switch {
	case res.StatusCode == http.StatusProxyAuthRequired && t.base.Scheme == "http":
		if _, via := t.hops(); via != nil {
			return &refusedTunnel{res.StatusCode}
		}
	case res.StatusCode < 100 || res.StatusCode > 999:
		return badResponse("sent an invalid HTTP status")
	case res.StatusCode == http.StatusSwitchingProtocols && r.Header.Get("Upgrade") == "":
		return badResponse("switched protocols, although the client did not ask for it")
	}
	return nil
}

// warningInterval is the time between two warnings about one upstream, or about refused webhooks.
const warningInterval = time.Minute

const (
	minOutageFailures = 3 // failures in a row
	maxLoggedOutages  = 5 // per warningInterval
)

// outageLog logs one upstream's outages. An upstream that fails every other request must not fill the log. Within
// warningInterval of a warning, another outage is therefore logged only after minOutageFailures failures, and at most
// maxLoggedOutages outages are logged.
type outageLog struct {
	warned        atomic.Bool  // set by a warning, cleared by logRecovery
	failureStreak atomic.Int32 // failures since the last answer

	mu                   sync.Mutex
	firstFailure         time.Time // the first failure since logRecovery, or since a pause of warningInterval without a failure
	lastFailure          time.Time
	lastWarning          time.Time
	failuresSinceWarning int
	failures             int       // failures since firstFailure
	windowStart          time.Time // when the loggedOutages count began
	loggedOutages        int       // outages with a warning since windowStart
	suppressedOutages    int       // outages that ended without a warning since the last line
}

// isDue reports whether a failure is logged as a warning. streak is the number of failures since the last answer.
func (l *outageLog) isDue(now time.Time, streak int32) bool {
	if now.Sub(l.windowStart) >= warningInterval {
		l.windowStart, l.loggedOutages = now, 0
	}
	if l.lastWarning.IsZero() || now.Sub(l.lastWarning) >= warningInterval {
		return true
	}
	return !l.warned.Load() && streak >= minOutageFailures && l.loggedOutages < maxLoggedOutages
}

func (l *outageLog) appendSuppressed(args []any) []any {
	if l.suppressedOutages > 0 {
		args = append(args, "suppressed_outages", l.suppressedOutages)
	}
	l.suppressedOutages = 0
	return args
}

func (l *outageLog) logFailure(log *slog.Logger, t *target, now time.Time, status int, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if quiet := now.Sub(l.lastFailure) >= warningInterval; l.failures == 0 || quiet && !l.warned.Load() {
		l.firstFailure, l.failuresSinceWarning, l.failures = now, 0, 0
	}
	l.lastFailure = now
	l.failuresSinceWarning++
	l.failures++
	args := []any{"upstream", t.name, "url", t.base.Redacted(), "status", status, "failed", l.failuresSinceWarning, "why", why}
	if !l.isDue(now, l.failureStreak.Add(1)) {
		log.Debug("a request to the upstream failed", args...)
		return
	}
	l.lastWarning, l.failuresSinceWarning = now, 0
	if l.warned.CompareAndSwap(false, true) {
		l.loggedOutages++
	}
	log.Warn("requests to the upstream fail", l.appendSuppressed(args)...)
}

// logRecovery logs the end of an outage. An outage without a warning is only counted.
func (l *outageLog) logRecovery(log func() *slog.Logger, t *target, clock func() time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.warned.CompareAndSwap(true, false) {
		l.suppressedOutages++
		return
	}
	args := []any{"upstream", t.name, "url", t.base.Redacted(), "failed", l.failures, "after", clock().Sub(l.firstFailure).Round(time.Second).String()}
	log().Info("the upstream answers again", l.appendSuppressed(args)...)
	l.failures = 0
}

func (t *target) logAnswer(log func() *slog.Logger, now func() time.Time, status int) {
	switch {
	case status >= http.StatusInternalServerError:
		t.outages.logFailure(log(), t, now(), status, "the upstream answered with this status; precept forwards the answers")
	case status == http.StatusTooManyRequests: // neither continues nor ends an outage
	case t.outages.failureStreak.Load() > 0 && t.outages.failureStreak.Swap(0) > 0: // only one of two concurrent answers ends the outage
		t.outages.logRecovery(log, t, now)
	}
}
