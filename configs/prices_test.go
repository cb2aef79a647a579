package configs_test

import (
	"testing"

	"precept/configs"
	"precept/internal/price"
)

func TestPriceTableFollowsTheConfiguration(t *testing.T) {
	const ownPrices = "prices: [{model: 'gpt-5*', input: 2, output: 9}, {model: own, input: 4, cached: 1, output: 8}]\n"
	for name, tc := range map[string]struct {
		file, model, currency string
		want                  price.Price
		known                 bool
	}{
		"built-in model":                   {model: "gpt-5", currency: "USD", want: price.Price{Input: 1.25, Cached: 0.125, Output: 10}, known: true},
		"unknown model":                    {model: "own", currency: "USD"},
		"price in another currency":        {file: "admin: {currency: EUR}", model: "gpt-5", currency: "EUR"},
		"listed model":                     {file: ownPrices, model: "gpt-5-mini", want: price.Price{Input: 2, Cached: 2, Output: 9}, known: true},
		"listed model with a cached price": {file: ownPrices, model: "own", want: price.Price{Input: 4, Cached: 1, Output: 8}, known: true},
		"prices for cache writes": {
			file: "prices: [{model: own, input: 4, cached: 1, cache_write: 5, cache_write_1h: 8, output: 8}]", model: "own",
			want: price.Price{Input: 4, Cached: 1, Written: 5, WrittenHour: 8, Output: 8}, known: true,
		},
		"model that is not listed":       {file: ownPrices, model: "claude-sonnet-4-5"},
		"listed model without output":    {file: "prices: [{model: own, input: 4}]", model: "own", want: price.Price{Input: 4, Cached: 4, NoOutput: true}, known: true},
		"flat price":                     {file: "admin: {price_input: 3, price_cached: 1}", model: "gpt-5", want: price.Price{Input: 3, Cached: 1, NoOutput: true}, known: true},
		"flat price for unlisted models": {file: ownPrices + "admin: {price_input: 3}", model: "claude", want: price.Price{Input: 3, Cached: 3, NoOutput: true}, known: true},
	} {
		cfg, err := configs.Parse(configs.Sources{Offline: true, FileName: "f", File: []byte(tc.file)})
		if err != nil {
			t.Fatalf("%s: got error %v, want a configuration", name, err)
		}
		p, ok := cfg.PriceTable().Price(tc.model)
		if ok != tc.known || p != tc.want || cfg.Currency() != tc.currency {
			t.Errorf("%s: got price %+v, known = %t, currency %q; want price %+v, known = %t, currency %q", name, p, ok, cfg.Currency(), tc.want, tc.known, tc.currency)
		}
	}
}

func TestWrongPricesAreFaults(t *testing.T) {
	for file, key := range map[string]string{
		"prices: [{input: 1}]":                                 "prices[0].model",
		"prices: [{model: '[', input: 1}]":                     "prices[0].model",
		"prices: [{model: a, input: -1}]":                      "prices[0].input",
		"prices: [{model: a, input: 1, cache_write: -1}]":      "prices[0].cache_write",
		"prices: [{model: a, input: 1, cached: 2}]":            "prices[0].cached",
		"prices: [{model: a, input: 1}, {model: a, input: 2}]": "prices[1].model",
		"prices: 3": "prices",
	} {
		_, err := configs.Parse(configs.Sources{Offline: true, FileName: "f", File: []byte(file)})
		if faults, ok := configs.AsFaults(err); !ok || len(faults) != 1 || faults[0].Key != key {
			t.Errorf("configuration %s: got error %v, want a fault in %s", file, err, key)
		}
	}
}
