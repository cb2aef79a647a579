package main

import (
	"bufio"
	"bytes"
	"context"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// pictureLimit is how large a picture may be in bytes: they are kept with the source.
const pictureLimit = 150 << 10

// TestPictures writes pictures of every page of the demo's dashboard, in both themes, into the
// directory of PRECEPT_PICTURES; make pictures sets it. PRECEPT_PICTURE_WIDTHS asks for further
// widths than the usual one.
func TestPictures(t *testing.T) {
	dir := os.Getenv("PRECEPT_PICTURES")
	if dir == "" {
		t.Skip("PRECEPT_PICTURES names no directory; make pictures does")
	}
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("chromium is not installed; apt-get install chromium")
	}
	link := playDemo(t)
	allocator, cancel := chromedp.NewExecAllocator(t.Context(), chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.Headless,
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("hide-scrollbars", true))
	t.Cleanup(cancel)
	ctx, cancelTab := chromedp.NewContext(allocator)
	t.Cleanup(cancelTab)
	ctx, stop := context.WithTimeout(ctx, 4*time.Minute)
	t.Cleanup(stop)
	base, _, _ := strings.Cut(link, "/login")
	if err := chromedp.Do(ctx, chromedp.Navigate(link), chromedp.WaitReady(chromedp.CSS("body"))); err != nil {
		t.Fatal(err)
	}
	pages := pagesOf(t, ctx)
	for _, width := range widths(t) {
		for _, theme := range []string{"light", "dark"} {
			media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}}
			if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, media); err != nil {
				t.Fatal(err)
			}
			for name, at := range pages {
				file := name + "-" + theme
				if width != pictureWidth {
					file += "-" + strconv.Itoa(width)
				}
				paint(t, ctx, base+at, filepath.Join(dir, file+".png"), width)
			}
		}
	}
}

const pictureWidth = 1280

func widths(t *testing.T) []int {
	t.Helper()
	out := []int{pictureWidth}
	for text := range strings.FieldsSeq(os.Getenv("PRECEPT_PICTURE_WIDTHS")) {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, n)
	}
	return out
}

// playDemo runs the demo until it has played, and gives the dashboard's link.
func playDemo(t *testing.T) string {
	t.Helper()
	bin, err := program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "demo", "--sessions", "6000") //nolint:gosec // our own binary; it is stopped below, by its own id
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+/login\?token=\w+`)
	link := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if found := address.FindString(lines.Text()); found != "" {
			link = found
		}
		if strings.Contains(lines.Text(), "stays up") {
			return link
		}
	}
	t.Fatal("the demo ended")
	return ""
}

// pagesOf are the pages of the navigation, and the first lesson and session that there are.
func pagesOf(t *testing.T, ctx context.Context) map[string]string {
	t.Helper()
	links := func(expression string) []string {
		text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`[...document.querySelectorAll('`+expression+`')].map(a => a.getAttribute("href")).join(" ")`))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(text)
	}
	pages := map[string]string{}
	for _, at := range links("header nav a") {
		name := strings.Trim(at, "/")
		if name == "" {
			name = "overview"
		}
		pages[name] = at
	}
	for name, list := range map[string]string{"lesson": "lessons", "session": "sessions"} {
		if _, ok := pages[list]; !ok {
			continue
		}
		origin, err := chromedp.Run(ctx, chromedp.Evaluate[string]("location.origin"))
		if err != nil {
			t.Fatal(err)
		}
		if err := chromedp.Do(ctx, chromedp.Navigate(origin+pages[list]), chromedp.WaitReady(chromedp.CSS("body"))); err != nil {
			t.Fatal(err)
		}
		if found := links(`main tbody a[href^="/` + list + `/"]`); len(found) > 0 {
			pages[name] = found[0]
		}
	}
	return pages
}

// paint takes a picture of the upper part of a page.
func paint(t *testing.T, ctx context.Context, address, file string, width int) {
	t.Helper()
	size := emulation.SetDeviceMetricsOverrideParams{Width: int64(width), Height: int64(max(width*5/8, 800)), DeviceScaleFactor: 1}
	if _, err := chromedp.Call(ctx, emulation.SetDeviceMetricsOverride, size); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(ctx, chromedp.Navigate(address), chromedp.WaitReady(chromedp.CSS("body"))); err != nil {
		t.Fatal(address, err)
	}
	time.Sleep(300 * time.Millisecond) // charts are drawn behind the load
	raw, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	small, err := fewColours(raw)
	if err != nil {
		t.Fatal(err)
	}
	if width == pictureWidth && len(small) > pictureLimit {
		t.Errorf("%s has %d bytes", file, len(small))
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, small, 0o600); err != nil {
		t.Fatal(err)
	}
}

// fewColours writes a picture with the 256 colours that it has most of: pages have few, and the
// file is a third.
func fewColours(raw []byte) ([]byte, error) {
	full, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	seen := map[color.RGBA]int{}
	b := full.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			seen[color.RGBAModel.Convert(full.At(x, y)).(color.RGBA)]++
		}
	}
	all := make([]color.RGBA, 0, len(seen))
	for c := range seen {
		all = append(all, c)
	}
	slices.SortFunc(all, func(x, y color.RGBA) int { return seen[y] - seen[x] })
	var palette color.Palette
	for _, c := range all[:min(len(all), 256)] {
		palette = append(palette, c)
	}
	out := image.NewPaletted(b, palette)
	draw.Draw(out, b, full, b.Min, draw.Src)
	var w bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&w, out)
	return w.Bytes(), err
}
