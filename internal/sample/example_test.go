package sample_test

import (
	"fmt"

	"precept/internal/sample"
)

func ExampleOptOut_NamesPath() {
	o, err := sample.NewOptOut([]string{"*.env", "*/.ssh/*"}, nil, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(o.NamesPath(`{"path":"/app/.env"}`), o.NamesPath(`{"command":"cat ~/.ssh/id_rsa"}`), o.NamesPath(`{"path":"main.go"}`))
	// Output: true true false
}
