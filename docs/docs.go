// Package docs embeds the pages of this directory. The dashboard serves the pages as help, so that
// the help matches the version and needs no network. Pictures of the dashboard are not embedded.
package docs

import "embed"

// Pages are the Markdown files by their paths in this directory, and the drawings in img.
//
//go:embed *.md decisions/*.md img/*.svg
var Pages embed.FS
