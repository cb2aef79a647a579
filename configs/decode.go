package configs

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// decoder sets the values in a Config and collects every fault.
type decoder struct {
	env     func(string) (string, bool)
	source  string // current file, flag or variable
	inFile  bool   // faults name the line
	faults  Faults
	sources map[string]string // source of each key's value
	// secretFaults holds, by variable, the reason why the file with the value cannot be used.
	secretFaults map[string]string
}

func (d *decoder) addFault(path string, n ast.Node, value, problem string) {
	d.faults = append(d.faults, Fault{
		Key: path, Value: value, Source: d.nodeSource(n), Problem: problem,
	})
}

func (d *decoder) nodeSource(n ast.Node) string {
	if !d.inFile || n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return d.source
	}
	return fmt.Sprintf("%s:%d", d.source, n.GetToken().Position.Line)
}

// parse parses YAML into a tree. parse accepts duplicate keys, because readSection reports them together with all other
// faults.
func (d *decoder) parse(text string) (ast.Node, bool) {
	text = strings.TrimPrefix(text, "\ufeff") // byte order mark from editors on Windows
	file, err := parser.ParseBytes([]byte(maskReferences(text)), 0, parser.AllowDuplicateMapKey())
	if err != nil {
		d.syntaxFault(err)
		return nil, false
	}
	if len(file.Docs) > 1 {
		d.addFault("", file.Docs[1].Body, "", "contains more than one YAML document; keep only the first")
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return nil, false
	}
	return file.Docs[0].Body, true
}

func (d *decoder) syntaxFault(err error) {
	var syntax *yaml.SyntaxError
	if !errors.As(err, &syntax) {
		first, _, _ := strings.Cut(err.Error(), "\n")
		d.addFault("", nil, "", "is not YAML: "+first)
		return
	}
	f := Fault{Source: d.source, Problem: "is not YAML: " + unmaskReferences(syntax.Message)}
	if t := syntax.Token; d.inFile && t != nil && t.Position != nil {
		f.Source = fmt.Sprintf("%s:%d", d.source, t.Position.Line)
	}
	if strings.Contains(syntax.Message, "'\t'") {
		f.Problem += "; indent with spaces, because YAML does not permit tabs"
	}
	d.faults = append(d.faults, f)
}

func (d *decoder) readSection(path string, v reflect.Value, n ast.Node) {
	pairs, ok := d.asMapping(path, yamlName(v.Type().Field(0))+": ...", n)
	if !ok {
		return
	}
	indices := map[string]int{}
	for i := range v.NumField() {
		indices[yamlName(v.Type().Field(i))] = i
	}
	seen := map[string]bool{}
	for it := pairs.MapRange(); it.Next(); {
		name := unmaskReferences(it.Key().GetToken().Value)
		keyPath := join(path, name)
		i, ok := indices[name]
		switch {
		case !ok:
			d.addFault(keyPath, it.Key(), "", unknownKey(path, name, indices))
			d.faults[len(d.faults)-1].unknown = true
		case seen[name]:
			d.addFault(keyPath, it.Key(), "", "is given twice; keep one")
		default:
			d.readValue(keyPath, v.Field(i), v.Type().Field(i).Tag, it.Value())
		}
		seen[name] = true
	}
}

// readValue sets v from one node. A key without a value keeps the earlier value.
func (d *decoder) readValue(path string, v reflect.Value, tag reflect.StructTag, n ast.Node) {
	if n == nil || n.Type() == ast.NullType {
		return
	}
	if _, ok := n.(*ast.CommentGroupNode); ok {
		return
	}
	d.sources[path] = d.nodeSource(n)
	switch v.Kind() {
	case reflect.Struct:
		if _, scalar := scalarText(n); scalar {
			if i := scalarFieldIndex(v.Type()); i >= 0 {
				d.readScalar(path, v.Field(i), v.Type().Field(i).Tag, n)
				return
			}
		}
		d.readSection(path, v, n)
	case reflect.Map:
		d.readMapping(path, v, tag, n)
	case reflect.Slice:
		d.readList(path, v, tag, n)
	default:
		d.readScalar(path, v, tag, n)
	}
}

// readMapping replaces the whole map, so default entries that are not in the file disappear.
func (d *decoder) readMapping(path string, v reflect.Value, tag reflect.StructTag, n ast.Node) {
	entry := "NAME: ..."
	if elem := v.Type().Elem(); isSection(elem) {
		entry = "NAME: {" + yamlName(elem.Field(0)) + ": ...}"
	}
	pairs, ok := d.asMapping(path, entry, n)
	if !ok {
		return
	}
	out := reflect.MakeMap(v.Type())
	for it := pairs.MapRange(); it.Next(); {
		key := reflect.ValueOf(unmaskReferences(it.Key().GetToken().Value))
		keyPath := join(path, key.String())
		if err := checkPrintable(key.String()); err != nil {
			d.addFault(path, it.Key(), key.String(), err.Error())
			continue
		}
		if out.MapIndex(key).IsValid() {
			d.addFault(keyPath, it.Key(), "", "is given twice; keep one")
			continue
		}
		elem := reflect.New(v.Type().Elem()).Elem()
		d.readValue(keyPath, elem, tag, it.Value())
		out.SetMapIndex(key, elem)
	}
	v.Set(out)
}

// readList replaces the whole list. A scalar is read as a comma-separated list, as in flags and variables.
func (d *decoder) readList(path string, v reflect.Value, tag reflect.StructTag, n ast.Node) {
	seq, ok := n.(*ast.SequenceNode)
	text, scalar := scalarText(n)
	switch {
	case ok:
	case isSection(v.Type().Elem()) && scalarFieldIndex(v.Type().Elem()) >= 0: // a single entry written without a list
		elem := reflect.New(v.Type().Elem()).Elem()
		d.readValue(path, elem, tag, n)
		v.Set(reflect.Append(reflect.MakeSlice(v.Type(), 0, 1), elem))
		return
	case isSection(v.Type().Elem()):
		d.addFault(path, n, "", "is not a list; write entries such as - {name: ...} below the key")
		return
	case !scalar:
		d.addFault(path, n, "", "is not a list; write [a, b]")
		return
	default:
		d.readCommaList(path, v, tag, n, text)
		return
	}
	out := reflect.MakeSlice(v.Type(), 0, len(seq.Values))
	for i, entry := range seq.Values {
		elem := reflect.New(v.Type().Elem()).Elem()
		d.readValue(fmt.Sprintf("%s[%d]", path, i), elem, tag, entry)
		out = reflect.Append(out, elem)
	}
	v.Set(out)
}

// readCommaList reads a list such as "a, b, c".
func (d *decoder) readCommaList(
	path string, v reflect.Value, tag reflect.StructTag, n ast.Node, text string,
) {
	out := reflect.MakeSlice(v.Type(), 0, 1)
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		elem := reflect.New(v.Type().Elem()).Elem()
		d.setText(fmt.Sprintf("%s[%d]", path, out.Len()), elem, tag, n, part)
		out = reflect.Append(out, elem)
	}
	v.Set(out)
}

func (d *decoder) readScalar(path string, v reflect.Value, tag reflect.StructTag, n ast.Node) {
	text, ok := scalarText(n)
	if _, isAlias := n.(*ast.AliasNode); isAlias {
		d.addFault(path, n, "", "begins with *, which YAML reads as an alias; write the value in quotes, such as \"*.env\"")
		return
	}
	if !ok {
		d.addFault(path, n, "", "must be a single value, not a list, a mapping, an anchor or an alias")
		return
	}
	d.setText(path, v, tag, n, text)
}

// setText expands environment variables in raw and sets the scalar.
func (d *decoder) setText(
	path string, v reflect.Value, tag reflect.StructTag, n ast.Node, raw string,
) {
	shownValue := raw
	if isSecret(v.Type()) {
		shownValue = ""
	}
	var secretFault string
	text, err := expandVariables(raw, func(name string) (string, bool) {
		value, ok := d.env(name)
		secretFault = cmp.Or(secretFault, d.secretFaults[name])
		return value, ok
	})
	if secretFault != "" {
		err = errors.New(secretFault)
	}
	text = strings.Trim(text, "\r\n")
	if isSecret(v.Type()) {
		text = strings.TrimSpace(text)
	}
	if err == nil {
		err = checkPrintable(text)
	}
	if err == nil {
		err = setScalar(v, text)
	}
	if err == nil {
		err = checkConstraints(v, tag)
	}
	if err != nil {
		d.addFault(path, n, shownValue, err.Error())
	}
}

// asMapping returns a node as a mapping. entry is an example of an entry, for the fault in a node of a different type.
func (d *decoder) asMapping(path, entry string, n ast.Node) (ast.MapNode, bool) {
	pairs, ok := n.(ast.MapNode)
	if _, alias := n.(*ast.AliasNode); !ok || alias {
		if path != "" {
			entry = path[strings.LastIndex(path, ".")+1:] + ": {" + entry + "}"
		}
		d.addFault(path, n, "", "is not a mapping; write "+entry+", with a space after each colon")
		return nil, false
	}
	return pairs, true
}
