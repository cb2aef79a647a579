package configs

import (
	"cmp"
	"strings"

	"precept/internal/price"
)

// PriceTable returns the model prices from prices (the first matching entry) and, for all other models, from
// admin.price_input. If both keys are missing, it returns the built-in prices, unless the currency is not US dollars.
func (c *Config) PriceTable() *price.Table {
	t := &price.Table{}
	for _, p := range c.Prices {
		t.Entries = append(t.Entries, price.Entry{Pattern: p.Model, Price: price.Price{
			Input: p.Input, Cached: cmp.Or(p.Cached, p.Input), Written: p.CacheWrite, WrittenHour: p.CacheWriteHour, Output: p.Output, NoOutput: p.Output == 0 && p.Input > 0,
		}})
	}
	if c.Admin.PriceInput > 0 {
		t.Fallback = price.Flat(c.Admin.PriceInput, c.Admin.PriceCached).Fallback
	}
	if len(t.Entries) == 0 && t.Fallback == nil && (c.Admin.Currency == "" || strings.EqualFold(c.Admin.Currency, price.Dollars)) {
		return price.BuiltIn()
	}
	return t
}

// Currency returns the currency for all amounts.
func (c *Config) Currency() string {
	if c.Admin.Currency == "" && c.PriceTable().BuiltInDate != "" {
		return price.Dollars
	}
	return c.Admin.Currency
}
