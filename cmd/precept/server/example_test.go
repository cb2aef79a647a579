package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"

	"precept/cmd/precept/server"
	"precept/configs"
)

func ExampleServer_Run() {
	dir, err := os.MkdirTemp("", "precept")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cfg, err := configs.Parse(configs.Sources{Flags: map[string]string{
		"listen": "127.0.0.1:0", "admin.listen": "127.0.0.1:0", "data_dir": dir, "lessons": dir,
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ready := make(chan string, 1)
	s := server.New(server.Options{
		Tools: testTools(), Config: cfg, Console: io.Discard, Embedded: true,
		OnReady: func(data, _ string) { ready <- data },
	})
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get(<-ready + "/healthz")
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = res.Body.Close()
	fmt.Println(res.Status)
	stop()
	fmt.Println(<-ended)
	// Output:
	// 200 OK
	// <nil>
}
