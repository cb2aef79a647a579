package trace_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"precept/proxy/trace"
)

// The turn's span is a child of the client's span, and the parent of the upstream's span.
func Example() {
	tracer, err := trace.New(trace.Options{Endpoint: "http://127.0.0.1:4318", Sample: 1, Version: "v1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	client := http.Header{"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}
	span := tracer.Start(ctx, client, time.Now())
	upstream := http.Header{}
	span.Forward(ctx, upstream)
	span.End(time.Now(), &trace.Facts{Request: trace.Request{Model: "m"}, Reply: trace.Reply{Status: 200, Input: 7, Cached: -1, Output: 3}})
	fmt.Println(span.TraceID(), upstream.Get("Traceparent") != client.Get("Traceparent"))
	// Output: 0af7651916cd43dd8448eb211c80319c true
}
