package project

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// schemas generates JSON Schemas in YAML from Go types, with the field comments as descriptions.
type schemas struct {
	t        *testing.T
	done     map[string]string            // generated schemas by name
	comments map[string]map[string]string // field comments by package path and "Type.Field"
}

func newSchemas(t *testing.T, all ...reflect.Type) string {
	t.Helper()
	s := &schemas{t: t, done: map[string]string{}, comments: map[string]map[string]string{}}
	for _, typ := range all {
		s.typeSchema(typ)
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.done)) {
		b.WriteString(s.done[name])
	}
	return b.String()
}

// typeSchema returns a type's schema in YAML's flow style.
func (s *schemas) typeSchema(typ reflect.Type) string {
	switch typ {
	case reflect.TypeFor[time.Time]():
		return "type: string, format: date-time"
	case reflect.TypeFor[json.RawMessage]():
		return "description: any JSON"
	}
	switch typ.Kind() {
	case reflect.Bool:
		return "type: boolean"
	case reflect.String:
		return "type: string"
	case reflect.Float32, reflect.Float64:
		return "type: number"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "type: integer"
	case reflect.Pointer:
		return nullable(s.typeSchema(typ.Elem()))
	case reflect.Slice:
		return `type: [array, "null"], items: {` + s.typeSchema(typ.Elem()) + "}"
	case reflect.Map:
		return `type: [object, "null"], additionalProperties: {` + s.typeSchema(typ.Elem()) + "}"
	case reflect.Struct:
		if name := s.name(typ); s.done[name] == "" {
			s.done[name] = "..." // ends the recursion for a type that contains itself
			s.done[name] = s.object(name, typ)
		}
		return `$ref: "#/components/schemas/` + s.name(typ) + `"`
	case reflect.Interface:
		return ""
	default:
		s.t.Fatalf("schema for type %s: got a kind that typeSchema does not support", typ)
		return ""
	}
}

func nullable(schema string) string {
	if kind, ok := strings.CutPrefix(schema, "type: "); ok && !strings.HasPrefix(kind, "[") {
		kind, rest, more := strings.Cut(kind, ", ")
		schema = "type: [" + kind + `, "null"]`
		if more {
			schema += ", " + rest
		}
		return schema
	}
	return "oneOf: [{" + schema + `}, {type: "null"}]`
}

// name returns a type's package and name, because types in two packages can have equal names.
func (s *schemas) name(typ reflect.Type) string {
	name := strings.ToUpper(typ.Name()[:1]) + typ.Name()[1:]
	switch pkg := filepath.Base(typ.PkgPath()); {
	case strings.EqualFold(pkg, name), name == "Forecast":
		return name
	default:
		return strings.ToUpper(pkg[:1]) + pkg[1:] + name
	}
}

func (s *schemas) object(name string, typ reflect.Type) string {
	var required []string
	var b strings.Builder
	s.writeFields(typ, &required, &b)
	head := "    " + name + ":\n      type: object\n      additionalProperties: false\n"
	if len(required) > 0 {
		head += "      required: [" + strings.Join(required, ", ") + "]\n"
	}
	return head + "      properties:\n" + b.String()
}

// writeFields writes the schemas for the fields that encoding/json encodes, and appends to required the fields that are
// never omitted.
func (s *schemas) writeFields(typ reflect.Type, required *[]string, b *strings.Builder) {
	for f := range typ.Fields() {
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && tag == "":
			s.writeFields(f.Type, required, b)
			continue
		case !f.IsExported() || tag == "-":
			continue
		case tag == "":
			tag = f.Name
		}
		if !strings.Contains(options, "omit") {
			*required = append(*required, tag)
		}
		schema := s.typeSchema(f.Type)
		if note := s.fieldComment(typ, f.Name); note != "" && !strings.Contains(schema, "description:") {
			if schema != "" {
				schema += ", "
			}
			schema += "description: " + strconv.Quote(note)
		}
		fmt.Fprintf(b, "        %s: {%s}\n", tag, schema)
	}
}

func (s *schemas) fieldComment(typ reflect.Type, field string) string {
	pkg := typ.PkgPath()
	if s.comments[pkg] == nil {
		s.comments[pkg] = map[string]string{}
		dir := filepath.Join(repo, filepath.FromSlash(strings.TrimPrefix(pkg, "precept/")))
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			s.t.Fatalf("Go files in %s for package %s: got %d, error %v, want at least 1", dir, pkg, len(files), err)
		}
		for _, file := range files {
			s.readComments(pkg, file)
		}
	}
	return s.comments[pkg][typ.Name()+"."+field]
}

func (s *schemas) readComments(pkg, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		s.t.Fatal(err)
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ParseComments)
	if err != nil {
		s.t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		st, ok := spec.Type.(*ast.StructType)
		if !ok {
			return true
		}
		for _, f := range st.Fields.List {
			for _, name := range f.Names {
				note := strings.Join(strings.Fields(f.Doc.Text()+" "+f.Comment.Text()), " ")
				s.comments[pkg][spec.Name.Name+"."+name.Name] = strings.NewReplacer("nil ", "null ", "nil:", "null:").Replace(note)
			}
		}
		return true
	})
}
