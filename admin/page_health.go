package admin

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
)

// healthView is the health page.
type healthView struct {
	Health
	Top     []stat
	Account []line
	Since   []line
	Store   []line
}

// line is a figure in a table.
type line struct {
	Name, Value, Tone string
	Indent            string // the class of a line below another: indent, or more below that
}

// healthPage shows how precept itself does.
func (s *Server) healthPage(c echo.Context) error {
	h := s.readHealth(c.Request().Context())
	v := healthView{Health: h, Top: s.healthFigures(&h), Account: accountOf(&h), Since: sinceOf(&h), Store: storeOf(&h)}
	problem := ""
	if h.Fault != "" {
		problem = "The configuration was changed and not taken over; the old one is in force: " + h.Fault
	}
	return s.show(c, shown{Title: "health", Main: v.html, Live: true, Problem: problem})
}

func (s *Server) healthFigures(h *Health) []stat {
	dropped := int64(0)
	for reason, n := range h.Account.Dropped {
		if reason != "opted_out" {
			dropped += n
		}
	}
	kept := stat{Value: count(h.Account.Stored), Note: "of " + count(h.Account.Admitted) + " admitted"}
	lost := stat{Value: count(dropped), Note: "in the directory's life", Tone: "good"}
	if dropped > 0 {
		lost.Tone = "bad"
	}
	lag := stat{Value: fmt.Sprintf("%.1f", h.Spool.Lag), Note: "waiting: " + count(h.Account.Spooled)}
	if h.Spool.Lag > 60 {
		lag.Tone = "bad"
	}
	spool := stat{Value: bytesOf(h.Spool.Bytes), Note: "of " + bytesOf(h.Spool.Limit)}
	if h.Spool.Dir == "" {
		spool.Value, spool.Note = none, "there is none"
	}
	state := stat{Value: "well", Tone: "good", Note: h.Store.Kind}
	if !h.Store.Healthy || h.Store.Trouble != "" {
		state.Value, state.Tone = "failing", "bad"
	}
	out := []stat{state, kept, lost, lag, spool}
	for i, key := range []string{"store-state", "exchanges-kept", "exchanges-dropped", "store-lag", "spool"} {
		out[i].Term = find(key)
	}
	return out
}

func accountOf(h *Health) []line {
	a := &h.Account
	sum := int64(0)
	for _, n := range a.Dropped {
		sum += n
	}
	out := []line{
		{Name: "Admitted", Value: count(a.Admitted)},
		{Name: "Stored", Value: count(a.Stored), Indent: "indent"},
		{Name: "In the spool, or under way", Value: count(a.Spooled), Indent: "indent"},
		{Name: "Under way when precept died", Value: count(a.Incomplete), Indent: "indent"},
		{Name: "Dropped", Value: count(sum), Indent: "indent"},
	}
	for _, reason := range slices.Sorted(maps.Keys(a.Dropped)) {
		out = append(out, line{Name: strings.ReplaceAll(reason, "_", " "), Value: count(a.Dropped[reason]), Indent: "indent more"})
	}
	aside := line{Name: "Set aside after a panic", Value: count(a.SetAside)}
	if a.SetAside > 0 {
		aside.Tone = "bad"
	}
	return append(out, line{Name: "Stored, and no sample tells of them", Value: count(a.Unsampled)}, aside)
}

func sinceOf(h *Health) []line {
	n := &h.Since
	out := []line{
		{Name: "Exchanges stored", Value: count(n.Exchanges)},
		{Name: "Samples written", Value: count(n.Samples)},
		{Name: "Sessions closed", Value: count(n.Closed)},
		{Name: "of them with a reward", Value: count(n.Told), Indent: "indent"},
		{Name: "Exchanges that opted out", Value: count(n.OptedOut)},
		{Name: "Texts redacted", Value: count(n.Redactions)},
		{Name: "Replies cut, aborted or failed", Value: count(n.Incomplete)},
		{Name: "Failed writes to the store", Value: count(n.WriteErrors)},
		{Name: "Sessions in memory", Value: count(n.InMemory)},
	}
	if n.WriteErrors > 0 {
		out[7].Tone = "warn"
	}
	for _, reason := range slices.Sorted(maps.Keys(n.Dropped)) {
		if d := n.Dropped[reason]; d > 0 {
			out = append(out, line{Name: "Dropped: " + strings.ReplaceAll(reason, "_", " "), Value: count(d), Tone: "bad"})
		}
	}
	return out
}

func storeOf(h *Health) []line {
	var out []line
	for _, name := range slices.Sorted(maps.Keys(h.Store.Counts)) {
		l := line{Name: strings.ToUpper(name[:1]) + strings.ReplaceAll(name[1:], "_", " "), Value: count(h.Store.Counts[name])}
		switch name {
		case "bytes":
			l.Name, l.Value = "On disk", bytesOf(h.Store.Counts[name])
		case "parked":
			l.Name = "Feedback that waits for its session"
		}
		out = append(out, l)
	}
	return out
}

// bytesOf writes a size with its unit.
func bytesOf(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	x, i := float64(n), 0
	for x >= 1024 && i < len(units)-1 {
		x, i = x/1024, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", x, units[i])
}
