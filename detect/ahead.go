package detect

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"precept/internal/wire"
)

// These limits keep the memory for queued lines below that of one long transcript.
const (
	maxInspectors     = 8
	maxConcurrentLine = 1 << 20 // bytes; the goroutine that calls add inspects longer lines itself
)

// inspectors is a pool of goroutines that inspect the transcripts in JSON lines, because one core inspects only 40 MB
// per second. The findings are emitted in line order.
//
// The goroutine that reads the input calls add, drain and close. The goroutine that runs deliver calls emit and
// reportError.
type inspectors struct {
	emit        func(Finding) error
	reportError func(start int, raw []byte, rec wire.Recording, err error)
	judge       func(*inspectedLine) // reads and judges a line's transcript

	work, ordered chan *inspectedLine // add sends each line to both channels; deliver reads ordered
	pending       sync.WaitGroup      // lines that are not delivered yet
	running       sync.WaitGroup
	stopped       atomic.Bool // true after emit returned an error or an inspection panicked
	err           error       // error that emit returned; valid after drain
	panicked      any         // cause of a panic; valid after drain
}

// inspectedLine is one JSON line with the findings in its transcript.
type inspectedLine struct {
	raw   []byte // the line, in JSON
	start int    // line number

	done     chan struct{} // closed when the other fields are set
	rec      wire.Recording
	findings []Finding
	err      error
	panicked any
}

// startInspectors starts n goroutines to inspect lines, and one to deliver the findings.
func startInspectors(n int, emit func(Finding) error) *inspectors {
	p := &inspectors{emit: emit, judge: (*inspectedLine).judge, work: make(chan *inspectedLine, n), ordered: make(chan *inspectedLine, 2*n)}
	for range n {
		p.running.Go(func() {
			for l := range p.work {
				p.inspect(l)
			}
		})
	}
	p.running.Go(p.deliver)
	return p
}

// add queues a JSON line for inspection, and blocks while too many lines are pending. start is the line number. The
// caller must not change raw afterwards.
func (i *inspectors) add(raw []byte, start int) error {
	if i.stopped.Load() {
		return i.drain()
	}
	l := &inspectedLine{raw: raw, start: start, done: make(chan struct{})}
	i.pending.Add(1)
	i.ordered <- l
	i.work <- l
	return nil
}

// drain waits until the findings in all lines added so far are emitted. It returns the error that emit returned.
func (i *inspectors) drain() error {
	i.pending.Wait()
	if i.panicked != nil {
		panic(i.panicked)
	}
	return i.err
}

func (i *inspectors) close() {
	close(i.work)
	close(i.ordered)
	i.running.Wait()
}

// inspect judges a line. It stores the cause of a panic, so that drain can panic in the caller's goroutine.
func (i *inspectors) inspect(l *inspectedLine) {
	defer close(l.done)
	defer func() {
		if cause := recover(); cause != nil {
			l.panicked = fmt.Sprintf("%v\n%s", cause, debug.Stack())
		}
	}()
	if !i.stopped.Load() {
		i.judge(l)
	}
}

func (l *inspectedLine) judge() {
	if l.rec, l.err = wire.ReadRecording(l.raw); l.err != nil {
		return
	}
	source, id := stringContent(l.rec.Source), stringContent(l.rec.ID)
	l.err = inspectList(l.rec.Request, func(f Finding, _ func() Explanation) error {
		f.Source, f.ID = source, id
		l.findings = append(l.findings, f)
		return nil
	})
}

func (i *inspectors) deliver() {
	for l := range i.ordered {
		<-l.done
		switch {
		case i.stopped.Load():
		case l.panicked != nil:
			i.panicked = l.panicked
			i.stopped.Store(true)
		case l.err != nil:
			i.reportError(l.start, l.raw, l.rec, l.err)
		}
		for _, f := range l.findings {
			if i.stopped.Load() {
				break
			}
			if i.err = i.emit(f); i.err != nil {
				i.stopped.Store(true)
			}
		}
		i.pending.Done()
	}
}
