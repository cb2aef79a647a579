// Package lake copies a store's samples into a lake: Parquet files partitioned by date and tenant, in a directory or in
// an S3 bucket. Even after a crash, a recent sample id is not written twice. To drain a store means to write all
// samples that the lake does not have yet.
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
	pollInterval = time.Second      // minimum pause between polls
	pollFactor   = 10               // a pause lasts at least 10 times as long as the poll before it
	maxRetryWait = 30 * time.Second // maximum pause after an error
	leaseTTL     = 30 * time.Second // lease duration
	stopTimeout  = 30 * time.Second // maximum time for the last write
)

// Options configure a Follower.
type Options struct {
	Source Source
	// GroupStore stores the group's positions and lease; nil for a single process.
	GroupStore GroupStore
	Group      string // consumer group name
	// Owner identifies the lease's holder. Two processes with the same LockPath may have the same Owner, because only
	// one of them can run at a time.
	Owner   string
	Writer  Process // this process
	Store   string  // store id; "" if unknown
	Storage Storage
	// LockPath is a file to lock, so that no other process on this machine writes to the lake; "" for none.
	LockPath string

	BatchBytes int           // a batch is written at this size
	BatchAge   time.Duration // a batch is written at this age
	Once       bool          // Run returns after the first poll

	Now    func() time.Time
	Sleep  func(ctx context.Context, d time.Duration) error // waits for d, or returns the error of ctx
	Report func(text string)                                // one line for each batch and failure
}

// Follower copies a store's samples into a lake, one process at a time for each group.
type Follower struct {
	options        Options
	state          *state
	version        string // state file version
	writtenIDs     *idWindow
	batch          *batch
	leaseRenewedAt time.Time // when the lease was last renewed
}

// Run copies new samples until ctx ends, and then writes the last batch. If the first poll fails, Run returns the
// error. After a later error, Run retries unless the error is permanent.
func Run(ctx context.Context, o Options) (err error) {
	f := &Follower{options: o, batch: newBatch()}
	if o.LockPath != "" {
		lock, err := lockFile(o.LockPath)
		if errors.Is(err, file.ErrLocked) {
			return fmt.Errorf("another `precept export --follow` is writing to %s; stop the other process, or name another --output and --group", o.Storage)
		}
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, lock.Close()) }()
	}
	if err := f.prepare(ctx); err != nil {
		return err
	}
	defer f.releaseLease(context.WithoutCancel(ctx))
	return f.follow(ctx)
}

func (f *Follower) prepare(ctx context.Context) error {
	if err := f.waitForLease(ctx); err != nil {
		return err
	}
	loaded, version, err := loadState(ctx, f.options.Storage, f.options.Group, f.options.Store)
	if err != nil {
		return err
	}
	if version == "" {
		if err := f.refuseKnownGroup(ctx); err != nil {
			return err
		}
	}
	// This save gives the state file a new version, so every later save by an earlier writer fails.
	f.version, loaded.Writer, loaded.Store = version, f.options.Writer, cmp.Or(f.options.Store, loaded.Store)
	if err := f.saveState(ctx, loaded); err != nil {
		return err
	}
	if f.writtenIDs, err = loadWindow(ctx, f.options.Storage, f.state.Recent); err != nil {
		return err
	}
	if f.state.Planned != nil {
		if err := f.completePlanned(ctx); err != nil {
			return err
		}
	}
	return f.acknowledge(ctx, f.state.Streams)
}

// saveState replaces the state file, unless another process has replaced it. S3 may return an error although the write
// succeeded; the file then has the new content.
func (f *Follower) saveState(ctx context.Context, next *state) error {
	text, err := json.Marshal(next)
	if err != nil {
		return err
	}
	version, err := f.options.Storage.CompareAndSwap(ctx, statePath, f.version, text)
	if errors.Is(err, ErrChanged) {
		var stored []byte
		if stored, version, err = f.options.Storage.Get(ctx, statePath); err == nil && !bytes.Equal(stored, text) {
			err = fmt.Errorf("%s: %w; stop one of the `precept export --follow` processes, or give each a separate --output and --group", f.options.Storage, errStateReplaced)
		}
	}
	if err != nil {
		return err
	}
	f.state, f.version = next, version
	return nil
}

// errStateReplaced reports that another process has replaced the state file.
var errStateReplaced = errors.New("another process is now writing here")

// refuseKnownGroup returns an error if the group has acknowledged samples, because a new lake would lack them.
func (f *Follower) refuseKnownGroup(ctx context.Context) error {
	if f.options.GroupStore == nil {
		return nil
	}
	streams, err := f.options.GroupStore.SampleGroups(ctx, f.options.Group)
	if err != nil || len(streams) == 0 {
		return err
	}
	return fmt.Errorf("the group %q has already exported samples, but %s has no %s; name the earlier --output, or a new --group to export all samples again",
		f.options.Group, f.options.Storage, statePath)
}

// completePlanned writes a planned batch after a crash.
func (f *Follower) completePlanned(ctx context.Context) error {
	if d, ok := f.options.Storage.(directory); ok {
		d.removeTemporary(slices.Concat(f.state.Planned.Files, f.state.Planned.Emptied))
	}
	f.batch.positions = maps.Clone(f.state.Planned.Streams)
	return f.commit(ctx)
}

// rebuildBatch builds the planned batch from the store again, so a sample that was deleted while the batch was waiting
// is not written.
func (f *Follower) rebuildBatch(ctx context.Context) error {
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
			if err := fresh.add(list, f.writtenIDs, f.options.Now()); err != nil {
				return err
			}
			after = last
		}
		fresh.positions[stream] = until
	}
	fresh.firstAdded = f.batch.firstAdded
	f.batch = fresh
	return nil
}

// follow polls until ctx ends or an error is permanent.
func (f *Follower) follow(ctx context.Context) error {
	pause, failed := pollInterval, false
	for first := true; ; first = false {
		started := f.options.Now()
		err := f.poll(ctx)
		switch {
		case ctx.Err() != nil:
			return f.stop(ctx)
		case err != nil && (first || f.options.Once || isPermanent(err)):
			return err
		case err != nil:
			f.options.Report(fmt.Sprintf("%v; trying again in %v", err, pause))
			failed = true
		case f.options.Once:
			return nil
		default:
			if failed {
				f.options.Report("the export works again")
			}
			pause, failed = max(pollInterval, pollFactor*f.options.Now().Sub(started)), false
		}
		if f.options.Sleep(ctx, pause) != nil {
			return f.stop(ctx)
		}
		if failed {
			pause = min(2*pause, maxRetryWait)
		}
	}
}

func isPermanent(err error) bool {
	var permanent *permanentError
	return errors.Is(err, errLeaseLost) || errors.Is(err, errStateReplaced) || errors.As(err, &permanent)
}

// poll reads new samples, and writes a large or old batch.
func (f *Follower) poll(ctx context.Context) error {
	if err := f.holdLease(ctx); err != nil {
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
			if f.batch.bytes >= f.options.BatchBytes {
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
			if err := f.batch.add(list, f.writtenIDs, f.options.Now()); err != nil {
				return err
			}
			after = last
			f.batch.positions[stream] = last
		}
	}
	due := f.options.Once || f.batch.bytes >= f.options.BatchBytes || f.options.Now().Sub(f.batch.firstAdded) >= f.options.BatchAge
	if len(f.batch.positions) == 0 || !due {
		return nil
	}
	return f.commit(ctx)
}

// stop writes the last batch.
func (f *Follower) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if len(f.batch.positions) == 0 {
		return nil
	}
	return f.commit(ctx)
}

// commit writes the plan, the Parquet files, the state after the batch, and the group's positions. After an error, the
// caller can call commit again.
//
// A paused process may write a file after another process has taken over. A file name therefore contains a hash of the
// rows, so two processes write the same rows under one name. If a sample was deleted, the batch has a new file, and a
// file without rows replaces the old file.
func (f *Follower) commit(ctx context.Context) error {
	if err := f.holdLease(ctx); err != nil {
		return err
	}
	if err := f.rebuildBatch(ctx); err != nil {
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
	if err := f.saveState(ctx, &planned); err != nil {
		return err
	}
	for _, name := range next.Emptied {
		data, err := newBatch().encode(name)
		if err != nil {
			return err
		}
		if err := f.options.Storage.Put(ctx, name, data); err != nil {
			return err
		}
	}
	var recent []recentFile
	for _, name := range files {
		if err := f.holdLease(ctx); err != nil {
			return err
		}
		data, err := f.batch.encode(name)
		if err != nil {
			return err
		}
		if _, err := f.options.Storage.CompareAndSwap(ctx, name, "", data); err != nil && !errors.Is(err, ErrChanged) { // ErrChanged: an earlier attempt wrote the same rows
			return err
		}
		recent = append(recent, recentFile{name, len(f.batch.fileRows(name))})
	}
	if err := f.saveState(ctx, f.state.afterBatch(recent)); err != nil {
		return err
	}
	b := f.batch
	f.batch = newBatch()
	for k := range b.ids {
		f.writtenIDs.add(k)
	}
	if b.rows > 0 {
		f.options.Report(fmt.Sprintf("batch %d written: samples: %d, files: %d", number, b.rows, len(files)))
	}
	return f.acknowledge(ctx, b.positions)
}

// acknowledge stores the group's positions, for the other processes that share the store.
func (f *Follower) acknowledge(ctx context.Context, positions map[string]string) error {
	if f.options.GroupStore == nil || len(positions) == 0 {
		return nil
	}
	return f.options.GroupStore.AckSamples(ctx, f.options.Group, positions)
}

// errLeaseLost reports that another process has the lease.
var errLeaseLost = errors.New("another process is exporting the group")

func (f *Follower) leaseName() string { return "export:" + f.options.Group }

// holdLease acquires the group's lease, or renews a lease that is older than a quarter of leaseTTL.
func (f *Follower) holdLease(ctx context.Context) error {
	now := f.options.Now()
	if f.options.GroupStore == nil || now.Sub(f.leaseRenewedAt) < leaseTTL/4 {
		return nil
	}
	ok, err := f.options.GroupStore.AcquireLease(ctx, f.leaseName(), f.options.Owner, now, leaseTTL)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%w %q; stop the other `precept export --follow`, or name another --group and --output", errLeaseLost, f.options.Group)
	}
	f.leaseRenewedAt = now
	return nil
}

// waitForLease waits for another process's lease to expire, because that process may have been killed.
func (f *Follower) waitForLease(ctx context.Context) error {
	deadline := f.options.Now().Add(leaseTTL + pollInterval)
	for first := true; ; first = false {
		err := f.holdLease(ctx)
		if !errors.Is(err, errLeaseLost) || f.options.Now().After(deadline) {
			return err
		}
		if first {
			f.options.Report(fmt.Sprintf("another process is exporting the group %q; waiting up to %v for it to stop", f.options.Group, leaseTTL))
		}
		if err := f.options.Sleep(ctx, pollInterval); err != nil {
			return err
		}
	}
}

// releaseLease lets another process start without waiting for leaseTTL.
func (f *Follower) releaseLease(ctx context.Context) {
	if f.options.GroupStore != nil {
		_ = f.options.GroupStore.ReleaseLease(ctx, f.leaseName(), f.options.Owner) // after an error, the lease expires
	}
}
