package host

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"
)

// Options steer the HTTP side: keys `server` and `metrics` of the configuration,
// and what of `engine` depends on who asks.
type Options struct {
	Server  ServerOptions
	Metrics MetricsOptions
	// PrefixCacheScope is who shares the keys and values of equal beginnings, key
	// engine.prefix_cache_scope: the requests of one tenant, or all. A shared
	// cache tells one tenant what another asked, by its speed. Where nobody shows
	// an API key, all are one tenant. Default tenant.
	PrefixCacheScope string
}

// The values of Options.PrefixCacheScope.
const (
	PrefixCacheTenant = "tenant"
	PrefixCacheGlobal = "global"
)

// ServerOptions say where and how the server listens.
type ServerOptions struct {
	// Host and Port are the address of the API. Defaults 127.0.0.1 and 8000;
	// port 0 takes a free one.
	Host string
	Port int
	// Insecure allows a Host beyond loopback without API keys. Default false.
	Insecure bool
	// BodyLimit bounds a request's body, in bytes. Default 16 MiB.
	BodyLimit int64
	// MaxConnections bounds the open connections. Default 16384.
	MaxConnections int
	// ShutdownTimeout is how long running requests may go on after SIGTERM.
	// Default 30 s.
	ShutdownTimeout time.Duration
}

// MetricsOptions say what responses and /metrics tell about timing.
type MetricsOptions struct {
	// LogStats keeps the aggregated series and makes timing data available to
	// responses. Default true.
	LogStats bool
	// Guarded asks for an API key on /metrics too, where keys are asked for.
	// Default false.
	Guarded bool
	// PerRequest adds the `metrics` object to responses; it needs LogStats.
	// Default false.
	PerRequest bool
	// SpecDecode is the level of metrics.speculative_decoding: none, summary or
	// detailed. Default none.
	SpecDecode string
	// ForceIncludeUsage sends a stream's usage whether the request asks or not:
	// off, final (the final chunk) or continuous (every chunk). Default off.
	ForceIncludeUsage string
	// PromptTokensDetails adds usage.prompt_tokens_details. Default true.
	PromptTokensDetails bool
}

// Default are the options that need no thought.
func Default() Options {
	return Options{
		Server: ServerOptions{
			Host:            "127.0.0.1",
			Port:            8000,
			BodyLimit:       16 << 20,
			MaxConnections:  16384,
			ShutdownTimeout: 30 * time.Second,
		},
		Metrics: MetricsOptions{
			LogStats:            true,
			SpecDecode:          "none",
			ForceIncludeUsage:   "off",
			PromptTokensDetails: true,
		},
		PrefixCacheScope: PrefixCacheTenant,
	}
}

// Address is what the API listens on.
func (o ServerOptions) Address() string { return net.JoinHostPort(o.Host, strconv.Itoa(o.Port)) }

// Open refuses to serve without API keys what other machines can reach, unless
// that is meant.
func (o ServerOptions) Open(keys int) error {
	if loopback(o.Host) || o.Insecure || keys > 0 {
		return nil
	}
	return fmt.Errorf("server.host: %s can be reached from other machines and no API keys are set; set server.api_keys_file (wasmeter keys add makes keys), use 127.0.0.1, or set server.insecure: true to serve everyone", o.Host)
}

// loopback tells whether only this machine can reach host.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// Validate collects every fault.
func (o Options) Validate() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	s, m := o.Server, o.Metrics
	check(s.Host != "", "server.host: empty; use 127.0.0.1, or 0.0.0.0 for every interface")
	check(s.Port >= 0 && s.Port <= 65535, "server.port: %d is not in 0 … 65535", s.Port)
	check(s.BodyLimit >= 1024 && s.BodyLimit <= 1<<30, "server.body_limit: %d bytes is not in 1 KiB … 1 GiB", s.BodyLimit)
	check(s.MaxConnections >= 1, "server.max_connections: %d is not at least 1", s.MaxConnections)
	check(s.ShutdownTimeout >= 0, "server.shutdown_timeout: %s is negative", s.ShutdownTimeout)
	check(oneOf(m.SpecDecode, "none", "summary", "detailed"), "metrics.spec_decode: %q is not one of none, summary, detailed", m.SpecDecode)
	check(oneOf(m.ForceIncludeUsage, "off", "final", "continuous"), "metrics.force_include_usage: %q is not one of off, final, continuous", m.ForceIncludeUsage)
	check(m.LogStats || !m.PerRequest, "metrics.per_request: per-request metrics need the engine's statistics, and metrics.log_stats is false (--disable-log-stats); drop one of the two")
	check(oneOf(o.PrefixCacheScope, PrefixCacheTenant, PrefixCacheGlobal), "engine.prefix_cache_scope: %q is not one of tenant, global", o.PrefixCacheScope)
	return errors.Join(faults...)
}

func oneOf(s string, words ...string) bool {
	for _, w := range words {
		if s == w {
			return true
		}
	}
	return false
}
