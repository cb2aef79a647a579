package history_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"precept/cmd/precept/history"
)

func ExampleFind() {
	home, err := os.MkdirTemp("", "history")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(home) }()
	dir := filepath.Join(home, ".claude", "projects", "shop")
	line := `{"type":"user","sessionId":"s1","message":{"role":"user","content":"Build the shop."}}`
	if os.MkdirAll(dir, 0o700) != nil || os.WriteFile(filepath.Join(dir, "s1.jsonl"), []byte(line), 0o600) != nil {
		fmt.Println("the history cannot be written")
		return
	}
	client, paths, err := history.Find("claude-code", history.Env{Home: home, WorkDir: home, Var: func(string) string { return "" }})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, path := range paths {
		in, fault, err := client.Open(path)
		if err != nil || fault != nil {
			fmt.Println(err, fault)
			return
		}
		text, _ := io.ReadAll(in)
		fmt.Println(filepath.Base(path), strings.Contains(string(text), "Build the shop."))
	}
	// Output: s1.jsonl true
}
