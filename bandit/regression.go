package bandit

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"precept/bandit/trial"
)

// Regression predicts a session's reward without a lesson from facts that are known before any random decision. The
// prediction is relative to the tenant's running mean. A better prediction makes an effect's interval narrower. One
// replica fits the regression to the closed sessions and publishes it with the priors.
type Regression struct {
	Sessions float64                       `json:"sessions"` // rewarded sessions in the fit
	Offset   float64                       `json:"offset"`   // prediction for a session without a known fact
	Effects  map[string]map[string]float64 `json:"effects"`  // by fact and value, in reward units
}

const (
	factAgent = iota
	factModel
	factLength
	factCategory
	factTools
	factHour
	factCount
)

var factNames = [factCount]string{"agent", "model", "length", "category", "tools", "hour"} //nolint:gochecknoglobals // an immutable list

// maxValues is how many values of each fact get an effect, the most frequent first. A limit is needed because agents
// and models are free text.
var maxValues = [factCount]int{16, 16, 8, 32, 8, 8} //nolint:gochecknoglobals // an immutable list

// cellScope returns the scope that counts all sessions with the same facts. A session without a known start has only a
// category.
func cellScope(a *trial.Assignment) string {
	scope := categoryScope(a.Category)
	if a.StartUnix == 0 {
		return scope
	}
	return scope + "|" + toolsBand(a.Tools) + "|" + strconv.FormatInt(a.StartUnix%86_400/bandSeconds, 10)
}

// bandSeconds is the length of a time band. Bands divide the UTC day.
const bandSeconds = 3 * 3600

// toolsBand returns a digit for the size of a session's tool list.
func toolsBand(n int) string {
	for band, limit := range []int{0, 4, 12, 30} {
		if n <= limit {
			return strconv.Itoa(band)
		}
	}
	return "4"
}

// cellCategory removes the bands for tools and hour (one digit each) from the end of a cellScope. No category ends with
// a digit, because a category's last part is the length class.
func cellCategory(cell string) string {
	const bands = len("|2|5")
	end := len(cell) - bands
	if end <= len(categoryPrefix) || cell[end] != '|' || cell[end+2] != '|' || !isDigit(cell[end+1]) || !isDigit(cell[end+3]) {
		return cell
	}
	return cell[:end]
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

func parseFacts(cell string) (f [factCount]string) {
	category := cellCategory(cell)
	f[factCategory] = strings.TrimPrefix(category, categoryPrefix)
	f[factAgent], f[factModel], f[factLength] = trial.CategoryParts(f[factCategory])
	if rest, ok := strings.CutPrefix(cell, category+"|"); ok {
		f[factTools], f[factHour], _ = strings.Cut(rest, "|")
	}
	return f
}

// Expected returns a session's expected reward without a lesson; ok is false if no regression is published.
func (c *Chooser) Expected(a *trial.Assignment) (y float64, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	r, n := c.priors.Regression, fromFixed(c.tenantBaseline.closed[iCN]+c.tenantBaseline.provisional[iCN])
	if r == nil || !(n > 0) {
		return 0, false
	}
	counted := *a
	counted.Category = c.withCountedAgent(a.Category)
	return fromFixed(c.tenantBaseline.closed[iCS]+c.tenantBaseline.provisional[iCS])/n + r.relativeReward(parseFacts(cellScope(&counted))), true
}

// relativeReward returns the expected reward minus the tenant's mean.
func (r *Regression) relativeReward(facts [factCount]string) float64 {
	y := r.Offset
	for f, value := range facts {
		y += r.Effects[factNames[f]][value]
	}
	return y
}

func (r *Regression) isUsable() bool {
	if r == nil {
		return false
	}
	ok := func(x float64) bool { return math.Abs(x) <= 1 }
	for _, values := range r.Effects {
		for _, x := range values {
			if !ok(x) {
				return false
			}
		}
	}
	return ok(r.Offset)
}

type cell struct {
	facts  [factCount]string
	n, sum float64 // number of sessions, and sum of rewards minus the predicted lesson effects
}

// sortedCells returns the cells in a fixed order, so that every replica adds in the same order. Because requests need
// the lock, sortedCells holds it only while it copies the sums.
func (c *Chooser) sortedCells() []cell {
	c.mu.RLock()
	sums := make(map[string][baselineFieldCount]int64, len(c.cells))
	for scope, v := range c.cells {
		sums[scope] = *v
	}
	c.mu.RUnlock()
	out := make([]cell, 0, len(sums))
	for _, scope := range slices.Sorted(maps.Keys(sums)) {
		v := sums[scope]
		if n := fromFixed(v[iCN]); n > 0 {
			out = append(out, cell{parseFacts(scope), n, fromFixed(v[iCS])})
		}
	}
	return out
}

const (
	fitSteps            = 10
	startEffectVariance = 0.05 * 0.05 // variance of a fact's effects in the first step
	minEffectVariance   = 1e-5        // minimum variance in later steps
)

// fitRegression fits a ridge regression. Each fact's effects are normal around 0, with a variance estimated from the
// data, so a fact without information gets effects near 0. The result is nil if there are fewer than RefitEvery
// sessions, or if the matrix is singular.
func fitRegression(cells []cell, sigma2 float64) *Regression {
	var n, sum float64
	for i := range cells {
		n, sum = n+cells[i].n, sum+cells[i].sum
	}
	if n < RefitEvery {
		return nil
	}
	mean := sum / n
	columns, column := frequentColumns(cells)
	k := len(columns) + 1 // the first column is the offset
	gram, moment := normalEquations(cells, column, mean, sigma2)
	effects, variances := make([]float64, k), [factCount]float64{}
	for f := range variances {
		variances[f] = startEffectVariance
	}
	for range fitSteps {
		a := slices.Clone(gram)
		a[0] += 1 / startMatchVariance
		for i, key := range columns {
			a[(i+1)*k+i+1] += 1 / variances[key.fact]
		}
		if !invert(a, k) {
			return nil
		}
		for p := range effects {
			effects[p] = 0
			for q := range moment {
				effects[p] += a[p*k+q] * moment[q]
			}
		}
		var values, squares [factCount]float64
		for i, key := range columns {
			values[key.fact]++
			squares[key.fact] += effects[i+1]*effects[i+1] + a[(i+1)*k+i+1]
		}
		for f := range variances {
			variances[f] = math.Max(minEffectVariance, (squares[f]+startEffectVariance)/(values[f]+1))
		}
	}
	r := &Regression{Sessions: n, Offset: trial.Round(effects[0]), Effects: map[string]map[string]float64{}}
	for i, key := range columns {
		name := factNames[key.fact]
		if r.Effects[name] == nil {
			r.Effects[name] = map[string]float64{}
		}
		r.Effects[name][key.value] = trial.Round(effects[i+1])
	}
	return r
}

// normalEquations returns X'X/sigma2 and X'r/sigma2. X has a row for each session, with 1 for the offset and for each
// column with one of the session's facts. r is the reward minus the mean, and sigma2 the reward variance.
func normalEquations(cells []cell, column map[columnKey]int, mean, sigma2 float64) (gram, moment []float64) {
	k := len(column) + 1
	gram, moment = make([]float64, k*k), make([]float64, k)
	for i := range cells {
		x := []int{0}
		for f, value := range cells[i].facts {
			if pos, ok := column[columnKey{f, value}]; ok {
				x = append(x, pos)
			}
		}
		for _, p := range x {
			moment[p] += (cells[i].sum - cells[i].n*mean) / sigma2
			for _, q := range x {
				gram[p*k+q] += cells[i].n / sigma2
			}
		}
	}
	return gram, moment
}

type columnKey struct {
	fact  int
	value string
}

// frequentColumns returns a column for each frequent value of each fact that has two or more values. The order is
// fixed. The numbers start at 1, because 0 is the offset.
func frequentColumns(cells []cell) (columns []columnKey, number map[columnKey]int) {
	count := map[columnKey]float64{}
	for i := range cells {
		for f, value := range cells[i].facts {
			if value != "" {
				count[columnKey{f, value}] += cells[i].n
			}
		}
	}
	keys := slices.SortedFunc(maps.Keys(count), func(x, y columnKey) int {
		return cmp.Or(cmp.Compare(x.fact, y.fact), cmp.Compare(count[y], count[x]), cmp.Compare(x.value, y.value))
	})
	var values, used [factCount]int
	for _, key := range keys {
		values[key.fact]++
	}
	number = map[columnKey]int{}
	for _, key := range keys {
		if values[key.fact] > 1 && used[key.fact] < maxValues[key.fact] {
			used[key.fact]++
			columns = append(columns, key)
			number[key] = len(columns)
		}
	}
	return columns, number
}

// invert inverts a symmetric positive definite k by k matrix (Gauss and Jordan, which needs no pivot for such a
// matrix). It reports whether the matrix was positive definite.
func invert(a []float64, k int) bool {
	for p := range k {
		d := a[p*k+p]
		if !(d > 1e-9) {
			return false
		}
		for j := range k {
			a[p*k+j] /= d
		}
		a[p*k+p] = 1 / d
		for i := range k {
			f := a[i*k+p]
			if i == p || f == 0 {
				continue
			}
			for j := range k {
				if j != p {
					a[i*k+j] -= f * a[p*k+j]
				}
			}
			a[i*k+p] = -f / d
		}
	}
	return true
}
