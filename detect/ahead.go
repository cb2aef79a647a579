package detect

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"precept/internal/wire"
)

// Bounds of the concurrent inspection. The pending lines together need less memory than one long transcript.
const (
	maxInspectors = 8       // goroutines
	maxAhead      = 1 << 20 // bytes of a line; a longer line is inspected alone
)

// inspectors inspect the transcripts of JSON lines on several goroutines, and emit the findings in the order of
// the lines. The lines of a file are independent, and one core inspects only 40 MB per second.
//
// The goroutine of the reading calls add, drain and close. Only the goroutine of deliver calls emit and fault,
// in the order of add. When drain returns, deliver has no line left, so the caller may call emit.
type inspectors struct {
	emit  func(Finding) error
	fault func(start int, raw []byte, rec wire.Recording, err error)
	judge func(*inspectedLine) // reads and judges a transcript

	work, ordered chan *inspectedLine
	pending       sync.WaitGroup // lines that were added and are not delivered yet
	running       sync.WaitGroup // goroutines
	stopped       atomic.Bool    // emit returned an error, or an inspection panicked
	err           error          // of emit; read after drain
	panicked      any            // of an inspection; read after drain
}

// inspectedLine is one line with a transcript. done is closed when the fields below done are set.
type inspectedLine struct {
	raw   []byte
	start int // line number

	done     chan struct{}
	rec      wire.Recording
	findings []Finding
	err      error
	panicked any
}

// startInspectors starts n goroutines that inspect lines, and one goroutine that delivers the findings. close
// ends all of these goroutines.
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

// add accepts the transcript of a line that begins on line start, and waits while too many lines are pending.
// The caller must not change raw afterwards.
func (p *inspectors) add(raw []byte, start int) error {
	if p.stopped.Load() {
		return p.drain()
	}
	l := &inspectedLine{raw: raw, start: start, done: make(chan struct{})}
	p.pending.Add(1)
	p.ordered <- l
	p.work <- l
	return nil
}

// drain waits until the findings of all added lines are emitted, and returns the error of emit. A panic of
// an inspection continues in the goroutine of the caller.
func (p *inspectors) drain() error {
	p.pending.Wait()
	if p.panicked != nil {
		panic(p.panicked)
	}
	return p.err
}

// close ends the goroutines and waits for them.
func (p *inspectors) close() {
	close(p.work)
	close(p.ordered)
	p.running.Wait()
}

// inspect judges a line, and stores the cause of a panic for drain.
func (p *inspectors) inspect(l *inspectedLine) {
	defer close(l.done)
	defer func() {
		if cause := recover(); cause != nil {
			l.panicked = fmt.Sprintf("%v\n%s", cause, debug.Stack())
		}
	}()
	if !p.stopped.Load() {
		p.judge(l)
	}
}

// judge reads and judges the transcript of a line.
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

// deliver emits the findings of the lines in order. After a panic or an error of emit, deliver drops the other
// findings.
func (p *inspectors) deliver() {
	for l := range p.ordered {
		<-l.done
		switch {
		case p.stopped.Load():
		case l.panicked != nil:
			p.panicked = l.panicked
			p.stopped.Store(true)
		case l.err != nil:
			p.fault(l.start, l.raw, l.rec, l.err)
		}
		for _, f := range l.findings {
			if p.stopped.Load() {
				break
			}
			if p.err = p.emit(f); p.err != nil {
				p.stopped.Store(true)
			}
		}
		p.pending.Done()
	}
}
