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

// marker is a moment worth a line: a planned look.
type marker struct {
	At   int64  `json:"at"`
	Text string `json:"text"`
}

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

// bandChart is the effect over time with its narrowing band.
func bandChart(r *report.Row) string {
	c := chart{Label: "Effect over time", Unit: "points", Series: []series{{Name: "Effect", Colour: "--mark"}}}
	one := &c.Series[0]
	for _, d := range r.Days {
		c.Days = append(c.Days, unixDay(d.Date))
		one.Values, one.Lo, one.Hi = append(one.Values, inPoints(d.Effect)), append(one.Lo, inPoints(d.Lo)), append(one.Hi, inPoints(d.Hi))
	}
	for i := range r.Looks {
		if l := &r.Looks[i]; l.Taken {
			c.Marks = append(c.Marks, marker{l.Last.Unix(), "look"})
		}
	}
	return c.json()
}

// effectsChart is the effect of all lessons together as it stood at the end of each day.
func effectsChart(days []report.Band) string {
	c := chart{Label: "All lessons together", Unit: "points", Series: []series{{Name: "Effect", Colour: "--mark"}}}
	one := &c.Series[0]
	for _, d := range days {
		c.Days = append(c.Days, unixDay(d.Date))
		one.Values, one.Lo, one.Hi = append(one.Values, inPoints(d.Effect)), append(one.Lo, inPoints(d.Lo)), append(one.Hi, inPoints(d.Hi))
	}
	return c.json()
}

// looksChart is an effect as pages showed it since the server started.
func looksChart(label string, looks []look) string {
	c := chart{Label: label, Unit: "points", Local: true, Series: []series{{Name: "Effect", Colour: "--mark"}}}
	one := &c.Series[0]
	for _, l := range looks {
		c.Days = append(c.Days, l.at.Unix())
		one.Values, one.Lo, one.Hi = append(one.Values, inPoints(l.effect)), append(one.Lo, inPoints(l.lo)), append(one.Hi, inPoints(l.hi))
	}
	return c.json()
}

// meansChart is the mean reward of both arms, day by day.
func meansChart(days []report.Day) string {
	c := chart{Label: "Mean reward", Unit: "points", Series: []series{{Name: "Treated", Colour: "--good"}, {Name: "Control", Colour: "--quiet"}}}
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
