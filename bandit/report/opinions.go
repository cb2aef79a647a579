package report

import (
	"fmt"

	"precept/bandit/trial"
)

// Add counts an opinion n times and ignores unknown opinions. A negative n removes opinions. A count stays at least 0,
// because an opinion to remove may never have been stored.
func (o *Opinions) Add(opinion string, n int64) {
	count, ok := map[string]*int64{
		"followed": &o.Followed, "ignored": &o.Ignored, "irrelevant": &o.Irrelevant, "contradicted": &o.Contradicted,
	}[opinion]
	if ok {
		*count = max(0, *count+n)
	}
}

// Merge adds another tenant's opinions.
func (o *Opinions) Merge(other Opinions) {
	o.Followed, o.Ignored = o.Followed+other.Followed, o.Ignored+other.Ignored
	o.Irrelevant, o.Contradicted = o.Irrelevant+other.Irrelevant, o.Contradicted+other.Contradicted
}

// Total returns the number of opinions.
func (o *Opinions) Total() int64 { return o.Followed + o.Ignored + o.Irrelevant + o.Contradicted }

// String formats the counts, marked as opinions.
func (o *Opinions) String() string {
	return fmt.Sprintf("the judge's opinion, not a measurement: followed %d, ignored %d, irrelevant %d, contradicted %d",
		o.Followed, o.Ignored, o.Irrelevant, o.Contradicted)
}

// AddOpinions adds opinions to the rows. The keys of the map are TextKeys.
func (r *Report) AddOpinions(opinions map[string]Opinions) {
	for i := range r.Lessons {
		row := &r.Lessons[i]
		if o, ok := opinions[TextKey(trial.Arm(row.Arm))]; ok && o.Total() > 0 {
			row.Opinions = &o
		}
	}
}
