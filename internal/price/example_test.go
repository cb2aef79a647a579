package price_test

import (
	"fmt"

	"precept/internal/price"
)

func Example() {
	table := &price.Table{Entries: []price.Entry{{Pattern: "claude-sonnet-4*", Price: price.Price{Input: 3, Cached: 0.3, Output: 15}}}}
	p, ok := table.Price("anthropic/claude-sonnet-4-5")
	fmt.Println(p.Cost(price.Tokens{Input: 1_000_000, Cached: 500_000, Output: 100_000}), ok)
	_, ok = table.Price("unknown")
	fmt.Println(ok)
	// Output:
	// 3.15 true
	// false
}
