// Package precept is the module's root and holds no code, only the test of the house rules
// (floors_test.go): a package imports lower floors only, and a third-party library stays in its
// room.
//
//	6  cmd/precept
//	5  proxy   admin
//	4  store   distill   demo
//	3  backtest  inject  report  store/sqlite  store/redis
//	2  bank  detect  session  feedback  ledger
//	1  sample  writ
//	0  lesson  wire  redact  bandit  configs  file
package precept
