// Package precept is the module's root and holds no code, only the test of the house rules (floors_test.go): a package imports
// lower floors only, and a third-party library stays in its room.
//
//	5  cmd/precept
//	4  proxy   admin
//	3  store   distill   demo
//	2  inject  report  store/sqlite  store/redis
//	1  detect  session  feedback  ledger
//	0  lesson  wire  bandit  sample  configs
package precept
