package lesson

import (
	"slices"
	"strings"

	"precept/detect"
	"precept/inject/request"
)

// patternKinds returns the kinds of the error patterns of a lesson that names no error kinds.
func patternKinds(l *Lesson) (kinds []detect.Kind) {
	if len(l.Trigger.ErrorKinds) > 0 {
		return nil
	}
	for _, p := range l.Trigger.ErrorPatterns {
		if found := detect.Kinds(p, detect.Judgement{Outcome: detect.Error}); len(found) > 0 && !slices.Contains(kinds, found[0]) {
			kinds = append(kinds, found[0])
		}
	}
	return kinds
}

// phraseKinds returns the kinds of requests that at least half of the keywords of a lesson have. A lesson that names
// kinds of requests has none.
func phraseKinds(l *Lesson) (kinds []request.Kind) {
	if len(l.Trigger.RequestKinds) > 0 {
		return nil
	}
	phrases := map[request.Kind]int{}
	for _, p := range l.Trigger.Keywords {
		for _, f := range request.Kinds(strings.ReplaceAll(p, "*", "")) {
			if phrases[f.Kind]++; 2*phrases[f.Kind] >= len(l.Trigger.Keywords) && !slices.Contains(kinds, f.Kind) {
				kinds = append(kinds, f.Kind)
			}
		}
	}
	return kinds
}

// frequentKind is the largest share of the captured sessions that may have a kind. A more frequent kind says too
// little.
const frequentKind = 0.05

// ofKind returns the lesson for an error by the kind of the error. An error pattern of the lesson has the same kind,
// and a word of the error is in the title, the description or the keywords. Of several lessons, ofKind returns the
// lesson with most of these words.
func (x *likeIndex) ofKind(t likeText) (best Resemblance, found bool) {
	for _, k := range t.kinds {
		if float64(x.traffic.kinds[k]) > frequentKind*float64(x.traffic.sessions) {
			continue
		}
		for _, l := range x.kinds[k] {
			r := Resemblance{Lesson: x.lessons[l], CallID: t.callID, Score: 1, Threshold: minLike, index: l}
			for w := range windowsOf(t.text) {
				for word, stem := range wordStems(w.text) {
					if _, ok := slices.BinarySearch(x.about[l], stem); ok && !slices.Contains(r.Words, word) {
						r.Words, r.Window = append(r.Words, word), strings.TrimSpace(w.text)
					}
				}
			}
			if len(r.Words) > len(best.Words) {
				best, found = r, true
			}
		}
		if found {
			break
		}
	}
	return best, found
}

// ofRequest returns the lesson for a request by the kind of the request. Phrases of the lesson have the same kind, and
// the sentence of the request shares a stem or a related stem with the lesson. Of several lessons, ofRequest returns
// the lesson that shares most.
func (x *likeIndex) ofRequest(s *likeScratch, t likeText) (best Resemblance, found bool) {
	if t.from != fromWords || len(x.requests) == 0 {
		return best, false
	}
	var most float32
	for _, f := range request.Kinds(t.text) {
		lessons := x.requests[f.Kind]
		if len(lessons) == 0 || float64(x.traffic.requests[f.Kind]) > frequentKind*float64(x.traffic.sessions) {
			continue
		}
		w := window{f.Sentence, sortedSet(stemsOf(f.Sentence))}
		w.stems = w.stems[:min(len(w.stems), maxWindowStems)]
		for l, mass := range x.lessonsSharing(s, w.stems) {
			if mass > most && mass > commonWeight*relatedWeight && slices.Contains(lessons, l) {
				best, most, found = x.resemblance(likeScore{lesson: l, score: 1, from: fromWords}, w, 1, t), mass, true
			}
		}
	}
	return best, found
}
