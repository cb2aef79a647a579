package precept_test

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// If a comment begins with a different identifier, this is often the name from before a rename.
func TestDocCommentsBeginWithDeclaredName(t *testing.T) {
	identifier := regexp.MustCompile(`^[a-z][a-zA-Z0-9]*$|^[A-Z][a-z0-9]+[A-Z][a-zA-Z0-9]*$`)
	checked := 0
	eachFile(t, func(name string, file *ast.File) {
		check := func(doc *ast.CommentGroup, declared ...string) {
			words := strings.Fields(doc.Text())
			if len(words) == 0 {
				return
			}
			checked++
			if first := strings.Trim(words[0], ",.:;`"); identifier.MatchString(first) && !slices.Contains(declared, first) {
				t.Errorf("%s: comment for %s begins with %s, want the declared name", name, strings.Join(declared, ", "), first)
			}
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				check(d.Doc, d.Name.Name)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					var declared []string
					var doc *ast.CommentGroup
					switch s := spec.(type) {
					case *ast.TypeSpec:
						doc, declared = s.Doc, []string{s.Name.Name}
					case *ast.ValueSpec:
						doc = s.Doc
						for _, n := range s.Names {
							declared = append(declared, n.Name)
						}
					default:
						continue
					}
					check(doc, declared...)
					if len(d.Specs) == 1 {
						check(d.Doc, declared...)
					}
				}
			}
		}
	})
	if checked < 1500 {
		t.Errorf("checked %d comments, want at least 1,500", checked)
	}
}
