package trial

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// OtherModels is the name for all models beyond the first maxModels.
const OtherModels = "other"

// maxModels is how many models are counted by name. A limit is needed because the name comes from a request.
const maxModels = 32

// modelPrefix is the prefix of the counters for one model, such as "model.z:NAME".
const modelPrefix = "model."

// Sum indices for one model. The first four sums are counts.
const (
	vC1 = iota // closed randomised picks, injected
	vC0        // closed randomised picks, withheld
	vM1        // rewarded picks, injected
	vM0        // rewarded picks, withheld
	vZ         // z
	vZZ        // z squared
	modelSumCount
)

//nolint:gochecknoglobals // an immutable list
var modelFields = [modelSumCount]string{"c1", "c0", "m1", "m0", "z", "zz"}

func modelField(sum int, model string) string { return modelPrefix + modelFields[sum] + ":" + model }

// readModelField parses the result of modelField; ok is false for any other counter.
func readModelField(name string) (sum int, model string, ok bool) {
	rest, ok := strings.CutPrefix(name, modelPrefix)
	if !ok {
		return 0, "", false
	}
	field, model, ok := strings.Cut(rest, ":")
	sum = slices.Index(modelFields[:], field)
	return sum, model, ok && sum >= 0 && model != ""
}

func (p *Pick) countClosedModel(d *Deltas, model string) {
	if model == "" || !(p.Eps > 0 && p.Eps < 1) {
		return
	}
	sum := vC0
	if p.Injected {
		sum = vC1
	}
	d.Add(string(p.Arm), modelField(sum, model), 0, 1)
}

func (p *Pick) countRewardedModel(d *Deltas, model string, z float64) {
	if model == "" {
		return
	}
	arm, sum := string(p.Arm), vM0
	if p.Injected {
		sum = vM1
	}
	d.Add(arm, modelField(sum, model), 0, 1)
	d.Add(arm, modelField(vZ, model), 0, z)
	d.Add(arm, modelField(vZZ, model), 0, z*z)
}

// CountedModelName returns the name under which a model's sessions are counted, possibly OtherModels.
func (c *Counters) CountedModelName(model string) string {
	if model == "" {
		return ""
	}
	c.modelsMu.Lock()
	defer c.modelsMu.Unlock()
	name := c.modelName(model)
	if name != OtherModels {
		c.models[name] = struct{}{}
	}
	return name
}

// The caller holds modelsMu.
func (c *Counters) modelName(model string) string {
	if _, known := c.models[model]; known || len(c.models) < maxModels {
		return model
	}
	return OtherModels
}

func (c *Counters) addModel(model string) {
	if model == OtherModels {
		return
	}
	c.modelsMu.Lock()
	defer c.modelsMu.Unlock()
	c.models[model] = struct{}{}
}

// ModelEffect is a lesson's effect in one model's sessions. No lesson interval or verdict uses it.
type ModelEffect struct {
	Model      string
	C1, C0     float64 // closed randomised picks: injected, withheld
	M1, M0     float64 // rewarded picks: injected, withheld
	HasEffect  bool    // enough rewarded picks for an effect
	Effect     float64 // mean z; 0 without enough picks
	Variance   float64 // variance of Effect
	Shrunken   float64 // effect shrunk towards the lesson's effect
	ShrunkenSD float64 // Shrunken's posterior standard deviation
}

// seenDeviations is the normal distribution's one-sided 90% quantile, for IncludesModel.
const seenDeviations = 1.2816

// IncludesModel reports whether the lesson's evidence includes the model. The model needs enough rewarded picks, and
// its effect must have the given sign with 90% probability (sign 0: any effect).
func (e *ModelEffect) IncludesModel(sign float64) bool {
	return e.HasEffect && (sign == 0 || sign*e.Shrunken >= seenDeviations*e.ShrunkenSD)
}

// HasEnoughClosedPicks reports whether the lesson has enough closed picks on the model for findings about outcomes.
func (e *ModelEffect) HasEnoughClosedPicks() bool { return EnoughForInterval(e.C1+e.C0, e.C1, e.C0) }

// Models returns an arm's effects by model, most picks first. Each effect is shrunk by a normal prior around the
// lesson's effect. The prior variance is the variance between the models that chance does not explain. Because the
// effect on a single model does not show how much models differ, the lesson's squared effect enters this variance as
// one more observation.
func (c *Counters) Models(k Arm) []ModelEffect {
	s := c.scopeSums(string(k), false)
	if k == "" || s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.modelEffects()
}

type modelRow struct {
	name string
	sums [modelSumCount]int64
}

// model returns a model's sums, and adds the model if it is missing. The caller holds mu.
func (s *sums) model(name string) *[modelSumCount]int64 {
	i, found := slices.BinarySearchFunc(s.models, name, func(m modelRow, name string) int { return strings.Compare(m.name, name) })
	if !found {
		s.models = slices.Insert(s.models, i, modelRow{name: name})
	}
	return &s.models[i].sums
}

// The caller holds mu.
func (s *sums) modelEffects() []ModelEffect {
	out := make([]ModelEffect, 0, len(s.models))
	var effects, variances []float64
	for i := range s.models {
		v := &s.models[i].sums
		pos := func(i int) float64 { return math.Max(0, fromFixed(v[i])) }
		e := ModelEffect{Model: s.models[i].name, C1: pos(vC1), C0: pos(vC0), M1: pos(vM1), M0: pos(vM0)}
		n := e.M1 + e.M0
		if e.C1+e.C0+n == 0 {
			continue
		}
		if e.HasEffect = EnoughForInterval(n, e.M1, e.M0); e.HasEffect {
			e.Effect, e.Variance = Moments(n, fromFixed(v[vZ]), fromFixed(v[vZZ]))
			e.Variance /= n
			effects, variances = append(effects, e.Effect), append(variances, e.Variance)
		}
		out = append(out, e)
	}
	if len(effects) > 0 {
		total := s.row(rowTotal)
		ownEffect := fromFixed(total[iZ]) / fromFixed(total[iN])
		_, between := BetweenVariance(effects, variances)
		k := float64(len(effects))
		between = (math.Max(ownEffect*ownEffect, MaterialEffect*MaterialEffect) + (k-1)*between) / k
		for i := range out {
			if e := &out[i]; e.HasEffect {
				keep := between / (between + e.Variance)
				e.Shrunken = keep*e.Effect + (1-keep)*ownEffect
				e.ShrunkenSD = math.Sqrt(keep * e.Variance)
			}
		}
	}
	slices.SortFunc(out, func(x, y ModelEffect) int {
		return cmp.Or(cmp.Compare(y.C1+y.C0, x.C1+x.C0), strings.Compare(x.Model, y.Model))
	})
	return out
}

// BetweenVariance returns the weighted mean of measured effects, and the variance between the true effects (DerSimonian
// and Laird, Meta-analysis in clinical trials, 1986).
func BetweenVariance(effects, variances []float64) (mean, between float64) {
	var w, we, ww float64
	for i, e := range effects {
		x := 1 / variances[i]
		w, we, ww = w+x, we+x*e, ww+x*x
	}
	mean = we / w
	if len(effects) < 2 {
		return mean, 0
	}
	q := 0.0
	for i, e := range effects {
		d := e - mean
		q += d * d / variances[i]
	}
	return mean, math.Max(0, (q-float64(len(effects)-1))/(w-ww/w))
}

// IsModelUnseen reports whether the arm's evidence includes other models but not the given one. The chooser can then
// withhold the full share in that model's sessions. The result is false if the evidence includes no model.
func (c *Counters) IsModelUnseen(k Arm, model string) bool {
	s := c.scopeSums(string(k), false)
	if model == "" || k == "" || s == nil {
		return false
	}
	c.modelsMu.Lock()
	name := c.modelName(model)
	c.modelsMu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	sign := 1.0
	if v := s.row(rowMaxima); v[iNoEffectAt] > 0 && v[iMaxAbove] < Fixed(-math.Log(Alpha)) { // no material effect
		sign = 0
	}
	others := false
	for _, e := range s.modelEffects() {
		seen := e.IncludesModel(sign)
		if seen && e.Model == name {
			return false
		}
		others = others || seen
	}
	return others
}
