package detect

// Outcome is what became of a tool call.
type Outcome string

// The outcomes.
const (
	OK      Outcome = "ok"
	Error   Outcome = "error"
	Pending Outcome = "pending" // goes on in the background: neither success nor failure
	Refusal Outcome = "refusal" // somebody or something did not allow the call: no failure of the call
)

// Judgement is the judgement on one tool result, with the rule that made it.
type Judgement struct {
	Outcome Outcome
	Rule    string  // which rule spoke; "" when nothing did and the result passes for a success
	By      Refuser // of a refusal
	Code    int     // exit code or HTTP status, where the rule read one
	Sure    bool    // of a success: the result says so itself
}

// Refuser says who refused a call.
type Refuser string

// The refusers. Only a person's refusal is feedback.
const (
	NoRefuser Refuser = ""
	Person    Refuser = "person"   // somebody at the keyboard said no, or interrupted
	Policy    Refuser = "policy"   // a rule that was set before
	Headless  Refuser = "headless" // nobody there to ask
)
