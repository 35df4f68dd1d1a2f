package host

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
)

// BenchmarkChat is a request of 16 tokens over a connection that stays open, on
// a device that takes no time, client and server in one process.
func BenchmarkChat(b *testing.B) {
	for _, c := range []struct{ name, more string }{
		{"whole", ""},
		{"streamed", `,"stream":true,"stream_options":{"include_usage":true}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			f := serve(b, nil)
			body := chatBody(`"max_tokens":16,"ignore_eos":true` + c.more)
			request := fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			b.ReportAllocs()
			b.SetParallelism(8)
			b.RunParallel(func(p *testing.PB) {
				conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
				if err != nil {
					b.Error(err)
					return
				}
				defer conn.Close()
				r := bufio.NewReader(conn)
				for p.Next() {
					if _, err := conn.Write(request); err != nil {
						b.Error(err)
						return
					}
					if err := skipAnswer(r); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// skipAnswer reads an answer to its end.
func skipAnswer(r *bufio.Reader) error {
	length := -1
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if n, ok := strings.CutPrefix(string(line), "Content-Length: "); ok {
			if _, err := fmt.Sscan(n, &length); err != nil {
				return err
			}
		}
		if len(line) == 2 {
			break
		}
	}
	if length >= 0 {
		_, err := r.Discard(length)
		return err
	}
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		var size int
		if _, err := fmt.Sscanf(string(line), "%x", &size); err != nil {
			return err
		}
		if _, err := r.Discard(size + 2); err != nil || size == 0 {
			return err
		}
	}
}
