package proxy

import (
	"net/http"
	"strings"
)

// bodyHeaders contain a digest of the body.
//
//nolint:gochecknoglobals // immutable
var bodyHeaders = [...]string{"Content-Digest", "Repr-Digest", "Digest", "Content-Md5"}

// hasBodyDigest reports whether the headers contain a digest or a signature over the body. An upstream that checks it
// refuses a changed body, so the body is forwarded unchanged.
func hasBodyDigest(h http.Header) bool {
	for _, name := range bodyHeaders {
		if _, ok := h[name]; ok {
			return true
		}
	}
	for name, values := range h { // X-Amz-Content-Sha256 (AWS), X-Ms-Content-Sha256 (Azure), X-Content-Sha256 (OCI)
		if strings.HasSuffix(name, "Content-Sha256") && len(values) > 0 {
			return !strings.HasPrefix(values[0], "UNSIGNED-PAYLOAD")
		}
	}
	scheme, _, _ := strings.Cut(h.Get("Authorization"), " ")
	return strings.HasPrefix(scheme, "AWS4-") || strings.HasSuffix(scheme, "HMAC-SHA256")
}
