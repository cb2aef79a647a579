package lesson_test

import (
	"fmt"
	"time"

	"precept/inject/lesson"
)

func ExampleBook_Match() {
	l, err := lesson.Parse("verify-page-id.md", []byte(`---
schema: learning/v1
slug: verify-page-id
title: Verify the page before clicking Load More.
trigger:
  description: Paging through a list.
  metadata:
    precept:
      keywords: [load more]
      error_patterns: [stale element]
outcome: success
evidence:
  - {kind: conversation, ref: c1}
---

## What to do (or avoid)

Read the page id again after every navigation.
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	book := lesson.NewBook([]*lesson.Lesson{l})
	hits := book.Match(&lesson.Query{
		Words:  []string{"Show the whole list."},
		Errors: []lesson.ErrorText{{CallID: "call_7", Tool: "browser", Text: "Error: stale element reference"}},
		Now:    time.Now(),
	})
	for _, h := range hits {
		fmt.Printf("%s fires on the result of %s: %s\n", h.Lesson.Slug, h.CallID, h.Lesson.Headline())
	}
	// Output: verify-page-id fires on the result of call_7: Verify the page before clicking Load More.
}
