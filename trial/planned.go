package trial

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// trialMark begins the scope of a trial: no arm and no category does.
const trialMark = "t:"

// LookScope is where the entries of a trial are kept.
func LookScope(k Arm, trial string) string { return trialMark + string(k) + "#" + trial }

// Name names a planned trial by its beginning and by how many told picks it is to have: the
// same lesson may go through several. It is "" for a trial that is not planned (no picks).
func Name(started time.Time, picks int64) string {
	if picks <= 0 {
		return ""
	}
	return strconv.FormatInt(max(started.Unix(), 0), 10) + "." + strconv.FormatInt(picks, 10)
}

// Planned reads the number of picks out of a trial's name; 0 for what is no name.
func Planned(name string) int64 {
	_, text, _ := strings.Cut(name, ".")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// tieDigits is how much of a session's id an entry keeps: enough to order the sessions of one
// second, too little to name one.
const tieDigits = 8

// Looked is what a session adds once, when it closes told, to the planned trials that its picks
// belong to. Value holds z and how the coin fell; it is never 0.
func (a *Assignment) Looked(session string, y float64) []Delta {
	if a.Excluded || math.IsNaN(y) {
		return nil
	}
	var d []Delta
	for i := range a.Picks {
		p := &a.Picks[i]
		if p.Trial == "" {
			continue
		}
		z, ok := ipw(clip(y, 0, 1)-p.C, p.Injected, p.Eps)
		if !ok {
			continue
		}
		v := 4*Fixed(z) + 2
		if p.Injected {
			v++
		}
		field := fmt.Sprintf("%d.%s", a.At, session[:min(len(session), tieDigits)])
		d = append(d, Delta{Key{Scope: LookScope(p.Arm, p.Trial), Field: field, Day: a.Day}, v})
	}
	return d
}
