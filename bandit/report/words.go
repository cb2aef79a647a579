package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"precept/bandit/trial"
)

func weeksText(x float64) string {
	switch {
	case x < 1:
		return "under a week"
	case x < 1.5:
		return "a week"
	case x > 520:
		return "over ten years"
	}
	return fmt.Sprintf("%.0f weeks", x)
}

// Printable replaces each character that is not printable by a space, so that a name cannot control a terminal.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}

// wrap breaks a text at spaces. A word longer than columns gets a separate line.
func wrap(text string, columns int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > columns {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// assumedRate returns the picks per week from which r.Weeks was computed. r.Weeks must not be nil.
func (r *Row) assumedRate() float64 { return float64(r.NeedsPicks) / max(*r.Weeks, 1e-9) }

// Points converts an effect on the reward to points. It limits the result to the range from -100 to 100, because an
// interval from few sessions can exceed every possible effect.
func Points(effect float64) float64 { return 100 * max(-1, min(1, effect)) }

// SignedPoints formats an effect on the reward in points, with the sign.
func SignedPoints(effect float64) string { return signedNumber(Points(effect)) }

// signedNumber formats a number with the sign and one decimal. A number that would round to 0 gets two decimals, to
// show on which side of 0 it lies.
func signedNumber(x float64) string {
	switch size := math.Abs(x); {
	case size < 0.005:
		return "+0.0"
	case size < 0.05:
		return fmt.Sprintf("%+.2f", x)
	}
	return fmt.Sprintf("%+.1f", x)
}

func signedInterval(x, lo, hi float64) string {
	return fmt.Sprintf("%s [%s, %s]", signedNumber(x), signedNumber(lo), signedNumber(hi))
}

func (p *PlannedTrial) text() string {
	s := fmt.Sprintf(
		"trial started on %s: %d of %d picks", p.Began.Format(time.DateOnly), p.Picks(), p.Planned,
	)
	if p.Effect != nil {
		s += ", "
		if p.Outcome != "" {
			s += p.Outcome + " "
		}
		s += p.Interval()
	}
	switch {
	case !p.Evaluated && p.Effect != nil:
		return s + "; preliminary until the last planned pick"
	case !p.Evaluated:
		return s
	case p.Effect == nil:
		return s + ", no result: too few injected or withheld picks"
	}
	return s + ", evaluated once (p " + fmt.Sprintf("%.2g", *p.P) + ")"
}

// Interval returns the effect and the interval in points or in the outcome's unit, or "" before there is an effect.
func (p *PlannedTrial) Interval() string {
	if p.Effect == nil {
		return ""
	}
	scaled := Points
	if o, ok := trial.ParseOutcome(p.Outcome); ok && o.Logarithmic() {
		scaled = func(effect float64) float64 { return effect }
	}
	return signedInterval(scaled(*p.Effect), scaled(*p.Lo), scaled(*p.Hi))
}

// Picks returns the number of picks in the planned trial so far.
func (p *PlannedTrial) Picks() int64 { return min(p.Rewarded, p.Planned) }

// text describes the projection. unclear is as in Row.NeedsUnclear.
func (w *WhatIf) text(unclear bool) string {
	s := fmt.Sprintf("at epsilon %g: interval +-%.1f after as many picks", w.Epsilon, w.HalfWidth*100)
	if w.NeedsPicks > 0 && !unclear {
		s += fmt.Sprintf("; needs about %s more picks", Grouped(roundEstimate(w.NeedsPicks)))
	}
	if w.Needs3Points > 0 {
		s += fmt.Sprintf("; +-3 needs about %s more", Grouped(roundEstimate(w.Needs3Points)))
	}
	return s
}
