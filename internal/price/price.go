// Package price holds model prices by name pattern. The built-in prices are list prices in US dollars as of one date.
// The operator may replace the built-in prices.
package price

import (
	_ "embed"
	"path"
	"strconv"
	"strings"
	"sync"
)

// Price holds the prices per million tokens.
type Price struct {
	Input       float64
	Cached      float64 // input from the provider's prompt cache
	Written     float64 // input written to the prompt cache; 0 means writtenFactor times Input
	WrittenHour float64 // input written to the prompt cache for an hour; 0 means writtenHourFactor times Input
	Output      float64
	NoOutput    bool // the output's price is unknown
}

// Anthropic's prices for cache writes, as multiples of the input price. Hardly any other provider reports cache writes.
const (
	writtenFactor     = 1.25
	writtenHourFactor = 2
)

// Tokens holds token counts. Input includes Cached and Written.
type Tokens struct {
	Input       int64 `json:"in,omitempty"`
	Cached      int64 `json:"cached,omitempty"`       // read from the provider's prompt cache
	Written     int64 `json:"written,omitempty"`      // written to the prompt cache
	WrittenHour int64 `json:"written_hour,omitempty"` // part of Written that the cache keeps for an hour
	Output      int64 `json:"out,omitempty"`
}

// Map combines each count of t with the same count of o.
func (t Tokens) Map(o Tokens, combine func(x, y int64) int64) Tokens {
	return Tokens{
		combine(t.Input, o.Input), combine(t.Cached, o.Cached), combine(t.Written, o.Written),
		combine(t.WrittenHour, o.WrittenHour), combine(t.Output, o.Output),
	}
}

// Plus returns the sum of t and o.
func (t Tokens) Plus(o Tokens) Tokens { return t.Map(o, func(x, y int64) int64 { return x + y }) }

// Cost returns what the tokens cost.
func (p *Price) Cost(t Tokens) float64 {
	written, hour := p.Written, p.WrittenHour
	if written == 0 {
		written = writtenFactor * p.Input
	}
	if hour == 0 {
		hour = writtenHourFactor * p.Input
	}
	return (float64(t.Input-t.Cached-t.Written)*p.Input + float64(t.Cached)*p.Cached + float64(t.Written-t.WrittenHour)*written +
		float64(t.WrittenHour)*hour + float64(t.Output)*p.Output) / 1e6
}

// Dollars is the built-in table's currency.
const Dollars = "USD"

// Entry is the price for models that match a pattern. In the pattern, * matches any text.
type Entry struct {
	Pattern string
	Price   Price
}

// Table holds prices. A model's price is in the first entry with a matching pattern.
type Table struct {
	Entries     []Entry
	Fallback    *Price // for other models; nil means unknown
	BuiltInDate string // "" if the operator configured the prices
}

// Flat returns a table with the same input prices for all models, and with no price for output.
func Flat(input, cached float64) *Table {
	if cached <= 0 {
		cached = input
	}
	return &Table{Fallback: &Price{Input: input, Cached: min(cached, input), NoOutput: true}}
}

// Price returns a model's price, if known. A name may begin with vendors, as in
// openrouter/anthropic/claude-sonnet-4-5 and us.anthropic.claude-sonnet-4-5. Vertex AI writes an @ before the date.
func (t *Table) Price(model string) (p Price, ok bool) {
	if t == nil {
		return p, false
	}
	name := strings.ToLower(model)
	short := name[strings.LastIndexByte(name, '/')+1:]
	if _, after, found := strings.Cut(short, "anthropic."); found {
		short = after
	}
	names := [...]string{name, short, strings.ReplaceAll(short, "@", "-")}
	for i := range t.Entries {
		pattern := strings.ToLower(t.Entries[i].Pattern)
		for _, n := range names {
			if matches, _ := path.Match(pattern, n); matches {
				return t.Entries[i].Price, true
			}
		}
	}
	if t.Fallback != nil {
		return *t.Fallback, true
	}
	return p, false
}

// IsPattern reports whether a pattern is well formed.
func IsPattern(pattern string) bool {
	_, err := path.Match(pattern, "")
	return err == nil && strings.TrimSpace(pattern) != ""
}

//go:embed models.tsv
var builtInTSV string

// BuiltIn returns the built-in table, models.tsv.
var BuiltIn = sync.OnceValue(func() *Table { //nolint:gochecknoglobals // parsed once, never written
	t := &Table{}
	for line := range strings.Lines(builtInTSV) {
		line = strings.TrimSpace(line)
		if date, found := strings.CutPrefix(line, "# date: "); found {
			t.BuiltInDate = date
			continue
		}
		columns := strings.Split(line, "\t")
		if line == "" || line[0] == '#' || len(columns) < 4 {
			continue
		}
		number := func(i int) float64 {
			if i >= len(columns) {
				return 0
			}
			x, _ := strconv.ParseFloat(columns[i], 64) // the test parses every row
			return x
		}
		t.Entries = append(t.Entries, Entry{columns[0], Price{Input: number(1), Cached: number(2), Output: number(3), Written: number(4), WrittenHour: number(5)}})
	}
	return t
})
