package redact_test

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"precept/internal/redact"
)

// ibanLengths returns the IBAN length by country, from the SWIFT registry.
func ibanLengths() map[string]int {
	out := map[string]int{}
	for length, codes := range map[int]string{
		15: "NO", 16: "BE", 18: "DK FI FK FO GL NL SD", 19: "MK SI", 20: "AT BA EE KZ LT LU MN XK", 21: "CH HR LI LV",
		22: "BG BH CR DE GB GE IE ME RS VA", 23: "AE GI IL IQ OM SO TL", 24: "AD CZ ES MD PK RO SA SE SK TN VG", 25: "LY PT ST", 26: "IS TR",
		27: "BI DJ FR GR IT MC MR SM", 28: "AL AZ BY CY DO GT HU LB NI PL SV", 29: "BR EG PS QA UA", 30: "JO KW MU YE", 31: "MT SC", 32: "LC", 33: "RU",
	} {
		for code := range strings.FieldsSeq(codes) {
			out[code] = length
		}
	}
	return out
}

func newIBAN(country string, length int) string {
	body := strings.Repeat("4", length-4)
	numeric := ""
	for _, c := range body + country + "00" {
		if c >= 'A' {
			numeric += fmt.Sprint(c - 'A' + 10)
		} else {
			numeric += string(c)
		}
	}
	n, _ := new(big.Int).SetString(numeric, 10)
	return fmt.Sprintf("%s%02d%s", country, 98-new(big.Int).Mod(n, big.NewInt(97)).Int64(), body)
}

// parseMarked returns a text without the marks < and >, and with a placeholder in place of the value between them.
func parseMarked(text, kind string) (in, want string) {
	before, rest, ok := strings.Cut(text, "<")
	value, after, _ := strings.Cut(rest, ">")
	if !ok {
		return text, text
	}
	return before + value + after, before + redact.Placeholder + kind + ":1]" + after
}

// assertMarked fails the test unless Text replaces only the value between < and > with a placeholder for the kind. A
// text without marks must not change.
func assertMarked(t *testing.T, kind string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		in, want := parseMarked(text, kind)
		if got := redact.New(true).Text(in); got != want {
			t.Errorf("Text(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestIBANIsRedactedOnlyWithCountryLength(t *testing.T) {
	lengths := ibanLengths()
	for a := 'A'; a <= 'Z'; a++ {
		for b := 'A'; b <= 'Z'; b++ {
			country := string(a) + string(b)
			for length := 15; length <= 34; length++ {
				in := "to " + newIBAN(country, length) + " now"
				redacted := redact.New(true).Text(in) == "to [REDACTED:iban:1] now"
				if want := lengths[country] == length; redacted != want {
					t.Errorf("%s with %d characters: got redacted = %v, want %v", country, length, redacted, want)
				}
			}
		}
	}
}

// A letter or digit directly before or after an IBAN prevents a match.
func TestIBANIsRedactedInEachSpelling(t *testing.T) {
	assertMarked(t, "iban",
		"<DE89370400440532013000>", "<DE89 3704 0044 0532 0130 00>", "<DE89-3704-0044-0532-0130-00>", "(<DE89370400440532013000>)", "<DE89 3704 00440532 0130 00>",
		"iban:<GB82WEST12345698765432>", "DE89 370 40044053 2013 000", "DE8937040044053201300", "XDE89370400440532013000", "<de89370400440532013000>", "<gb82 west 1234 5698 7654 32>", "gb82 WEST 1234 5698 7654 32", "GB82 west 1234 5698 7654 32", "DE893704004405320130000",
		"DE89370400440532013000a", "DE8a370400440532013000", "DE90370400440532013000", "D89370400440532013000",
	)
}

func luhn(digits string) string {
	for c := range 10 {
		sum := 0
		full := digits + fmt.Sprint(c)
		for i := range full {
			v := int(full[len(full)-1-i] - '0')
			if i%2 == 1 {
				if v *= 2; v > 9 {
					v -= 9
				}
			}
			sum += v
		}
		if sum%10 == 0 {
			return full
		}
	}
	return ""
}

func TestCardIsRedactedOnlyInIssuedRanges(t *testing.T) {
	for prefix, lengths := range map[string]string{
		"4": "13 16 19", "32": "", "51": "16", "55": "16", "2221": "16", "2720": "16", "2220": "", "2721": "", "34": "15", "37": "15", "33": "", "300": "14 16", "305": "14 16", "306": "",
		"36": "14 16", "38": "14 16", "39": "14 16", "6011": "16 17 18 19", "6012": "16 17 18 19", "65": "16 17 18 19", "644": "16 17 18 19", "649": "16 17 18 19", "643": "", "62": "16 17 18 19",
		"3528": "16 17 18 19", "3589": "16 17 18 19", "3527": "", "3590": "", "50": "16 17 18 19", "56": "16 17 18 19", "58": "16 17 18 19", "59": "", "63": "16 17 18 19", "67": "16 17 18 19",
		"60": "16 17 18 19", "81": "16 17 18 19", "80": "", "82": "", "1": "", "7": "", "9": "", "0": "",
	} {
		for length := 12; length <= 20; length++ {
			number := luhn((prefix + strings.Repeat("7", 20))[:length-1])
			want := strings.Contains(" "+lengths+" ", fmt.Sprintf(" %d ", length))
			got := redact.New(true).Text("card " + number + " is")
			if (got == "card [REDACTED:card:1] is") != want {
				t.Errorf("prefix %s, %d digits: Text = %q, want a card placeholder: %v", prefix, length, got, want)
			}
			wrong := number[:length-1] + string('0'+(number[length-1]-'0'+1)%10)
			if got := redact.New(true).Text("x=" + wrong + ";"); strings.Contains(got, ":card:") {
				t.Errorf("%s with a wrong check digit: Text = %q, want no card placeholder", wrong, got)
			}
		}
	}
}

func TestCardIsRedactedInEachSpelling(t *testing.T) {
	assertMarked(t, "card",
		"<4111111111111111>", "<4111 1111 1111 1111>", "<4111-1111-1111-1111>", "<3782 822463 10005>", "x=<4111111111111111>,", "4111 1111 1111 11111", "4111111111111111a", "a4111111111111111",
		"411 1111 1111 11111", "41111 111 1111 1111", "-4111111111111111", "9-4111111111111111", "4111,1111,1111,1111", "4111111111111111.5",
		"visa 4222222222222222225",
	)
}

func TestSSNIsRedactedOnlyInIssuedRanges(t *testing.T) {
	assertMarked(t, "ssn",
		"<078-05-1120>", "ssn <078 05 1120>", "ssn <078051120>", "social: <665-01-0001>", "<001-01-0001>", "<899-99-9999>", "000-05-1120", "666-05-1120", "900-05-1120", "078-00-1120", "078-05-0000",
		"078 05 1120", "078051120", "078-05-11201", "1078-05-1120", "078-05-1120-1", "1-078-05-1120", "078-051120", "07-805-1120", "078-05.1120", "ssn 078-05 1120", "078-05-1120a",
	)
}

func TestIPAddressesAreRedacted(t *testing.T) {
	assertMarked(t, "ip",
		"<203.0.113.7>", "host <203.0.113.7>:80", "<10.1.2.3>/24", "(<203.0.113.7>)", "http://<203.0.113.7>/", "from <1.2.3.4>", "peer <31.7.8.1>", "<32.1.1.1>", "31.1.1.1", "203.0.113", "203.0.113.256", "203.0.113.07", "203.0.113.7.1",
		"203.0.113.7a", "203.0.113.7-rc", "203.0.113.7_x", "127.0.0.1", "0.0.0.0", "255.255.255.0", "v203.0.113.7", "version 203.0.113.7", "oid 203.0.113.7", "==203.0.113.7",
		">=203.0.113.7", "~203.0.113.7", "addr=<203.0.113.7>", "Firefox/203.0.113.7", "path/<203.0.113.7>", "lib-203.0.113.7", "lib_203.0.113.7",
		"<2001:db8::8a2e:370:7334>", "[<2001:db8::1>]:80", "<fe80::1:2>", "::1", "::", "12:30:45", "aa:bb:cc:dd:ee:ff", "a::b", "std::vector", "2001:db8::1::2", "1:2:3", "<2001:db8:0:0:0:0:0:1>", "2001:db8:0:0:0:0:0:0:1", "x2001:db8::1", "2001:db8::1g",
	)
}

func TestEmailAddressesAreRedacted(t *testing.T) {
	assertMarked(t, "email",
		"<a@b.io>", "<bob.smith+x@corp.example.com>.", "mailto:<a@b.io>", "\"<a@b.io>\"", "<a_b@b.io>", "q=<a%40b.io>&x", "a@b", "a@b.c", "a@.io", "@b.io", "a@b..io", "a@b.i0", "<a@b.xn--p1ai>", "a@b.toolongforatopleveldomain",
		"git@b.io", "x@2x.png", "x@v1.2.zip", "x@v1.2.mod", "<x@2x.photos>", "<v@vb.png>", "a@b.call(1)", "<a@b-c.io>", "<a@b.io>-", "a%41b.io", ".<a@b.io>", "-<a@b.io>", "<_a@b.io>", "a b@ c.io",
	)
}

func TestPhoneNumbersAreRedacted(t *testing.T) {
	assertMarked(t, "phone",
		"call 2026-01-31 23:59:59", "last call 2026-01-31 23", "phone <2026 01 31 23>",
		"<+14155550100>", "<+1 415 555 0100>", "<+49 30 901820>", "<+4930901820>", "<+1-415-555-0100>", "<(415) 555-0100>", "<(415)555-0100>", "<(415) 555 0100>", "<415-555-0100>", "<415.555.0100>", "<1-415-555-0100>", "call <415 555 0100>", "<415 555 0100>",
		"tel <030 901820>", "fax: <0309018201>", "+04155550100", "+1234567", "+123456789", "<+1234567890>", "+1234567890123456", "115.555.0100", "415.155.0100", "<115-155-0100>", "415-5555-0100", "4155-555-0100", "415 555 0100 12", "12 415 555 0100", "(4155) 550-100", "(<415 555-0100>",
		"tel 2026-01-31", "tel 31.01.2026", "call_4155550100", "030 901820", "0309018201", "+1 2 3 4 5 6 7 8 9", "+1130 2010", "+123.4567890", "2-415-555-0100", "a415-555-0100", "415-555-0100a", "415-555-0100-1", "415-555-0100.1",
		"telephone <030 901820>", "telling 030 901820", "phones <030 901820>", "dialed <030 901820>", "dialect 030 901820", "a tel\n030 901820", "tel\n<030 901820>", "Phone:\n  <030 901820>", "tel, or so it was said in all letters, 030 901820",
	)
}

func TestOrderPartAndVersionNumbersAreKept(t *testing.T) {
	t.Parallel()
	assertKept(t, "415 555 0123\n212 555 0199\n646 555 0101", "| 212 555 0100 | 313 444 0101 |", "a\t415 555 0123", "part no. 123-45-6789", "P/N 123-45-6789", "SKU: 219-09-9999",
		"order 4111111111111111", "invoice 5500 0000 0000 0004", "transaction id 4532015112830366", "call foo(123456789)", "BE68 12345678-1234-4234-8234-123456789abc",
		"from 52.1.33.4 to 52.1.33.5: bump x", "52.1.33.4 -> 52.1.33.5", "bump x from 52.1.33.4 to 52.1.33.5", "<version>42.33.1.50</version>", "build 203.0.113.7", "release: 203.0.113.7")
	assertMarked(t, "ssn", "ssn of part 12: <123-45-6789>", "SSN <078.05.1120>", "078.05.1120")
	assertMarked(t, "card", "card for the order <4111111111111111>")
	assertMarked(t, "phone", "415 555 0123x", "mail\n<415 555 0123>\nbye", "电话 <010-1234567>", "Tél. <01 23 45 67 89>", "my number is <4155550123>", "number 4155550123", "reach me at <07911 123456>", "<0044 20 7946 0958>", "<011 44 20 7946 0958>", "0044 20 79")
	assertMarked(t, "ip", "td=<203.0.113.7>", "VALUES (1, '<1.2.3.4>', 2)", "/v1/x <203.0.113.7>", "build agent <203.0.113.7>", "release to <203.0.113.7>", "from <1.2.3.4> to here")
}

func TestAdjacentValuesAreRedactedSeparately(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.SampledFrom([]string{"a@b.io", "c@d.io", "203.0.113.7", "+14155550100", "078-05-1120", "DE89370400440532013000", "4111111111111111"}), 1, 6).Draw(t, "values")
		between := rapid.SampledFrom([]string{" and ", ", ", "\n", "; ", "\t|\t", " (see) "}).Draw(t, "between")
		kinds := map[string]string{"a@b.io": "email", "c@d.io": "email", "203.0.113.7": "ip", "+14155550100": "phone", "078-05-1120": "ssn", "DE89370400440532013000": "iban", "4111111111111111": "card"}
		numbers, counts := map[string]int{}, map[string]int{}
		var want []string
		for _, v := range values {
			if numbers[v] == 0 {
				counts[kinds[v]]++
				numbers[v] = counts[kinds[v]]
			}
			want = append(want, fmt.Sprintf("%s%s:%d]", redact.Placeholder, kinds[v], numbers[v]))
		}
		in := strings.Join(values, between)
		if got := redact.New(true).Text(in); got != strings.Join(want, between) {
			t.Fatalf("Text(%q) = %q, want %q", in, got, strings.Join(want, between))
		}
		if got := redact.New(false).Text(in); got != in {
			t.Fatalf("redactor for secrets only: Text(%q) = %q, want it unchanged", in, got)
		}
	})
}

// A ClickHouse key begins with 4b1d, but so can a hexadecimal hash.
func TestHashIsKept(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"s_4b1d3a29139fa339a8e488d43498cba1", "commit 4b1d3a29139fa339a8e488d43498cba1c0ffee00", "4b1d3a29139fa339a8e488d43498cba1c0ffee000a1b2c3d4e5f60718293a4b5 a.tgz"} {
		if got := redact.New(true).Text(text); got != text {
			t.Errorf("Text(%q) = %q, want it unchanged", text, got)
		}
	}
}
