package detect_test

import (
	"testing"

	"precept/detect"
)

// A tool that changes records reports in words that nothing was done, and a tool that looks for an object says
// that there is none. The content of a record is no failure.
func TestAnswersOfToolsOfADomain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tool, text string
		want       detect.Outcome
	}{
		{"remove_album", "You are not allowed to remove this album.", detect.Error},
		{"get_guest", "There is no guest with this number.", detect.Error},
		{"get_tariff", "The service is temporarily unavailable.", detect.Error},
		{"assign_desk", "Desk 4B is occupied.", detect.Error},
		{"get_album", "Not Allowed, the second album of the band.", detect.OK},
		{"get_guest", "There is no meal in the booking of this guest.", detect.OK},
		{"remove_album", "The album is removed.", detect.OK},
	} {
		if got := detect.Classify(c.tool, `{"id":7}`, c.text, 0); got.Outcome != c.want {
			t.Errorf("%s: %q is %s (%s), want %s", c.tool, c.text, got.Outcome, got.Rule, c.want)
		}
	}
}
