package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"
)

func ExampleNew() {
	options := newOptions(&fakeReports{report: sampleReport()}, time.Now)
	options.Access = Access{Tokens: []string{"correct-horse-battery-staple"}}
	server, err := New(options)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, header := range []string{"", "Bearer correct-horse-battery-staple"} {
		r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "http://127.0.0.1:8081/api/report", http.NoBody)
		r.Header.Set("Authorization", header)
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("Content-Type"))
	}
	// Output:
	// 401 application/json
	// 200 application/json
}
