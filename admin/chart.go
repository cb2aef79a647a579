package admin

import (
	"encoding/json"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/bandit/report"
)

// chart is the input for chart.js: lines over time, with or without intervals.
type chart struct {
	Label  string   `json:"label"`
	Unit   string   `json:"unit"`
	Days   []int64  `json:"days"`            // Unix seconds
	Local  bool     `json:"local,omitempty"` // true: Days are points in time, shown in the browser's zone; false: UTC dates
	Series []series `json:"series"`
	Marks  []marker `json:"marks,omitempty"`
}

// series is one line in a chart, with a value per day; null leaves a gap.
type series struct {
	Name   string     `json:"name"`
	Colour string     `json:"colour"` // CSS custom property in style.css
	Values []*float64 `json:"values"`
	Lo     []*float64 `json:"lo,omitempty"`
	Hi     []*float64 `json:"hi,omitempty"`
}

// marker is a labelled vertical line, such as a planned trial's evaluation.
type marker struct {
	At   int64  `json:"at"` // Unix seconds
	Text string `json:"text"`
}

func chartScripts() g.Node {
	return g.Group{h.Link(h.Rel("stylesheet"), h.Href("/static/uplot.css")), script("uplot.js"), script("chart.js")}
}

// node returns the element in which chart.js draws, or nil if the chart has fewer than two days. name is for screen
// readers.
func (c chart) node(name string) g.Node {
	b, err := json.Marshal(c)
	if err != nil || len(c.Days) < 2 { // err is always nil here
		return nil
	}
	return h.Div(h.Class("chart"), h.Data("chart", string(b)), h.Role("img"), ariaLabel(name))
}

// unixDay returns the Unix time at which a UTC day such as 2026-01-31 begins, or 0.
func unixDay(date string) int64 {
	at, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return 0
	}
	return at.Unix()
}

// inPoints converts reward to points; 1 point is a reward of 0.01.
func inPoints(x *float64) *float64 {
	if x == nil {
		return nil
	}
	return new(report.Points(*x))
}

func effectChart(label string, effects []effectAt) chart {
	c, s := chart{Label: label, Unit: "points"}, series{Name: "Effect", Colour: "--mark"}
	for _, l := range effects {
		c.Days = append(c.Days, l.at.Unix())
		s.Values, s.Lo, s.Hi = append(s.Values, inPoints(&l.effect.size)), append(s.Lo, inPoints(&l.effect.lo)), append(s.Hi, inPoints(&l.effect.hi))
	}
	c.Series = []series{s}
	return c
}

// effectOverTime returns a chart and a table of the effect at the end of each day. The chart also marks the
// evaluations of planned trials. If there are fewer than two days, effectOverTime returns a chart of the effects in
// sinceStart, or nil if sinceStart has fewer than two.
func effectOverTime(label, name string, days []report.Band, planned []report.PlannedTrial, sinceStart []effectAt) g.Node {
	ends := make([]effectAt, len(days))
	for i, d := range days {
		ends[i] = effectAt{time.Unix(unixDay(d.Date), 0), effect{d.Effect, d.Lo, d.Hi}}
	}
	c := effectChart(label, ends)
	for i := range planned {
		if l := &planned[i]; l.Evaluated {
			c.Marks = append(c.Marks, marker{l.Last.Unix(), "evaluation"})
		}
	}
	if drawn := c.node(name + "; the numbers are in the table below"); drawn != nil {
		return g.Group{drawn, collapsible("The chart as a table", grid(
			ariaLabel("Effect over time"), headingRow(wordColumns("Day, UTC"), numberColumns("Effect, points", "from", "to")),
			g.Map(days, func(b report.Band) g.Node {
				return h.Tr(rowHead(g.Text(b.Date)), numberCells(points(&b.Effect), points(&b.Lo), points(&b.Hi)))
			}),
		))}
	}
	c = effectChart(label, sinceStart)
	c.Local = true
	drawn := c.node(name)
	if drawn == nil {
		return nil
	}
	return g.Group{drawn, mutedText(g.Text("The chart shows the values that the dashboard has shown since the server started. From the second day on, " +
		"it shows one value per day, from the stored counters."))}
}

// meansOverTime returns the daily mean rewards in treated and control sessions, as chart and table.
func meansOverTime(days []report.Day) g.Node {
	if len(days) == 0 {
		return nil
	}
	c := chart{Label: "Mean reward", Unit: "points"}
	treated, control := series{Name: "Treated", Colour: "--good"}, series{Name: "Control", Colour: "--quiet"}
	for _, d := range days {
		c.Days = append(c.Days, unixDay(d.Date))
		treated.Values, control.Values = append(treated.Values, inPoints(d.MeanTreated)), append(control.Values, inPoints(d.MeanControl))
	}
	c.Series = []series{treated, control}
	return g.Group{
		c.node("Mean reward of treated and control sessions by day; the numbers are in the table below"),
		collapsible("Mean rewards by day, as a table", grid(
			ariaLabel("Mean rewards by day"),
			headingRow(wordColumns("Day, UTC"), numberColumns("Treated, points", "sessions", "Control, points", "sessions")),
			g.Map(days, func(d report.Day) g.Node {
				return h.Tr(rowHead(g.Text(d.Date)), numberCells(
					points(d.MeanTreated), countText(d.NTreated), points(d.MeanControl), countText(d.NControl)))
			}),
		)),
	}
}
