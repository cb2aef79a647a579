package browser

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// pictureLimit is the maximum picture size in bytes. Pictures must be small, because the repository contains them.
const pictureLimit = 150 << 10

// TestPictures starts precept demo and writes screenshots for every page in the dashboard, in the light and the dark
// theme. PRECEPT_PICTURES, which make pictures sets, is the directory for the screenshots.
func TestPictures(t *testing.T) {
	dir := os.Getenv("PRECEPT_PICTURES")
	if dir == "" {
		t.Skip("PRECEPT_PICTURES is not set; run make pictures")
	}
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("chromium is not installed; apt-get install chromium")
	}
	link := runDemo(t, 6000)
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
	pages := pageAddresses(t, ctx)
	for _, width := range pageWidths(t) {
		for _, theme := range []string{"light", "dark"} {
			media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}}
			if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, media); err != nil {
				t.Fatal(err)
			}
			for name, path := range pages {
				file := name + "-" + theme
				if width != pictureWidth {
					file += "-" + strconv.Itoa(width)
				}
				takePicture(t, ctx, base+path, filepath.Join(dir, file+".png"), width)
			}
		}
	}
}

const pictureWidth = 1280

// pageWidths returns the widths for the screenshots: pictureWidth, and the widths in PRECEPT_PICTURE_WIDTHS.
func pageWidths(t *testing.T) []int {
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

// runDemo starts precept demo, waits until all sessions are done, and returns the login link for the dashboard.
func runDemo(t *testing.T, sessions int) string {
	t.Helper()
	cmd := exec.Command("precept", "demo", "--sessions", strconv.Itoa(sessions)) //nolint:gosec // the program under test
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
	opened := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if found := address.FindString(lines.Text()); found != "" && !opened {
			link, opened = found, true
			openOverview(t, link)
		}
		if strings.Contains(lines.Text(), "dashboard runs until") {
			return link
		}
	}
	t.Fatal("demo output ended without \"dashboard runs until\"")
	return ""
}

const pictureCandidate = `---
schema: learning/v1
slug: run-the-suite-of-the-package
title: Run the tests of the package that you touch, then the full suite once.
trigger:
  description: The ticket asks for all tests.
  metadata: {precept: {keywords: ["a button in the wrong place", "screenshot of the page"]}}
outcome: success
supersedes: [run-the-full-suite]
evidence:
  - {kind: run, ref: TICKET-000042, note: The full suite took the whole budget.}
metadata: {precept: {state: candidate}}
---

# Run the tests of the package that you touch, then the full suite once.

## What to do (or avoid)

Run the tests of the package after each change, and the full suite once, before you report.
`

// openOverview adds a lesson to the queue. It then requests the overview every two seconds until the test ends, because
// the chart in the overview shows only effects that were requested since the server started.
func openOverview(t *testing.T, link string) {
	t.Helper()
	base, key, _ := strings.Cut(link, "/login?token=")
	fetch := func(ctx context.Context, path string) ([]byte, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, http.NoBody)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+key)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, err
		}
		defer res.Body.Close() //nolint:errcheck // only read
		return io.ReadAll(res.Body)
	}
	health, err := fetch(t.Context(), "/api/health")
	var h struct {
		Config []struct{ Key, Value string }
	}
	if err == nil {
		err = json.Unmarshal(health, &h)
	}
	if err != nil {
		t.Fatal(err)
	}
	err = errors.New("/api/health has no configuration key lessons")
	for _, k := range h.Config {
		if k.Key == "lessons" {
			err = os.WriteFile(filepath.Join(strings.TrimSpace(k.Value), "run-the-suite-of-the-package.md"), []byte(pictureCandidate), 0o600)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			_, _ = fetch(ctx, "/")
			select {
			case <-ctx.Done():
			case <-time.After(2 * time.Second):
			}
		}
	})
	t.Cleanup(func() {
		stop()
		wg.Wait()
	})
}

// pageAddresses returns the addresses for the pages in the navigation, for the first lesson, and for the first session
// that has both an injected and a withheld lesson.
func pageAddresses(t *testing.T, ctx context.Context) map[string]string {
	t.Helper()
	links := func(expression string) []string {
		text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`[...document.querySelectorAll('`+expression+`')].map(a => a.getAttribute("href")).join(" ")`))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(text)
	}
	pages := map[string]string{}
	for _, path := range links("header nav a") {
		name := strings.Trim(path, "/")
		if name == "" {
			name = "overview"
		}
		pages[name] = path
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
		row := ""
		if list == "sessions" {
			row = "tr:has(.slug:not(.ghost)):has(.slug.ghost) "
		}
		if found := links(`main tbody ` + row + `a[href^="/` + list + `/"]`); len(found) > 0 {
			pages[name] = found[0]
		}
	}
	return pages
}

// takePicture writes a screenshot of the page at address to file.
func takePicture(t *testing.T, ctx context.Context, address, file string, width int) {
	t.Helper()
	size := emulation.SetDeviceMetricsOverrideParams{Width: int64(width), Height: int64(max(width*5/8, 800)), DeviceScaleFactor: 1}
	if _, err := chromedp.Call(ctx, emulation.SetDeviceMetricsOverride, size); err != nil {
		t.Fatal(err)
	}
	for range 60 { // until the page shows computed numbers
		if err := chromedp.Do(ctx, chromedp.Navigate(address), chromedp.WaitReady(chromedp.CSS("body"))); err != nil {
			t.Fatalf("navigation to %s: got error %v, want none", address, err)
		}
		waiting, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`/being (read|counted)/.test(document.querySelector("main").textContent)`))
		if err != nil {
			t.Fatal(err)
		}
		if !waiting {
			break
		}
		time.Sleep(time.Second)
	}
	time.Sleep(300 * time.Millisecond) // charts are drawn after the load event
	raw, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	small, err := reduceColours(raw)
	if err != nil {
		t.Fatal(err)
	}
	if width == pictureWidth && len(small) > pictureLimit {
		t.Errorf("picture %s: got %d bytes, want at most %d", file, len(small), pictureLimit)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, small, 0o600); err != nil {
		t.Fatal(err)
	}
}

// reduceColours makes a picture file smaller by using at most 256 colours. The palette contains the most common colour
// in each family of similar colours, so a single red word on a grey page stays red.
func reduceColours(raw []byte) ([]byte, error) {
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
	all := slices.SortedFunc(maps.Keys(seen), func(x, y color.RGBA) int {
		return cmp.Or(seen[y]-seen[x], cmp.Compare(fmt.Sprint(x), fmt.Sprint(y)))
	})
	var palette, shades color.Palette
	families := map[[3]uint8]bool{}
	for _, c := range all {
		family := [3]uint8{c.R >> 5, c.G >> 5, c.B >> 5}
		if families[family] {
			shades = append(shades, c)
			continue
		}
		families[family] = true
		palette = append(palette, c)
	}
	palette = append(palette[:min(len(palette), 160)], shades...)
	palette = palette[:min(len(palette), 256)]
	out := image.NewPaletted(b, palette)
	draw.Draw(out, b, full, b.Min, draw.Src)
	var w bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&w, out)
	return w.Bytes(), err
}
