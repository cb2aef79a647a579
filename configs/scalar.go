package configs

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// scalarText returns a scalar as written. The key's type, not YAML, decides what texts such as 0x10, yes and 1e3 mean.
func scalarText(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return unmaskReferences(n.Value), true
	case *ast.LiteralNode:
		return unmaskReferences(n.Value.Value), true
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	default:
		return "", false
	}
}

func setScalar(v reflect.Value, text string) error {
	switch {
	case isDuration(v.Type()):
		t, err := parseDuration(text)
		v.SetInt(int64(t))
		return err
	case v.Type() == reflect.TypeFor[Size]():
		s, err := ParseSize(text)
		v.SetInt(int64(s))
		return err
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		b, err := parseBool(text)
		v.SetBool(b)
		return err
	case reflect.Int:
		i, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return errors.New("is not a whole number; write one such as 3")
		}
		v.SetInt(i)
	case reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return errors.New("is not a number; write one such as 0.2")
		}
		v.SetFloat(f)
	default:
		return fmt.Errorf("has a type that cannot be read (%s)", v.Type())
	}
	return nil
}

func parseBool(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "true", "yes", "on", "1":
		return true, nil
	case "false", "no", "off", "0":
		return false, nil
	default:
		return false, errors.New("is neither true nor false; write true or false")
	}
}

// checkConstraints checks a value against the tags enum, min and max.
func checkConstraints(v reflect.Value, tag reflect.StructTag) error {
	if enum := tag.Get("enum"); enum != "" && v.Kind() == reflect.String {
		words := strings.Split(enum, "|")
		if !slices.Contains(words, v.String()) {
			return fmt.Errorf("must be one of %s", strings.Join(words, ", "))
		}
	}
	minimum, maximum := tagBound(tag, "min", math.Inf(-1)), tagBound(tag, "max", math.Inf(1))
	var x float64
	switch v.Kind() {
	case reflect.Int, reflect.Int64:
		x = float64(v.Int())
	case reflect.Float64:
		x = v.Float()
	default:
		return nil
	}
	if x < minimum || x > maximum {
		return fmt.Errorf("is out of range; it must be %s", formatBounds(v.Type(), minimum, maximum))
	}
	return nil
}

// tagBound returns the number in a tag, or fallback.
func tagBound(tag reflect.StructTag, name string, fallback float64) float64 {
	f, err := strconv.ParseFloat(tag.Get(name), 64)
	if err != nil {
		return fallback
	}
	return f
}

// formatBounds returns a number's bounds for a message, such as "from 1 to 8".
func formatBounds(t reflect.Type, minimum, maximum float64) string {
	show := func(x float64) string {
		switch {
		case isDuration(t) && x <= 1:
			return "0s"
		case isDuration(t):
			return strconv.FormatFloat(x/1e9, 'f', -1, 64) + "s"
		case t == reflect.TypeFor[Size]():
			return Size(x).String()
		default:
			return strconv.FormatFloat(x, 'f', -1, 64)
		}
	}
	switch {
	case math.IsInf(maximum, 1) && isDuration(t) && minimum == 1:
		return "more than 0s"
	case math.IsInf(maximum, 1):
		return "at least " + show(minimum)
	default:
		return "from " + show(minimum) + " to " + show(maximum)
	}
}
