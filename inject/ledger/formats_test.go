package ledger_test

import (
	"strings"
	"testing"

	"github.com/reviewdog/errorformat/fmts"

	"precept/inject/ledger"
)

// Programs that no reader of the package knows by the shape of their output are read in the format
// that the command names.
func TestFailuresOfProgramsThatTheCommandNames(t *testing.T) {
	for _, c := range []struct{ command, text, want string }{
		{
			"bundle exec rubocop", "Inspecting 2 files\nCC\n\nlib/cart.rb:4:1: C: Layout/EmptyLines: Extra blank line detected.\n\n^\nlib/cart.rb:9:81: C: Layout/LineLength: Line is too long. [83/80]\n",
			"rubocop lint lib/cart.rb Layout/EmptyLines: Extra blank line detected.|rubocop lint lib/cart.rb Layout/LineLength: Line is too long. [83/80]",
		},
		{
			"dotnet build", "Api.cs(75,27): warning CS0649: Field 'a' is never assigned [/home/dev/shop/Shop.csproj]\nApi.cs(9,13): error CS0103: The name 'cart' does not exist [/home/dev/shop/Shop.csproj]\n",
			"dotnet static-analysis Api.cs error CS0103: The name 'cart' does not exist [/home/dev/shop/Shop.csproj]",
		},
		{"vendor/bin/phpstan.phar analyse --error-format raw", "/home/dev/shop/src/Cart.php:63:Undefined property Cart::$id.\n", "phpstan static-analysis src/Cart.php Undefined property Cart::$id."},
		{"npx stylelint a.css", "\na.css\n  46:3   ✖  Unexpected unit  length-zero-no-unit\n\n", "stylelint lint a.css Unexpected unit length-zero-no-unit"},
		{
			"yamllint -f parsable .", "a.yml:1:1: [warning] missing document start (document-start)\na.yml:2:81: [error] line too long (line-length)\n",
			"yamllint lint a.yml [error] line too long (line-length)",
		},
		{"yamllint .", "a.yml:1:1: [warning] missing document start (document-start)\n", "yamllint lint a.yml [warning] missing document start (document-start)"},
		{"buf lint", strings.Repeat("x", 1<<17) + "\npet.proto:42:10:Field name \"petID\" should be lower_snake_case.\n", "buf lint pet.proto Field name \"petID\" should be lower_snake_case."},
		{"make lint", "lib/cart.rb:4:1: C: Layout/EmptyLines: Extra blank line detected.\n", ""},
		{"mypy .", "a.py:3: error: Bad type  [assignment]\n", "mypy static-analysis a.py Bad type [assignment]"},
	} {
		var got []string
		for _, f := range ledger.Failures(ledger.Output{Text: c.text, Command: strings.Fields(c.command), Dir: "/home/dev/shop"}) {
			got = append(got, strings.Join([]string{f.Tool, f.Type, f.File, f.Error}, " "))
		}
		if joined := strings.Join(got, "|"); joined != c.want {
			t.Errorf("%s: %q, want %q", c.command, joined, c.want)
		}
	}
}

// No output makes a reader or the library panic: the exit status of the command must survive.
func FuzzFormats(f *testing.F) {
	for _, text := range []string{
		"a.rb:4:1: C: Extra blank line.\n^\n", "\na.css\n  46:3   ✖  Unexpected unit\n\n", "[error] a.scala:6: b\n[error]   ^\n", "a.py:1 at module level:\n        D100: c\n",
		"a.yml:99999999999999999999999:1: [error] x\n", "ERROR: a.py Imports\n", "error: `x` should be `y`\n  --> a.go:1:1\n",
	} {
		for name := range fmts.DefinedFmts() {
			f.Add(name, text)
		}
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		for _, failure := range ledger.Failures(ledger.Output{Text: text, Command: []string{name}}) {
			if failure.File == "" || failure.Error == "" {
				t.Errorf("%s: %q: %+v", name, text, failure)
			}
		}
	})
}
