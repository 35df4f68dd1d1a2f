package main

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"

	"github.com/wasmeter/wasmeter/config"
	"github.com/wasmeter/wasmeter/engine"
)

// newLogger writes to w from a level on, which may change.
func newLogger(w io.Writer, level *slog.LevelVar) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}

// levelOf is a level by its name; the configuration has checked the name.
func levelOf(name string) slog.Level {
	var l slog.Level
	if err := l.UnmarshalText([]byte(name)); err != nil {
		return slog.LevelInfo
	}
	return l
}

// writeBanner says what is served, and how to ask.
func writeBanner(w io.Writer, address net.Addr, c *config.Config, s *served, e *engine.Engine, plugins *generations, o *operators) error {
	shape, stats := e.Shape(), e.Stats()
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-8s %s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(&b, "\nwasmeter %s\n", version)
	size := ""
	if s.size > 0 {
		size = ", " + bytesText(s.size)
	}
	line("model", "%s (%s%s)", strings.Join(s.names, ", "), shape.Architecture, size)
	line("device", "%s", shape.Device)
	positions, memory, each := int64(stats.Blocks)*int64(c.Engine.BlockSize), "", shape.KVBytes
	if s.draft != nil {
		each += s.draft.Shape().KVBytes
	}
	if each > 0 { // a simulated cache takes none
		memory = ", " + bytesText(positions*each)
		if !shape.KVReserved {
			memory += " at most, taken as needed"
		}
	}
	line("context", "%d tokens; KV cache of %d tokens%s", e.Context(), positions, memory)
	if method := c.Engine.Speculative.Method; s.draft != nil {
		line("drafts", "%s (%s)", c.Draft.Path, s.draft.Shape().Architecture)
	} else if method != engine.SpeculativeNone {
		line("drafts", "%s", method)
	}
	for _, p := range plugins.list() {
		line("plugin", "%s, sha256 %s", p.Name(), p.Hash()[:12])
	}
	if o != nil {
		line("admin", "http://%s, token in %s", reachable(o.listener.Addr()), o.tokenFile)
	}
	url := "http://" + reachable(address)
	line("url", "%s", url)
	fmt.Fprintf(&b, `
  curl %s/v1/chat/completions -H 'Content-Type: application/json' -d '{
    "model": %s,
    "messages": [{"role": "user", "content": "Why is the sky blue?"}],
    "max_tokens": 64}'

`, url, strconv.Quote(s.names[0]))
	_, err := io.WriteString(w, b.String())
	return err
}

// reachable is an address that a client on this machine can use.
func reachable(address net.Addr) string {
	tcp, ok := address.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return address.String()
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(tcp.Port))
}
