package store

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"precept/internal/session"
	"precept/store/spool"
	"precept/store/storetest"
)

// A full disk costs what comes while it is full, and is told. When there is room again, capture
// goes on by itself.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := storetest.SmallDisk(t, 6<<20)
	clk := &clock{at: when}
	r := openRig(t, disk.Dir, clk, func(o *Options) { o.HoldBytes = 200 << 10; o.DeliverEvery = time.Second })
	offered, refused := 0, 0
	play := func() {
		for range 5 {
			offered++
			x := exchange(us, "s", offered, clk.now())
			x.Reply.Text = strings.Repeat("The shed is painted. ", 200)
			if !r.Offer(Turn{Exchange: x, Size: 4 << 10}) {
				refused++
			}
		}
		r.record()
		clk.add(time.Second)
	}
	ballast := func() bool {
		_, err := os.Stat(filepath.Join(disk.Dir, "spool", spool.Ballast))
		return err == nil
	}
	play()
	same(t, "ballast", ballast(), true)
	disk.Fill(t, 16<<10)
	for range 40 {
		play()
		disk.Fill(t, 0) // somebody takes whatever is given back
	}
	if refused == 0 || !slices.Contains(r.failed(), "spool") {
		t.Fatalf("refused %d, failures %v", refused, r.failed())
	}
	same(t, "healthy", r.Healthy(), false)
	same(t, "ballast, which is the backend's", ballast(), true)
	if held := r.state.held.Load(); held > 200<<10 {
		t.Errorf("%d bytes are held", held)
	}
	disk.Free(t)
	stored := r.Tally.Exchanges.Load()
	for i := 0; r.Tally.Exchanges.Load() <= stored+5; i++ {
		if i == 10 {
			t.Fatalf("nothing is stored %d s after there is room: %v", i, r.failed())
		}
		play()
	}
	clk.add(syncEvery)
	play()
	clk.add(syncEvery)
	play()
	same(t, "healthy again", r.Healthy(), true)
	same(t, "ballast again", ballast(), true)
	r.idle()
	b := r.books(true)
	r.account(true)
	same(t, "admitted", r.books(true).Admitted, int64(offered))
	same(t, "dropped", b.Dropped[droppedFull], int64(refused))
	r = r.again(nil)
	r.record()
	same(t, "books after a crash", r.account(true), fmt.Sprintf("%d = %d + 0 + 0 + %d full", offered, offered-refused, refused))
	same(t, "stored", r.exchanges(sessionOf("s")), offered-refused)
	_, err := os.ReadDir(filepath.Join(disk.Dir, "spool", "quarantine"))
	same(t, "nothing is damaged", os.IsNotExist(err), true)
}

// A spool that has filled the disk while the backend was down gives the space back when it is up
// again.
func TestASpoolThatFilledTheDiskDrains(t *testing.T) {
	t.Parallel()
	disk := storetest.SmallDisk(t, 3<<20)
	r := newRig(t, func(o *Options) { o.SpoolDir = filepath.Join(disk.Dir, "spool"); o.HoldBytes = 100 << 10 })
	r.be.failNext("write", 1<<30, errDown)
	turns := 0
	for ; !r.state.unspooled.Load(); turns++ {
		if turns > 2000 {
			t.Fatal("it is never full")
		}
		x := exchange(us, "s", turns+1, r.clk.now())
		x.Reply.Text = strings.Repeat("The shed is painted. ", 400)
		r.Offer(Turn{Exchange: x, Size: 8 << 10})
		r.record()
		r.clk.add(time.Second)
	}
	r.be.failNext("write", 0, nil)
	for i := 0; r.state.unspooled.Load() || r.state.lagging.Load(); i++ {
		if i == 10 {
			t.Fatalf("it stays full: %v", r.failed())
		}
		r.record()
		r.clk.add(time.Second)
	}
	r.clk.add(syncEvery)
	r.record()
	same(t, "stored", r.exchanges(sessionOf("s")), turns)
	r.idle()
	same(t, "bytes in the spool", r.spool.Bytes() < 100<<10, true)
}

// Where the backend says that the disk is full, it comes first: it gets the ballast and what the
// spool holds of the delivered, and the spool is not written until it has had its turn.
func TestBackendOnAFullDisk(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	play := func(turn int) {
		x := exchange(us, "s", turn, r.clk.now())
		x.Reply.Text = strings.Repeat("The shed is painted. ", 400)
		r.Offer(Turn{Exchange: x, Size: 8 << 10})
		r.record()
		r.clk.add(r.opts.DeliverEvery)
	}
	ballast := func() bool {
		_, err := os.Stat(filepath.Join(r.opts.SpoolDir, spool.Ballast))
		return err == nil
	}
	blocks := func() int64 {
		all := segmentsOf(t, r.opts.SpoolDir)
		info, err := os.Stat(all[len(all)-1])
		if err != nil {
			t.Fatal(err)
		}
		return info.Sys().(*syscall.Stat_t).Blocks * 512
	}
	for turn := range 20 {
		play(turn + 1)
	}
	before := blocks()
	end, _ := r.spool.End()
	r.be.failNext("write", 1, session.ErrDiskFull)
	play(21)
	same(t, "ballast", ballast(), false)
	if now := blocks(); runtime.GOOS == "linux" && now > before-64<<10 {
		t.Errorf("the segment took %d bytes of the disk, and takes %d", before, now)
	}
	at, _ := r.spool.End()
	same(t, "written before", end.Before(at), true)
	r.recorder.record(r.clk.now(), false)
	x := exchange(us, "s", 22, r.clk.now())
	r.Offer(Turn{Exchange: x, Size: 8 << 10})
	r.recorder.record(r.clk.now(), false)
	now, _ := r.spool.End()
	same(t, "written meanwhile", now, at)
	r.clk.add(3 * time.Second)
	r.record()
	r.clk.add(3 * time.Second)
	r.record()
	same(t, "stored", r.exchanges(sessionOf("s")), 22)
	same(t, "ballast again", ballast(), true)
	same(t, "books", r.account(true), "22 = 22 + 0 + 0")
}
