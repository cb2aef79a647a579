package proxy

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"
)

// asked is a body that fills whatever it is read into, and notes how much that was.
type asked struct {
	left  int
	sizes []int
}

func (a *asked) Read(b []byte) (int, error) {
	a.sizes = append(a.sizes, len(b))
	if a.left == 0 {
		return 0, io.EOF
	}
	n := min(len(b), a.left)
	a.left -= n
	return n, nil
}

func (*asked) Close() error { return nil }

// A slow stream holds a small buffer; one that has more gets a larger one, and a response of known length one that fits.
func TestAResponseIsReadByPiecesOfItsSize(t *testing.T) {
	for _, k := range []struct {
		length int64
		size   int
		want   []int
	}{
		{-1, 300, []int{4 << 10, 4 << 10}},
		{-1, 100 << 10, []int{4 << 10, 8 << 10, 16 << 10, 32 << 10, 32 << 10, 32 << 10, 32 << 10}},
		{20 << 10, 20 << 10, []int{32 << 10, 32 << 10}},
		{1 << 20, 33 << 10, []int{32 << 10, 32 << 10, 32 << 10}},
		{20, 20, []int{4 << 10, 4 << 10}},
	} {
		rec := httptest.NewRecorder()
		body := &asked{left: k.size}
		w := &patient{ResponseWriter: rec, ctl: http.NewResponseController(rec), limit: time.Minute, now: time.Now}
		if err := new(Proxy).stream(w, &http.Response{Body: body, ContentLength: k.length}, false); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(body.sizes, k.want) || rec.Body.Len() != k.size {
			t.Errorf("%d of %d: read by %v, want %v; %d came", k.size, k.length, body.sizes, k.want, rec.Body.Len())
		}
	}
}
