package proxy

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/textproto"
	"strings"
)

// relay forwards a turn by direct. It does what httputil.ReverseProxy does, which serves everything else, and leaves out what
// cannot be here: upgrades, trailers of the request, and a body that is read beside us.
func (p *Proxy) relay(w *patient, r *http.Request, f *forwarding) {
	out := r.WithContext(r.Context())
	out.Header = make(http.Header, len(r.Header)+2)
	maps.Copy(out.Header, r.Header)
	endToEnd(out.Header)
	if asksTrailers(r.Header) {
		out.Header["Te"] = []string{"trailers"}
	}
	f.dress(out)
	var next http.RoundTripper = p.direct
	if f.original != nil {
		next = &secondTry{next, f}
	}
	res, err := next.RoundTrip(out)
	if err == nil && res.StatusCode == http.StatusSwitchingProtocols {
		_ = res.Body.Close()
		err = errors.New("the upstream switches protocols, which nobody asked for")
	}
	if err != nil {
		f.turn.failed(w, out, err)
		return
	}
	waiting := res.Body != http.NoBody && !arrived(res.Body)
	endToEnd(res.Header)
	err = f.turn.response(res)
	defer func() { _ = res.Body.Close() }()
	if err != nil {
		f.turn.failed(w, out, err)
		return
	}
	h := w.Header()
	for k, vv := range res.Header {
		if had := h[k]; had != nil {
			vv = append(had, vv...)
		}
		h[k] = vv
	}
	for k := range res.Trailer {
		h.Add("Trailer", k)
	}
	w.WriteHeader(res.StatusCode)
	if err := p.stream(w, res, waiting); err != nil {
		panic(http.ErrAbortHandler)
	}
	if len(res.Trailer) == 0 {
		return
	}
	_ = w.FlushError() // a response with trailers is chunked, however short
	for k, vv := range res.Trailer {
		h[http.TrailerPrefix+k] = vv
	}
}

// arrived says whether something of the body is here already.
func arrived(body io.Reader) bool {
	b, ok := body.(*directBody)
	return ok && b.c.br.Buffered() > 0
}

// What is read of a response at once. Most pieces of a stream are some hundred bytes, and a slow one keeps its buffer for minutes.
const leastPiece, mostPiece = 4 << 10, 32 << 10

// stream hands on every piece as it comes; the headers too, when the body keeps them waiting.
func (p *Proxy) stream(w *patient, res *http.Response, waiting bool) error {
	if waiting {
		if err := w.FlushError(); err != nil {
			return fmt.Errorf("answer the client: %w", err)
		}
	}
	buf := p.pool.get(int(min(max(res.ContentLength, leastPiece), mostPiece)))
	defer func() { p.pool.put(buf) }()
	for {
		buf = buf[:cap(buf)]
		n, err := res.Body.Read(buf)
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				return fmt.Errorf("answer the client: %w", werr)
			}
			if werr := w.FlushError(); werr != nil {
				return fmt.Errorf("answer the client: %w", werr)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case n == len(buf) && n < mostPiece:
			buf = p.pool.grow(buf)
		}
	}
}

// endToEnd takes out what ends at each hop (RFC 9110, section 7.6.1), with the two headers that are not in it and are everywhere.
func endToEnd(h http.Header) {
	for _, f := range h["Connection"] {
		for name := range strings.SplitSeq(f, ",") {
			if name = textproto.TrimString(name); name != "" {
				h.Del(name)
			}
		}
	}
	for _, k := range [...]string{"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade"} {
		delete(h, k)
	}
}

// asksTrailers says whether the client wants the trailers of the response.
func asksTrailers(h http.Header) bool {
	for _, v := range h["Te"] {
		for token := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(textproto.TrimString(token), "trailers") {
				return true
			}
		}
	}
	return false
}
