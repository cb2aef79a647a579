package lesson

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

func vocabulary(rnd *rand.Rand, n int) []string {
	syllables := strings.Fields("con ver ti on ment re pro test er ror mod ule im port fail ed con nec tion time out sch ema mi gra con fig ser vice tok en ca che in dex")
	words := make([]string, n)
	for i := range words {
		var b strings.Builder
		for range 2 + rnd.IntN(3) {
			b.WriteString(syllables[rnd.IntN(len(syllables))])
		}
		words[i] = b.String()
	}
	return words
}

func benchLessons(rnd *rand.Rand, words []string, n int) []*Lesson {
	lessons := make([]*Lesson, n)
	for i := range lessons {
		var keywords []string
		for range 3 {
			parts := make([]string, 2+rnd.IntN(2))
			for k := range parts {
				parts[k] = words[rnd.IntN(len(words))]
			}
			keywords = append(keywords, strings.Join(parts, " "))
		}
		lessons[i] = lessonWithKeywords(fmt.Sprintf("lesson-%05d", i), keywords...)
	}
	return lessons
}

// benchText returns a text in which about every eighth word comes from words.
func benchText(rnd *rand.Rand, words []string, size int) string {
	prose := strings.Fields("the parser reads each file of this project and returns a value that callers keep until it is swapped " +
		"please look why our nightly run became slower after we moved the cache behind another interface yesterday " +
		"I think some of these functions allocate more than they should, so measure before you change anything there")
	var b strings.Builder
	for b.Len() < size {
		w := prose[rnd.IntN(len(prose))]
		if rnd.IntN(8) == 0 {
			w = words[rnd.IntN(len(words))]
		}
		b.WriteString(w)
		b.WriteString([]string{" ", " ", " ", ", ", ".\n"}[rnd.IntN(5)])
	}
	return b.String()[:size]
}

func BenchmarkMatch(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		b.Run(fmt.Sprintf("lessons=%d", n), func(b *testing.B) {
			rnd := rand.New(rand.NewPCG(1, 2))
			words := vocabulary(rnd, 3000)
			book := NewBook(benchLessons(rnd, words, n))
			q := &Query{Words: []string{benchText(rnd, words, 8<<10)}}
			b.SetBytes(8 << 10)
			b.ReportAllocs()
			for b.Loop() {
				book.Match(q)
			}
		})
	}
}

func BenchmarkNewBook(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		b.Run(fmt.Sprintf("lessons=%d", n), func(b *testing.B) {
			rnd := rand.New(rand.NewPCG(1, 2))
			lessons := benchLessons(rnd, vocabulary(rnd, 3000), n)
			var book *Book
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			for b.Loop() {
				book = NewBook(lessons)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/(1<<20), "MiB-held")
			b.ReportMetric(float64(len(book.automaton().states)), "states")
		})
	}
}

func BenchmarkParse(b *testing.B) {
	b.SetBytes(int64(len(sampleFile)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse("x.md", []byte(sampleFile)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFold(b *testing.B) {
	rnd := rand.New(rand.NewPCG(1, 2))
	text := benchText(rnd, vocabulary(rnd, 3000), 8<<10)
	var dst []byte
	b.SetBytes(8 << 10)
	for b.Loop() {
		dst = appendText(dst[:0], text)
	}
}
