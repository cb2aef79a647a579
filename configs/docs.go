package configs

import (
	"embed"
	"io/fs"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

//go:embed precept.yaml
var reference string

//go:embed lessons
var starter embed.FS

// StarterLessons returns the built-in lessons.
func StarterLessons() fs.FS {
	sub, err := fs.Sub(starter, "lessons")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return sub
}

// Reference returns precept.yaml: every key with a comment and the default.
func Reference() string { return reference }

type keyDoc struct {
	usage       string // comment above the key, as one line
	defaultText string // default as written
}

// readDocs returns the documentation for each key, by path.
func readDocs() map[string]keyDoc {
	out := map[string]keyDoc{}
	file, err := parser.ParseBytes([]byte(reference), parser.ParseComments)
	if err != nil || len(file.Docs) == 0 {
		return out // the tests parse the reference and report any error
	}
	collectDocs(out, "", file.Docs[0].Body)
	return out
}

func collectDocs(out map[string]keyDoc, prefix string, n ast.Node) {
	pairs, ok := n.(ast.MapNode)
	if !ok {
		return
	}
	for it := pairs.MapRange(); it.Next(); {
		path := join(prefix, it.Key().String())
		out[path] = keyDoc{
			usage: lastParagraph(it.KeyValue().GetComment()), defaultText: strings.TrimSpace(sourceText(it.Value())),
		}
		collectDocs(out, path, it.Value())
	}
}

// sourceText returns a value as written, without a trailing comment.
func sourceText(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode, *ast.SequenceNode:
		return n.String()
	default:
		return n.GetToken().Value
	}
}

// lastParagraph returns a comment's last paragraph as one line.
func lastParagraph(group *ast.CommentGroupNode) string {
	if group == nil {
		return ""
	}
	var words []string
	last := 0
	for _, c := range group.Comments {
		if line := c.Token.Position.Line; line > last+1 {
			words = nil // the comment above belongs to a different key
		}
		last = c.Token.Position.Line
		line := strings.TrimPrefix(c.Token.Value, "#")
		switch {
		case strings.TrimSpace(line) == "":
			words = nil
		case strings.HasPrefix(line, "  "):
			continue
		default:
			words = append(words, strings.TrimSpace(line))
		}
	}
	return strings.Join(words, " ")
}
