package price_test

import (
	"math"
	"strings"
	"testing"

	"precept/internal/price"
)

// Price ignores a vendor prefix in the model name, and returns false for an unknown model.
func TestPriceMatchesModelPattern(t *testing.T) {
	for model, input := range map[string]float64{
		"gpt-5": 1.25, "gpt-5-2025-08-07": 1.25, "GPT-5-mini": 0.25, "openrouter/anthropic/claude-sonnet-4.5": 3,
		"us.anthropic.claude-haiku-4-5-20251001-v1:0": 1, "claude-opus-4-1-20250805": 15, "claude-opus-4-5": 5,
		"vertex_ai/claude-sonnet-4@20250514": 3, "claude-opus-4-1@20250805": 15,
		"": 0, "gpt-5-turbo": 0, "gpt-55": 0, "my-gpt-5": 0, "llama3:8b": 0, "claude-opus-4-9": 0,
	} {
		p, ok := price.BuiltIn().Price(model)
		if ok != (input > 0) || p.Input != input {
			t.Errorf("Price(%q) = %+v, %t, want Input = %v, %t", model, p, ok, input, input > 0)
		}
	}
}

func TestBuiltInRowsAreComplete(t *testing.T) {
	table := price.BuiltIn()
	if len(table.BuiltInDate) != len("2025-12") || len(table.Entries) < 40 {
		t.Fatalf("got %d rows and date %q, want at least 40 rows and a date such as 2025-12", len(table.Entries), table.BuiltInDate)
	}
	seen := map[string]bool{}
	for _, e := range table.Entries {
		p := e.Price
		if hasWrites := strings.HasPrefix(e.Pattern, "claude"); hasWrites != (p.Written > p.Input) || hasWrites != (p.WrittenHour > p.Written) {
			t.Errorf("row %q: got %+v, want Input < Written < WrittenHour for Claude models, and no cache write prices for other models", e.Pattern, p)
		}
		if p.Input <= 0 || p.Cached <= 0 || p.Cached > p.Input || p.Output < p.Input || !price.IsPattern(e.Pattern) || seen[e.Pattern] {
			t.Errorf("row %q: got %+v, want a valid, unique pattern and 0 < Cached <= Input <= Output", e.Pattern, p)
		}
		seen[e.Pattern] = true
		example := strings.ReplaceAll(e.Pattern, "*", "")
		if got, ok := table.Price(example); !ok || got != p {
			t.Errorf("Price(%s) = %+v, %t, want the row's price %+v, true", example, got, ok, p)
		}
	}
}

func TestCostCountsCachedTokensOnce(t *testing.T) {
	p := price.Price{Input: 2, Cached: 0.5, Output: 10}
	if got := p.Cost(price.Tokens{Input: 1_000_000, Cached: 400_000, Output: 100_000}); math.Abs(got-(1.2+0.2+1)) > 1e-9 {
		t.Errorf("Cost = %v, want 2.4", got)
	}
}

// If a model has no prices for cache writes, a written token costs 1.25 times the input price. If the cache keeps the
// token for an hour, the factor is 2.
func TestCostCountsWrittenTokensOnce(t *testing.T) {
	written := price.Tokens{Input: 1_000_000, Cached: 400_000, Written: 500_000, WrittenHour: 200_000}
	for want, p := range map[float64]price.Price{
		0.2 + 0.2 + 0.75 + 0.8: {Input: 2, Cached: 0.5},
		0.2 + 0.2 + 0.9 + 1:    {Input: 2, Cached: 0.5, Written: 3, WrittenHour: 5},
	} {
		if got := p.Cost(written); math.Abs(got-want) > 1e-9 {
			t.Errorf("%+v: Cost = %v, want %v", p, got, want)
		}
	}
	if p, ok := price.BuiltIn().Price("claude-opus-4-5"); !ok || p.Written != 6.25 || p.WrittenHour != 10 {
		t.Errorf("Price(claude-opus-4-5) = %+v, want Written = 6.25, WrittenHour = 10", p)
	}
}

func TestFlatPriceAppliesToEveryModel(t *testing.T) {
	p, ok := price.Flat(2, 0).Price("anything")
	if want := (price.Price{Input: 2, Cached: 2, NoOutput: true}); !ok || p != want {
		t.Errorf("Price = %+v, %t, want %+v, true", p, ok, want)
	}
}

func TestPatternMatchesNameAsWritten(t *testing.T) {
	table := &price.Table{Entries: []price.Entry{{Pattern: "claude-sonnet-4@2025*", Price: price.Price{Input: 2}}}}
	if p, ok := table.Price("vertex_ai/claude-sonnet-4@20250514"); !ok || p.Input != 2 {
		t.Errorf("Price = %+v, %t, want Input = 2, true", p, ok)
	}
}
