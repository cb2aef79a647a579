package lake_test

import (
	"bytes"
	"fmt"
	"time"

	"github.com/parquet-go/parquet-go"

	"precept/cmd/precept/lake"
	"precept/internal/sample"
	"precept/internal/session"
)

func ExampleWriter() {
	var out bytes.Buffer
	w, err := lake.NewWriter(&out)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = w.Add(&session.StoredSample{Tenant: "default", Agent: "coder", Sample: sample.Sample{
		ID: "1c3e2955-626b-47c2-9dbf-e403708002e2", Family: sample.DialogResponse, CreatedAt: time.UnixMilli(0),
		Input: map[string]any{"user_text": "hello"},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := w.Close(); err != nil {
		fmt.Println(err)
		return
	}
	rows, err := parquet.Read[lake.Row](bytes.NewReader(out.Bytes()), int64(out.Len()))
	for _, row := range rows {
		fmt.Println(row.Tenant, row.Family, row.Input, err)
	}
	// Output: default dialog_response {"user_text":"hello"} <nil>
}
