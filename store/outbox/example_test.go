package outbox_test

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"precept/store/outbox"
)

// The example appends a row, which waits in the outbox until the store has it and the row is released.
func Example() {
	dir, err := os.MkdirTemp("", "outbox")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	box, err := outbox.Open(outbox.Options{
		Path: filepath.Join(dir, "outbox.db"), QuotaBytes: 1 << 30, Now: time.Now, OnDamage: func(err error) { fmt.Println(err) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = box.Close() }()

	last, err := box.Append(&outbox.Flush{Rows: []outbox.Row{
		{Kind: outbox.KindTurns, Tenant: "default", Session: outbox.SessionID{1}, Exchanges: 1, Document: []byte("a turn")},
	}})
	fmt.Println("appended", last, err)
	rows, err := box.Read(0, last, 1<<20)
	fmt.Printf("read %d %s %v\n", len(rows), rows[0].Document, err)
	fmt.Println("waiting:", box.Spooled())
	box.MarkDelivered(last, 1, nil) // the store has the row
	fmt.Println("released:", box.Release(last))
	a := box.Account()
	fmt.Println("admitted", a.Admitted, "stored", a.Stored, "waiting", a.Spooled)
	// Output:
	// appended 1 <nil>
	// read 1 a turn <nil>
	// waiting: 1
	// released: <nil>
	// admitted 1 stored 1 waiting 0
}
