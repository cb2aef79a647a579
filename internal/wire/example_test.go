package wire_test

import (
	"fmt"

	"precept/internal/wire"
)

func ExampleParse() {
	req, err := wire.Parse(wire.Chat, []byte(`{"model":"m","messages":[{"role":"user","content":"Sort the cart."}]}`))
	fmt.Println(err, req.Dialect, req.Len(), req.Item(0).UserText)
	// Output: <nil> chat 1 Sort the cart.
}
