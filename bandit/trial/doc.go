// Package trial implements the experiment: the random decisions and the measurements based on them. It does not import
// package bandit, which chooses the lessons.
//
//   - An arm is one lesson text, or one section in a rules file.
//   - A lesson matches when the trigger fires, and is picked when the chooser selects it. A pick is closed or rewarded
//     if the session is.
//   - A coin is a random decision about a unit (a session or a run): control or treated, injected or withheld.
//   - eps is the probability of withholding a pick. A stratum holds the sessions with one eps.
//   - y is a session's reward, a centre is a reward expected before the coin, and z is what a session adds to the
//     effect.
//
// An Assignment is frozen: changing a field, flipping a coin again, or filling a withheld slot raises no error, but
// measures a different quantity. Counters are integers in millionths, so every order of additions gives the same sum.
package trial
