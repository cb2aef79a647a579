// Package lake writes the samples of a store into a lake: Parquet files that are partitioned by date and
// tenant, in a directory or in a bucket of S3. A sample id is written once, even after a crash of the
// process at any point. To drain a store is to write all samples that the lake does not have.
package lake

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"precept/internal/file"
)

const (
	pollEvery    = time.Second      // minimum pause between two polls
	pollFactor   = 10               // the pause between two polls is at least this multiple of a poll's time
	maxRetryWait = 30 * time.Second // maximum pause after an error
	claimLife    = 30 * time.Second // duration of the lease of a group
	stopLimit    = 30 * time.Second // maximum time to write the last batch
)

// Options configure a Follower.
type Options struct {
	Source   Source
	Shared   Group   // positions and lease of the group in a store that processes share; nil means the store is not shared
	Group    string  // name of the consumer group
	Owner    string  // name of the process; processes that exclude each other by LockPath may share a name
	Writer   Process // this process
	Store    string  // id of the store; "" means not known
	Place    Place
	LockPath string // file whose lock prevents a second process on this machine from writing; "" means no lock

	Bytes int           // size in bytes at which a batch is written
	Age   time.Duration // age at which a batch is written
	Once  bool          // Run ends when the present samples are written

	Now    func() time.Time
	Pause  func(ctx context.Context, d time.Duration) error
	Report func(text string) // receives a line about each batch and each failure
}

// Follower drains the samples of a store. One process at a time drains a group.
type Follower struct {
	options   Options
	state     *state
	version   string  // version of the file with the state
	written   *window // ids of the newest written samples
	batch     *batch
	claimedAt time.Time
}

// Run writes the samples of the store into the place until the context ends, then writes the last batch. Run
// tries again after an error of the store or of the place; an error of the first poll ends Run.
func Run(ctx context.Context, o Options) (err error) {
	f := &Follower{options: o, batch: newBatch()}
	if o.LockPath != "" {
		lock, err := lockFile(o.LockPath)
		if errors.Is(err, file.ErrHeld) {
			return fmt.Errorf("another precept export --follow writes %s; stop the other process, or name another --output and --group", o.Place)
		}
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, lock.Close()) }()
	}
	if err := f.prepare(ctx); err != nil {
		return err
	}
	defer f.releaseClaim(context.WithoutCancel(ctx))
	return f.follow(ctx)
}

// prepare reads the progress of the lake, and completes a batch that a crash interrupted.
func (f *Follower) prepare(ctx context.Context) error {
	if err := f.waitForClaim(ctx); err != nil {
		return err
	}
	found, version, err := loadState(ctx, f.options.Place, f.options.Group, f.options.Store)
	if err != nil {
		return err
	}
	if version == "" {
		if err := f.refuseKnownGroup(ctx); err != nil {
			return err
		}
	}
	// From here on each save of an earlier writer fails.
	f.version, found.Writer, found.Store = version, f.options.Writer, cmp.Or(f.options.Store, found.Store)
	if err := f.save(ctx, found); err != nil {
		return err
	}
	if f.written, err = loadWindow(ctx, f.options.Place, f.state.Recent); err != nil {
		return err
	}
	if f.state.Planned != nil {
		if err := f.completePlanned(ctx); err != nil {
			return err
		}
	}
	return f.acknowledge(ctx, f.state.Streams)
}

// save replaces the file of the state, if no other process has replaced the file since. A request to S3 may return an
// error although the request took effect. The file then has the new state already.
func (f *Follower) save(ctx context.Context, next *state) error {
	text, err := json.Marshal(next)
	if err != nil {
		return err
	}
	version, err := f.options.Place.Swap(ctx, statePath, f.version, text)
	if errors.Is(err, ErrChanged) {
		var stored []byte
		if stored, version, err = f.options.Place.Get(ctx, statePath); err == nil && !bytes.Equal(stored, text) {
			err = fmt.Errorf("%w of %s; stop one of the two precept export --follow, or give each its own --output and --group", errFenced, f.options.Place)
		}
	}
	if err != nil {
		return err
	}
	f.state, f.version = next, version
	return nil
}

// errFenced reports that another process has replaced the state since this process read the state.
var errFenced = errors.New("another process has taken over the writing")

// refuseKnownGroup returns an error if the group has acknowledged samples, because a new lake would lack
// these samples.
func (f *Follower) refuseKnownGroup(ctx context.Context) error {
	if f.options.Shared == nil {
		return nil
	}
	streams, err := f.options.Shared.SampleGroups(ctx, f.options.Group)
	if err != nil || len(streams) == 0 {
		return err
	}
	return fmt.Errorf("the group %q has acknowledged samples, and %s has no %s; name the earlier --output, or a new --group to write all samples",
		f.options.Group, f.options.Place, statePath)
}

// completePlanned writes the planned batch that a crash interrupted.
func (f *Follower) completePlanned(ctx context.Context) error {
	if d, ok := f.options.Place.(directory); ok {
		d.removeDrafts(slices.Concat(f.state.Planned.Files, f.state.Planned.Emptied))
	}
	f.batch.positions = maps.Clone(f.state.Planned.Streams)
	return f.commit(ctx)
}

// reread reads the samples of the batch again, so that a sample that was deleted while the batch waited is not
// written.
func (f *Follower) reread(ctx context.Context) error {
	fresh := newBatch()
	for _, stream := range slices.Sorted(maps.Keys(f.batch.positions)) {
		until, after := f.batch.positions[stream], f.state.Streams[stream]
		for {
			list, last, err := f.options.Source.SamplesAfter(ctx, stream, after, until)
			if err != nil {
				return err
			}
			if last == after {
				break
			}
			if err := fresh.add(list, f.written, f.options.Now()); err != nil {
				return err
			}
			after = last
		}
		fresh.positions[stream] = until
	}
	fresh.since = f.batch.since
	f.batch = fresh
	return nil
}

// follow polls until the context ends, with pauses that grow after errors.
func (f *Follower) follow(ctx context.Context) error {
	wait, failed := pollEvery, false
	for first := true; ; first = false {
		started := f.options.Now()
		err := f.poll(ctx)
		switch {
		case ctx.Err() != nil:
			return f.stop(ctx)
		case err != nil && (first || f.options.Once || isFinal(err)):
			return err
		case err != nil:
			f.options.Report(fmt.Sprintf("%v; trying again in %v", err, wait))
			failed = true
		case f.options.Once:
			return nil
		default:
			if failed {
				f.options.Report("the export continues")
			}
			wait, failed = max(pollEvery, pollFactor*f.options.Now().Sub(started)), false
		}
		if f.options.Pause(ctx, wait) != nil {
			return f.stop(ctx)
		}
		if failed {
			wait = min(2*wait, maxRetryWait)
		}
	}
}

// isFinal reports whether a further attempt cannot succeed.
func isFinal(err error) bool {
	var refused *refusal
	return errors.Is(err, errClaimLost) || errors.Is(err, errFenced) || errors.As(err, &refused)
}

// poll reads all new samples, and writes the batch each time that it is large or old enough.
func (f *Follower) poll(ctx context.Context) error {
	if err := f.claim(ctx); err != nil {
		return err
	}
	streams, err := f.options.Source.SampleStreams(ctx)
	if err != nil {
		return err
	}
	for _, stream := range slices.Sorted(maps.Keys(streams)) {
		after, ok := f.batch.positions[stream]
		if !ok {
			after = f.state.Streams[stream]
		}
		for after != streams[stream] {
			if f.batch.bytes >= f.options.Bytes {
				if err := f.commit(ctx); err != nil {
					return err
				}
			}
			list, last, err := f.options.Source.SamplesAfter(ctx, stream, after, "")
			if err != nil {
				return err
			}
			if last == after {
				break
			}
			if err := f.batch.add(list, f.written, f.options.Now()); err != nil {
				return err
			}
			after = last
			f.batch.positions[stream] = last
		}
	}
	due := f.options.Once || f.batch.bytes >= f.options.Bytes || f.options.Now().Sub(f.batch.since) >= f.options.Age
	if len(f.batch.positions) == 0 || !due {
		return nil
	}
	return f.commit(ctx)
}

// stop writes the last batch.
func (f *Follower) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	if len(f.batch.positions) == 0 {
		return nil
	}
	return f.commit(ctx)
}

// commit writes the batch, without the samples that were deleted meanwhile. commit writes the plan, the files, the
// progress, and then the positions of the group. After an error, commit may be called again.
//
// A process that was paused may write a file after its successor has started. Therefore the name of a file contains a
// hash of the rows, and a file with rows is never replaced by other rows. A planned file that the batch no longer has
// becomes a file without rows.
func (f *Follower) commit(ctx context.Context) error {
	if err := f.claim(ctx); err != nil {
		return err
	}
	if err := f.reread(ctx); err != nil {
		return err
	}
	number := f.state.Batch + 1
	next := plan{Streams: f.batch.positions}
	if old := f.state.Planned; old != nil {
		next.Attempt, next.Emptied = old.Attempt, old.Emptied
		if files, err := f.batch.files(number, old.Attempt); err != nil {
			return err
		} else if !slices.Equal(files, old.Files) {
			next.Attempt, next.Emptied = old.Attempt+1, slices.Concat(old.Emptied, old.Files)
		}
	}
	files, err := f.batch.files(number, next.Attempt)
	if err != nil {
		return err
	}
	next.Files = files
	planned := *f.state
	planned.Planned = &next
	if err := f.save(ctx, &planned); err != nil {
		return err
	}
	for _, name := range next.Emptied {
		data, err := newBatch().encode(name)
		if err != nil {
			return err
		}
		if err := f.options.Place.Put(ctx, name, data); err != nil {
			return err
		}
	}
	var recent []recentFile
	for _, name := range files {
		if err := f.claim(ctx); err != nil {
			return err
		}
		data, err := f.batch.encode(name)
		if err != nil {
			return err
		}
		if _, err := f.options.Place.Swap(ctx, name, "", data); err != nil && !errors.Is(err, ErrChanged) { // ErrChanged: an earlier attempt wrote the rows
			return err
		}
		recent = append(recent, recentFile{name, len(f.batch.rowsOf(name))})
	}
	if err := f.save(ctx, f.state.complete(recent)); err != nil {
		return err
	}
	b := f.batch
	f.batch = newBatch()
	for k := range b.ids {
		f.written.add(k)
	}
	if b.rows > 0 {
		f.options.Report(fmt.Sprintf("batch %d: %d samples in %d files", number, b.rows, len(files)))
	}
	return f.acknowledge(ctx, b.positions)
}

// acknowledge moves the group's positions in a shared store.
func (f *Follower) acknowledge(ctx context.Context, positions map[string]string) error {
	if f.options.Shared == nil || len(positions) == 0 {
		return nil
	}
	return f.options.Shared.AckSamples(ctx, f.options.Group, positions)
}

// errClaimLost is the error of a group that another process drains.
var errClaimLost = errors.New("another process drains the group")

func (f *Follower) claimName() string { return "export:" + f.options.Group }

// claim acquires or renews the lease of the group.
func (f *Follower) claim(ctx context.Context) error {
	now := f.options.Now()
	if f.options.Shared == nil || now.Sub(f.claimedAt) < claimLife/4 {
		return nil
	}
	ok, err := f.options.Shared.Claim(ctx, f.claimName(), f.options.Owner, now, claimLife)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%w %q; stop the other precept export --follow, or name another --group and --output", errClaimLost, f.options.Group)
	}
	f.claimedAt = now
	return nil
}

// waitForClaim acquires the lease of the group. A process on another machine that was killed keeps the
// lease for at most claimLife.
func (f *Follower) waitForClaim(ctx context.Context) error {
	end := f.options.Now().Add(claimLife + pollEvery)
	for first := true; ; first = false {
		err := f.claim(ctx)
		if !errors.Is(err, errClaimLost) || f.options.Now().After(end) {
			return err
		}
		if first {
			f.options.Report(fmt.Sprintf("the group %q is in use; waiting up to %v for its end", f.options.Group, claimLife))
		}
		if err := f.options.Pause(ctx, pollEvery); err != nil {
			return err
		}
	}
}

// releaseClaim ends the lease, so that the next process starts at once.
func (f *Follower) releaseClaim(ctx context.Context) {
	if f.options.Shared != nil {
		_ = f.options.Shared.ReleaseClaim(ctx, f.claimName(), f.options.Owner) // the lease ends after claimLife
	}
}
