package redis

import (
	"context"
	"embed"
	"fmt"

	goredis "github.com/redis/go-redis/v9"

	"precept/session"
)

//go:embed lua/*.lua
var sources embed.FS

// script is one of lua/*.lua, with common.lua in front of it.
type script struct {
	*goredis.Script
	name string
}

// scripts are all of them.
type scripts struct {
	write, settle, feedback, park, join, purge, forget, raise, priors, lock, lessons, aside, jot, reopen, optout script
}

func loadScripts() (s scripts, err error) {
	head, err := sources.ReadFile("lua/common.lua")
	if err != nil {
		return s, err
	}
	for name, to := range map[string]*script{
		"write": &s.write, "settle": &s.settle, "feedback": &s.feedback, "park": &s.park, "join": &s.join,
		"purge": &s.purge, "forget": &s.forget, "raise": &s.raise, "priors": &s.priors, "lock": &s.lock, "lessons": &s.lessons, "aside": &s.aside,
		"jot": &s.jot, "reopen": &s.reopen, "optout": &s.optout,
	} {
		body, err := sources.ReadFile("lua/" + name + ".lua")
		if err != nil {
			return s, err
		}
		*to = script{goredis.NewScript(string(head) + string(body)), name}
	}
	return s, nil
}

// call is one run of a script for one tenant.
type call struct {
	script *script
	base   string
	args   []any
	items  int
	bytes  int
	reply  any
}

// keys are what a script is told to touch: one key of the tenant, which stands for all of them.
func (c *call) keys() []string { return []string{c.base + "t"} }

// The bounds of one run, so that no script holds the server up for more than some milliseconds, and
// of one pipeline.
const (
	callItems = 200
	callBytes = 1 << 20
	pipeCalls = 32
	pipeBytes = 4 << 20
)

// plan collects the runs of one script, cutting them to size. A cut never falls inside of an item.
type plan struct {
	script *script
	calls  []*call
	open   map[string]*call // the newest call of each base
}

func newPlan(s *script) *plan {
	return &plan{script: s, open: map[string]*call{}}
}

// add puts an item into the tenant's newest run, or into a new one, and returns that run.
func (p *plan) add(base string, args ...any) *call {
	size := 0
	for _, a := range args {
		size += len(a.(string)) + 16 //nolint:forcetypeassert // all of ours are
	}
	c := p.open[base]
	if c == nil || c.items >= callItems || c.bytes+size > callBytes && c.bytes > 0 {
		c = &call{script: p.script, base: base}
		p.calls = append(p.calls, c)
		p.open[base] = c
	}
	c.args = append(c.args, args...)
	c.bytes += size
	c.items++
	return c
}

// run runs the calls in pipelines, in order.
func run(ctx context.Context, c goredis.UniversalClient, calls []*call) error {
	for len(calls) > 0 {
		n, bytes := 0, 0
		for n < len(calls) && n < pipeCalls && (n == 0 || bytes+calls[n].bytes <= pipeBytes) {
			bytes += calls[n].bytes
			n++
		}
		missing, err := evalSHA(ctx, c, calls[:n])
		if err != nil {
			return err
		}
		if err := eval(ctx, c, missing); err != nil {
			return err
		}
		calls = calls[n:]
	}
	return nil
}

// evalSHA runs the calls by the names of their scripts, and tells which of them the server did not
// know: a restart or SCRIPT FLUSH makes it forget them all.
func evalSHA(ctx context.Context, c goredis.UniversalClient, calls []*call) (missing []*call, err error) {
	pipe := c.Pipeline()
	cmds := make([]*goredis.Cmd, len(calls))
	for i, k := range calls {
		cmds[i] = k.script.EvalSha(ctx, pipe, k.keys(), k.args...)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for i, k := range calls {
		switch err := cmds[i].Err(); {
		case goredis.HasErrorPrefix(err, "NOSCRIPT"):
			missing = append(missing, k)
		case err != nil:
			return nil, fmt.Errorf("script %s: %w", k.script.name, err)
		default:
			k.reply = cmds[i].Val()
		}
	}
	return missing, nil
}

func eval(ctx context.Context, c goredis.UniversalClient, calls []*call) error {
	for _, k := range calls {
		reply, err := k.script.Eval(ctx, c, k.keys(), k.args...).Result()
		if err != nil {
			return fmt.Errorf("script %s: %w", k.script.name, err)
		}
		k.reply = reply
	}
	return nil
}

// number reads a script's integer.
func (c *call) number() int {
	n, _ := c.reply.(int64)
	return int(n)
}

// numbers reads a script's list of integers.
func (c *call) numbers() []int {
	list, _ := c.reply.([]any)
	out := make([]int, len(list))
	for i := range list {
		n, _ := list[i].(int64)
		out[i] = int(n)
	}
	return out
}

// tally adds up the numbers that each owner's calls answered; a negative one counts what found no
// room.
func (p *plan) tally(of map[*call][]session.ID, sums map[session.ID]int) error {
	var left session.FeedbackFull
	for _, c := range p.calls {
		for i, n := range c.numbers() {
			if n > 0 {
				sums[of[c][i]] += n
			} else {
				left -= session.FeedbackFull(n)
			}
		}
	}
	if left > 0 {
		return left
	}
	return nil
}

// commit runs the calls of a plan, whose tenants are known to everybody before.
func (s *Store) commit(ctx context.Context, op string, p *plan, tenants ...string) error {
	return s.do(ctx, op, func(c goredis.UniversalClient) error {
		if err := s.register(ctx, c, tenants...); err != nil {
			return err
		}
		return run(ctx, c, p.calls)
	})
}
