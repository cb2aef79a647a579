//go:build !race && linux

package redact_test

import (
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"precept/internal/redact"
)

func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_THREAD, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestRedactionTimeIsLinear(t *testing.T) {
	if testing.Short() {
		t.Skip("the test measures CPU time")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const n, times, allowed, ticks = 4 << 10, 16, 6, 12 * time.Millisecond // CPU time may be counted in ticks
	measure := func(piece string, n, times int) time.Duration {
		text := strings.Repeat(piece, n/len(piece)+1)
		begin := cpuTime(t)
		for range times {
			redact.New(true).TruncatedText(text)
			redact.New(true).JSON(nil, []byte(`{"password":"`+text+`"}`))
		}
		return cpuTime(t) - begin
	}
	for _, piece := range []string{
		"sk-", "sk-ant-", "ghp_", "xoxb-", "xapp-", "hvs.", "dp.pt.", "AIza", "dapi", "SG.", "AKIA", "AC", "Q~", "a1Q~", "eyJ", "eyJa.", "eyJhbGciOi.", "eyJhbGciO.\\n", "eyJ.\n  ",
		"LS0t", "LS0tLS1CRUdJTi", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "-----END ", "--", "--password ", "--user a:b ", "-u a:", "-u ", "Bearer ", "basic ", "authorization: a ",
		"cookie: a=b;", "cookie:a=", "cookie:a;", "cookie: a=b c ", "token=a1B2", "pass=a1B2", "token:\n a1B2", "[\"token\",\"a1B2", "auth=a", "password:", "password=\\\"", "token", "<token>", "pwd1=", "name: pwd value", "\"name\":\"pwd\",\"value\":", "value: ", "=", ":", "a:b@", "x@tcp(", "a:@unix(", "://", "http://a:", "https://hooks.slack.com/services/",
		"a@", "a@b.", "%40", "a%40b", "@", "1:", "::", "a::b", "f:", "1.", "12.34.", "1.2.3.4.", "0/", "tel 0/", "+1 ", "(", "(415) ", "phone ", "4111 ", "4111", "078-05-", "de89", "DE89 ", "GB82 WEST ",
		"SG.a1", "sc_.acc_", "sc_a.acc_b1", "123456789012345|", "ID/PW:", "ID/PW: a/", "password string = ", "password: string = ", "passe est ", "\u5bc6\u7801\u662f", "-SecureString ", "key=\"token\">", "htpasswd -b ", "pass=", "pass:", "variable \"pwd\" {", "variable \"password\" { ", ";pwd=a b", ";pwd=a,b", "<token>\n", "token?=", "pwd=a1!", "token: a = ",
		"ssw_", "a,password\n", "|token|\n", "(a,token) values (", "(a,'token) values '(", "(a,token) values ('((a1", "values (token,", "token ", "api key ", "password: a.b ", "export pwd=a&", "pwd=a;", "<pwd>a", ".s.", "a.b", "1:A", "-us1", "_mmk", "re_a", "password is ", " is the password", "x1y2z3 as my password", "**", "pwd:\n", "pwd:\x1b[", "%3D", "%25", "%2525", "\u00a0", "pwd%3D", "(\"pwd\",", "[\"pwd\",\n", "h:5432:", "h:5432:a:b:", "echo a1 | sudo -S ", " -storepass ", "{\"pwd\":{\"value\":", " by '", "\"-> \"", "setpwd(\"", "thin:a/", "пароль:",
		"\"pwd\":[\"a1\",", "\"token\":[\"a1B2\",", "&quot;", "&amp;", "&amp;quot;", "=\n", "=3D=\n", "a=\n=3", "(a,pwd) values ('''", "(a,pwd) values (\\'a", "pwd&quot;:&quot;a1", "password=3D\"", "v4.local.", "k4.secret.a1", "AQ.a1", "[REDACTED:", "[REDACTED:a:1", "\\", "\\\\", "\\u0040", "\\\"", "\\n", "_-.", " ", "\n", "é", "\xff", "7", "A1", "a1B2-",
	} {
		var small, large time.Duration
		for range 6 {
			if small, large = measure(piece, n, times), measure(piece, times*n, 1); large <= allowed*small+ticks {
				break
			}
		}
		if large > allowed*small+ticks {
			t.Errorf("%q: %d texts with %d bytes took %v, one text with %d bytes took %v, want at most %d times as long as the short texts, plus %v",
				piece, times, n, small, times*n, large, allowed, ticks)
		}
	}
}
