package admin

import (
	"encoding/json"
	"time"

	"precept/report"
)

// chart is what chart.js draws: values over time, some with a band around them.
type chart struct {
	Label  string   `json:"label"`
	Unit   string   `json:"unit"`
	Days   []int64  `json:"days"`            // Unix seconds
	Local  bool     `json:"local,omitempty"` // moments, in the reader's zone; else days in UTC
	Series []series `json:"series"`
	Marks  []marker `json:"marks,omitempty"`
}

type series struct {
	Name   string     `json:"name"`
	Colour string     `json:"colour"` // a custom property of style.css
	Values []*float64 `json:"values"`
	Lo     []*float64 `json:"lo,omitempty"`
	Hi     []*float64 `json:"hi,omitempty"`
}

// add puts a value with its interval behind those that are there.
func (s *series) add(value, lo, hi float64) {
	s.Values, s.Lo, s.Hi = append(s.Values, inPoints(value)), append(s.Lo, inPoints(lo)), append(s.Hi, inPoints(hi))
}

// marker is a moment worth a line: a planned look.
type marker struct {
	At   int64  `json:"at"`
	Text string `json:"text"`
}

// json is what chart.js reads; "" with fewer than two days, which are no chart.
func (c chart) json() string {
	if len(c.Days) < 2 {
		return ""
	}
	b, err := json.Marshal(c)
	if err != nil { // there is nothing in it that cannot be written
		return ""
	}
	return string(b)
}

func unixDay(date string) int64 {
	at, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return 0
	}
	return at.Unix()
}

// inPoints is a value in points.
func inPoints(x float64) *float64 { return new(x * 100) }

// bandChart is an effect over time with its narrowing band, as it stood at the end of each day.
func bandChart(label string, days []report.Band, looks []report.Look) string {
	effect := series{Name: "Effect", Colour: "--mark"}
	c := chart{Label: label, Unit: "points"}
	for _, d := range days {
		c.Days = append(c.Days, unixDay(d.Date))
		effect.add(d.Effect, d.Lo, d.Hi)
	}
	c.Series = []series{effect}
	for i := range looks {
		if l := &looks[i]; l.Taken {
			c.Marks = append(c.Marks, marker{l.Last.Unix(), "look"})
		}
	}
	return c.json()
}

// looksChart is an effect as pages showed it since the server started.
func looksChart(label string, looks []look) string {
	effect := series{Name: "Effect", Colour: "--mark"}
	c := chart{Label: label, Unit: "points", Local: true}
	for _, l := range looks {
		c.Days = append(c.Days, l.at.Unix())
		effect.add(l.effect, l.lo, l.hi)
	}
	c.Series = []series{effect}
	return c.json()
}

// meansChart is the mean reward of both arms, day by day.
func meansChart(days []report.Day) string {
	c := chart{Label: "Mean reward", Unit: "points", Series: []series{
		{Name: "Treated", Colour: "--good"}, {Name: "Control", Colour: "--quiet"},
	}}
	put := func(s *series, x *float64) {
		if x != nil {
			x = inPoints(*x)
		}
		s.Values = append(s.Values, x)
	}
	for _, d := range days {
		c.Days = append(c.Days, unixDay(d.Date))
		put(&c.Series[0], d.MeanTreated)
		put(&c.Series[1], d.MeanControl)
	}
	return c.json()
}
