// Package docs holds this directory's pages for the dashboard, which serves them as help: whoever
// runs precept has the words of that version, without a network. It has the pages and their
// drawings; the pictures of the dashboard stay in the repository.
package docs

import "embed"

// Pages are the Markdown files by their paths in this directory, and the drawings in img.
//
//go:embed *.md decisions/*.md img/*.svg
var Pages embed.FS
