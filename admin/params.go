package admin

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
)

// params reads the query of a request, and keeps the first fault.
type params struct {
	c   echo.Context
	err error
}

func (p *params) fault(name, text string) {
	if p.err == nil {
		p.err = echo.NewHTTPError(http.StatusBadRequest, name+": "+text)
	}
}

// longest is the most that a parameter may have, in bytes.
const longest = 256

func (p *params) text(name string) string {
	t := p.c.QueryParam(name)
	if len(t) > longest {
		p.fault(name, "it is longer than 256 bytes")
		return ""
	}
	return t
}

func (p *params) tenant() string { return cmp.Or(p.text("tenant"), "default") }

// tenantOf is the tenant that a request names, where the query needs no check.
func tenantOf(c echo.Context) string { return cmp.Or(c.QueryParam("tenant"), "default") }

func (p *params) number(name string) int {
	t := p.c.QueryParam(name)
	if t == "" {
		return 0
	}
	n, err := strconv.Atoi(t)
	if err != nil || n < 0 {
		p.fault(name, "it is a whole number, 0 or more")
	}
	return n
}

func (p *params) share(name string) *float64 {
	t := p.c.QueryParam(name)
	if t == "" {
		return nil
	}
	x, err := strconv.ParseFloat(t, 64)
	if err != nil || !(x >= 0 && x <= 1) {
		p.fault(name, "it is a number from 0 to 1")
		return nil
	}
	return &x
}

func (p *params) yes(name string) bool {
	t := p.c.QueryParam(name)
	if t == "" {
		return false
	}
	b, err := strconv.ParseBool(t)
	if err != nil {
		p.fault(name, "it is true or false")
	}
	return b
}

// time reads a day, a day with minutes as a browser's field has it (UTC), or RFC 3339.
func (p *params) time(name string) time.Time {
	t := p.c.QueryParam(name)
	if t == "" {
		return time.Time{}
	}
	for _, layout := range []string{time.DateOnly, "2006-01-02T15:04", time.RFC3339} {
		if at, err := time.Parse(layout, t); err == nil {
			return at
		}
	}
	p.fault(name, "it is a time such as 2026-01-31 or 2026-01-31T12:00:00Z")
	return time.Time{}
}

// oneOf reads a word out of a list.
func (p *params) oneOf(name string, words []string) string {
	t := p.c.QueryParam(name)
	if t == "" {
		return ""
	}
	if slices.Contains(words, t) {
		return t
	}
	p.fault(name, "it is one of "+list(words))
	return ""
}

// many reads several words out of a list.
func (p *params) many(name string, words []string) []string {
	var out []string
	for _, t := range p.c.QueryParams()[name] {
		for w := range strings.SplitSeq(t, ",") {
			if w = strings.TrimSpace(w); w == "" {
				continue
			}
			if !slices.Contains(words, w) {
				p.fault(name, "it is one of "+list(words))
				return nil
			}
			out = append(out, w)
		}
	}
	return out
}

func list(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
