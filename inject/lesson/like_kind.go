package lesson

import (
	"slices"
	"strings"

	"precept/detect"
	"precept/inject/request"
)

// patternKinds returns the error kinds that the lesson's error patterns belong to, or none if the lesson names error
// kinds itself.
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

// phraseKinds returns the request kinds that at least half of the keywords belong to, or none if the lesson names
// request kinds itself.
func phraseKinds(l *Lesson) (kinds []request.Kind) {
	if len(l.Trigger.RequestKinds) > 0 {
		return nil
	}
	countByKind := map[request.Kind]int{}
	for _, p := range l.Trigger.Keywords {
		for _, f := range request.Kinds(strings.ReplaceAll(p, "*", "")) {
			if countByKind[f.Kind]++; 2*countByKind[f.Kind] >= len(l.Trigger.Keywords) && !slices.Contains(kinds, f.Kind) {
				kinds = append(kinds, f.Kind)
			}
		}
	}
	return kinds
}

// maxKindShare is the largest share of captured sessions in which a kind may occur. A more frequent kind is too general
// to select a lesson.
const maxKindShare = 0.05

// matchErrorKind returns the lesson that shares the most words with the error, among the lessons that have an error
// pattern of the error's kind.
func (x *likeIndex) matchErrorKind(t likeText) (best Resemblance, found bool) {
	for _, k := range t.kinds {
		if float64(x.traffic.sessionsByErrorKind[k]) > maxKindShare*float64(x.traffic.sessions) {
			continue
		}
		for _, l := range x.byErrorKind[k] {
			r := Resemblance{Lesson: x.lessons[l], CallID: t.callID, Score: 1, Threshold: minLike, lessonIndex: l}
			for w := range splitWindows(t.text) {
				for word, stem := range wordStems(w.text) {
					if _, ok := slices.BinarySearch(x.topicStems[l], stem); ok && !slices.Contains(r.Words, word) {
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

// matchRequestKind returns a lesson with keywords of the same request kind as the user's sentence. Among these lessons,
// it has the largest weight of stems that are equal or related to stems in the sentence.
func (x *likeIndex) matchRequestKind(s *likeScratch, t likeText) (best Resemblance, found bool) {
	if t.from != fromWords || len(x.byRequestKind) == 0 {
		return best, false
	}
	var maxWeight float32
	for _, f := range request.Kinds(t.text) {
		lessons := x.byRequestKind[f.Kind]
		if len(lessons) == 0 || float64(x.traffic.sessionsByRequestKind[f.Kind]) > maxKindShare*float64(x.traffic.sessions) {
			continue
		}
		w := window{f.Sentence, sortedSet(textStems(f.Sentence))}
		w.stems = w.stems[:min(len(w.stems), maxWindowStems)]
		for l, weight := range x.lessonsSharing(s, w.stems) {
			if weight > maxWeight && weight > commonWeight*relatedWeight && slices.Contains(lessons, l) {
				best, maxWeight, found = x.resemblance(likeScore{lesson: l, score: 1, from: fromWords}, w, 1, t), weight, true
			}
		}
	}
	return best, found
}
