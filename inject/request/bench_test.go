package request

import (
	"strings"
	"testing"
)

func BenchmarkKinds(b *testing.B) {
	text := strings.Repeat("The parser of the invoices reads each line, and the totals of the columns differ from the sums by a cent. ", 80)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		Kinds(text)
	}
}
