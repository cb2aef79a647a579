package redis

import (
	"cmp"
	"context"
	"embed"
	"iter"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var scriptFiles embed.FS

// scriptCall finds a command in a script.
var scriptCall = regexp.MustCompile(`\bcall\('([A-Z]+)'`)

// loadScripts returns the lua/*.lua scripts by name. Each begins with the commands that the Redis user must be allowed
// to call, then the common.lua text. The commands are the same for all scripts, so that one error names all missing
// commands. Only the lessons script has further commands, because a fleet with lessons in directories does not need
// them.
func loadScripts() (map[string]*goredis.Script, error) {
	files, err := scriptFiles.ReadDir("lua")
	if err != nil {
		return nil, err
	}
	texts, all, lessons := map[string]string{}, map[string]bool{}, map[string]bool{}
	for _, f := range files {
		text, err := scriptFiles.ReadFile(path.Join("lua", f.Name()))
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(f.Name(), ".lua")
		texts[name] = string(text)
		commands := all
		if name == "lessons" {
			commands = lessons
		}
		for _, found := range scriptCall.FindAllStringSubmatch(texts[name], -1) {
			commands[strings.ToLower(found[1])] = true
		}
	}
	maps.Copy(lessons, all)
	scripts := map[string]*goredis.Script{}
	for name, text := range texts {
		commands := all
		if name == "lessons" {
			commands = lessons
		}
		list := strings.Join(slices.Sorted(maps.Keys(commands)), "', '")
		scripts[name] = goredis.NewScript("local commands = {'" + list + "'}\n" + texts["common"] + text)
	}
	return scripts, nil
}

// keys returns a script's two keys. The first selects the slot, and the second never exists. While a slot moves between
// two nodes of a Cluster, each node has some of the keys, and refuses scripts that name a missing key. Because of the
// second key, both nodes refuse the script, so no script sees only part of the data.
func (k keyspace) keys() []string { return []string{k.base + "t", k.base + "none"} }

// script runs a script at a location. It sends the script's digest, and the text if the server does not know the
// digest.
func (s *Store) script(ctx context.Context, c client, name string, loc location, args ...any) *goredis.Cmd {
	ks := s.keyspace(loc)
	return s.runScript(ctx, c, name, ks, args...)
}

func (s *Store) runScript(ctx context.Context, c client, name string, ks keyspace, args ...any) *goredis.Cmd {
	return s.scripts[name].Run(ctx, c, ks.keys(), append([]any{ks.tenantArg}, args...)...)
}

// deleteFields deletes fields in a hash, or the whole hash if no field is given. It uses a script, because a migration
// can detect and stop only scripts.
func (s *Store) deleteFields(ctx context.Context, c client, ks keyspace, key string, fields ...string) error {
	return s.runScript(ctx, c, "discard", ks, append([]any{key}, toArgs(fields)...)...).Err()
}

func toArgs(texts []string) []any {
	out := make([]any, len(texts))
	for i, text := range texts {
		out[i] = text
	}
	return out
}

const (
	maxCallItems     = 200     // items per script call, which blocks the server for a few milliseconds
	maxCallBytes     = 1 << 20 // size of these items, unless a single item is larger
	maxPipelineCalls = 32
	maxPipelineBytes = 4 << 20 // size of these calls, unless a single call is larger
)

// plan is a list of items (argument lists) for one script, at any locations. splitCalls groups the items into calls for
// each keyspace.
type plan struct {
	script     string
	shardCount int // 0 means the store's shard count
	items      []planItem
	calls      []*call
}

type planItem struct {
	location location
	args     []any
}

type call struct {
	keyspace    keyspace
	args        []any
	itemIndexes []int // indexes in plan.items
	bytes       int
	reply       *goredis.Cmd
}

func newPlan(script string) *plan { return &plan{script: script} }

func (p *plan) add(loc location, args ...any) { p.items = append(p.items, planItem{loc, args}) }

// splitCalls groups the items into calls, up to the limits for one call.
func (p *plan) splitCalls(s *Store) {
	p.calls = nil
	lastCalls := map[location]*call{}
	n := cmp.Or(p.shardCount, int(s.shards.Load()))
	for i, it := range p.items {
		size := 0
		for _, a := range it.args {
			size += len(a.(string)) + 16 //nolint:forcetypeassert // all arguments are strings
		}
		loc := it.location
		loc.hash = byte(int(loc.hash) % n) //nolint:gosec // below 256
		k := lastCalls[loc]
		if k == nil || len(k.itemIndexes) >= maxCallItems || k.bytes+size > maxCallBytes && k.bytes > 0 {
			k = &call{keyspace: s.resolveKeyspace(n, loc)}
			k.args = append(k.args, k.keyspace.tenantArg)
			p.calls = append(p.calls, k)
			lastCalls[loc] = k
		}
		k.args = append(k.args, it.args...)
		k.itemIndexes = append(k.itemIndexes, i)
		k.bytes += size
	}
}

// results yields the integers that the script returns, each with the item's index, or -1 for integers beyond the items.
func (p *plan) results() iter.Seq2[int, int64] {
	return func(yield func(int, int64) bool) {
		for _, k := range p.calls {
			list, _ := k.reply.Int64Slice()
			for i, n := range list {
				item := -1
				if i < len(k.itemIndexes) {
					item = k.itemIndexes[i]
				}
				if !yield(item, n) {
					return
				}
			}
		}
	}
}

func (s *Store) runPlan(ctx context.Context, c client, p *plan) error {
	p.splitCalls(s)
	for calls := p.calls; len(calls) > 0; {
		n, bytes := 0, 0
		for n < len(calls) && n < maxPipelineCalls && (n == 0 || bytes+calls[n].bytes <= maxPipelineBytes) {
			bytes += calls[n].bytes
			n++
		}
		if err := s.runPipeline(ctx, c, s.scripts[p.script], calls[:n]); err != nil {
			return err
		}
		calls = calls[n:]
	}
	return nil
}

// runPipeline runs calls in one pipeline. If a server does not know the script, runPipeline repeats the refused calls,
// the first one with the script text, until each server in a Cluster has the text.
func (s *Store) runPipeline(ctx context.Context, c client, script *goredis.Script, calls []*call) error {
	for withText := false; len(calls) > 0; withText = true {
		pipe := c.Pipeline()
		for i, k := range calls {
			run := script.EvalSha
			if i == 0 && withText {
				run = script.Eval
			}
			k.reply = run(ctx, pipe, k.keyspace.keys(), k.args...)
		}
		_, _ = pipe.Exec(ctx) // command errors are read below
		var refused []*call
		for _, k := range calls {
			err := k.reply.Err()
			switch {
			case goredis.HasErrorPrefix(err, "NOSCRIPT"):
				refused = append(refused, k)
			case err != nil:
				return err
			}
		}
		calls = refused
	}
	return nil
}

func (s *Store) withTenants(ctx context.Context, op string, tenants []string, fn func(c client) error) error {
	return s.do(ctx, op, func(c client) error {
		if err := s.register(ctx, c, tenants...); err != nil {
			return err
		}
		return fn(c)
	})
}

func (s *Store) writePlan(ctx context.Context, op string, p *plan, tenants ...string) error {
	if len(p.items) == 0 {
		return ctx.Err()
	}
	return s.withTenants(ctx, op, tenants, func(c client) error { return s.runPlan(ctx, c, p) })
}
