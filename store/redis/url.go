package redis

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

type address struct {
	goredis.UniversalOptions
	prefix    string
	tlsParams tlsParams
}

// parseURL parses an address in one of these forms:
//
//	redis://[user:password@]host[:port][/db]                        one server; rediss:// with TLS
//	redis://[user:password@]host:port,host:port,...?cluster=true    a Cluster, through any node
//	redis-sentinel://[user:password@]host:port,...[/db]?master=NAME
//	          a Sentinel group; user and password are the servers'
//
// Further parameters: prefix=NAME (of the keys; default precept), tls=true, skip_verify=true (accept every
// certificate), ca_file, cert_file, key_file and server_name (see tlsParams), sentinel_user, sentinel_password, and
// addr=HOST:PORT (repeatable, instead of a list of hosts).
//
// Since Go 1.26, net/url refuses lists of hosts, so parseURL parses the hosts itself. Errors never quote the address,
// which can contain a password.
func parseURL(text string) (a address, err error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return a, fmt.Errorf("%w: write redis://host:6379/0", ErrURL)
	}
	rest, query, _ := strings.Cut(rest, "?")
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		if err := a.parseLogin(rest[:i]); err != nil {
			return a, err
		}
		rest = rest[i+1:]
	}
	hosts, db, _ := strings.Cut(rest, "/")
	if db = strings.Trim(db, "/"); db != "" {
		if a.DB, err = strconv.Atoi(db); err != nil || a.DB < 0 {
			return a, fmt.Errorf("%w: the database after the host must be a number, such as /0", ErrURL)
		}
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return a, fmt.Errorf("%w: the parameters after the question mark cannot be parsed", ErrURL)
	}
	list := append(strings.Split(hosts, ","), values["addr"]...)
	delete(values, "addr")
	if err := a.parseOptions(scheme, values); err != nil {
		return a, err
	}
	return a, a.parseHosts(list)
}

// DataName returns the address parts that name the stored data: the servers, the database and the prefix. A new
// password or certificate does not change it.
func DataName(text string) (string, error) {
	a, err := parseURL(text)
	slices.Sort(a.Addrs)
	return fmt.Sprint(a.Addrs, a.MasterName, a.DB, a.prefix), err
}

// CheckURL reports why the address cannot be used, without quoting it.
func CheckURL(text string) error {
	_, err := parseURL(text)
	return err
}

func (a *address) parseLogin(text string) error {
	user, password, _ := strings.Cut(text, ":")
	var err error
	if a.Username, err = url.PathUnescape(user); err == nil {
		a.Password, err = url.PathUnescape(password)
	}
	if err != nil {
		return fmt.Errorf("%w: the user or the password contains a percent sign; write %% as %%25", ErrURL)
	}
	return nil
}

func (a *address) parseOptions(scheme string, values url.Values) error {
	a.prefix = "precept"
	switch scheme {
	case "redis", "redis-sentinel":
	case "rediss":
		a.tlsParams.enabled = true
	default:
		return fmt.Errorf("%w: the URL must begin with redis://, rediss:// or redis-sentinel://", ErrURL)
	}
	stringParams := map[string]*string{
		"prefix": &a.prefix, "master": &a.MasterName, "master_name": &a.MasterName,
		"sentinel_user": &a.SentinelUsername, "sentinel_password": &a.SentinelPassword,
		"server_name": &a.tlsParams.serverName, "ca_file": &a.tlsParams.caFile, "cert_file": &a.tlsParams.certFile, "key_file": &a.tlsParams.keyFile,
	}
	boolParams := map[string]*bool{"cluster": &a.IsClusterMode, "tls": &a.tlsParams.enabled, "skip_verify": &a.tlsParams.skipVerify}
	for name, list := range values {
		v := list[len(list)-1]
		if text, ok := stringParams[name]; ok {
			*text = v
		} else if flag, ok := boolParams[name]; ok {
			value, err := strconv.ParseBool(v)
			if err != nil {
				return fmt.Errorf("%w: %s must be true or false", ErrURL, name)
			}
			*flag = value
		} else {
			return fmt.Errorf("%w: %q is not a parameter; docs/OPERATIONS.md lists the parameters", ErrURL, name)
		}
	}
	for _, name := range []string{"server_name", "ca_file", "cert_file", "key_file"} { // each of these turns TLS on
		a.tlsParams.enabled = a.tlsParams.enabled || values.Has(name)
	}
	return a.checkParams(scheme)
}

func (a *address) checkParams(scheme string) error {
	switch {
	case a.prefix == "" || strings.ContainsAny(a.prefix, "{}*?[] \t\r\n"):
		return fmt.Errorf("%w: the prefix must be one word, without braces, brackets, * or ?", ErrURL)
	case scheme == "redis-sentinel" && a.MasterName == "":
		return fmt.Errorf("%w: a Sentinel address needs the group's name; add master=NAME", ErrURL)
	case a.IsClusterMode && a.MasterName != "":
		return fmt.Errorf("%w: cluster=true and master=NAME cannot be combined; remove one", ErrURL)
	case a.IsClusterMode && a.DB != 0:
		return fmt.Errorf("%w: a Cluster has only database 0; remove the database after the host", ErrURL)
	}
	return nil
}

func (a *address) parseHosts(list []string) error {
	defaultPort := "6379"
	if a.MasterName != "" {
		defaultPort = "26379"
	}
	for _, h := range list {
		if h == "" && len(list) > 1 {
			continue
		}
		host, hostPort, err := net.SplitHostPort(h)
		if err != nil {
			host, hostPort = strings.Trim(h, "[]"), defaultPort
		}
		if host == "" {
			return fmt.Errorf("%w: the host is missing", ErrURL)
		}
		if _, err := strconv.ParseUint(hostPort, 10, 16); err != nil {
			return fmt.Errorf("%w: the port must be a number from 0 to 65535", ErrURL)
		}
		a.Addrs = append(a.Addrs, net.JoinHostPort(host, hostPort))
	}
	if len(a.Addrs) == 0 {
		return fmt.Errorf("%w: the host is missing", ErrURL)
	}
	if len(a.Addrs) > 1 && !a.IsClusterMode && a.MasterName == "" {
		return fmt.Errorf("%w: several hosts need cluster=true for a Cluster, or master=NAME for a Sentinel group", ErrURL)
	}
	var err error
	a.TLSConfig, err = a.tlsParams.config()
	return err
}

// connect returns a client with all time limits set, because the library's default for a server that hangs is ten
// seconds. onConnect is called for every new connection.
func (a *address) connect(timeout time.Duration, onConnect func()) client {
	o := a.UniversalOptions
	o.OnConnect = func(context.Context, *goredis.Conn) error { onConnect(); return nil }

	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = dialTimeout, timeout, timeout, poolTimeout
	o.ContextTimeoutEnabled = true
	o.MaxRetries = -1 // callers retry failed writes
	o.DialerRetries = 1
	o.PoolSize, o.PipelinePoolSize, o.ConnMaxIdleTime = poolSize, -1, connIdle
	o.MaxRedirects = 3

	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	logging.Disable() // the library would log each failed dial
	c := goredis.NewUniversalClient(&o)
	c.AddHook(pipelineErrors{})
	return c
}
