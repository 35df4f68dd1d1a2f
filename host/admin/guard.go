package admin

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/wasmeter/wasmeter/host/openai"
)

// guard refuses who must not be heard, before the route is looked at.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if refused := s.refusal(q); refused != nil {
			if refused.Status == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", "Bearer")
			}
			fail(w, refused)
			return
		}
		next.ServeHTTP(w, q)
	})
}

func (s *Server) refusal(q *http.Request) *openai.Error {
	if !s.addressed(q.Host) {
		return forbidden("wrong_host", fmt.Sprintf("the Host header %q is not this server's; ask for an IP address or localhost%s", q.Host, s.orHost()))
	}
	if len(q.Header.Values("Origin")) > 0 {
		return forbidden("from_browser", "the request comes from a page in a browser (it has an Origin header); use curl or wasmeter plugin")
	}
	if q.URL.Path == metricsPath && !s.options.GuardMetrics {
		return nil
	}
	scheme, token, _ := strings.Cut(q.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") || token == "" {
		return unauthorized("no token; send the header Authorization: Bearer TOKEN, with the token of the file that the server's log names")
	}
	if !s.token.Load().matches(strings.TrimSpace(token)) {
		return unauthorized("another token than this server's; the file that its log names has it")
	}
	return nil
}

// addressed tells whether a Host header can only have been written by someone
// who meant this server. A page of somebody's name whose address was changed to
// ours has that name there; an address can't be changed so.
func (s *Server) addressed(header string) bool {
	name, port, err := net.SplitHostPort(header)
	if err != nil {
		name, port = strings.TrimSuffix(strings.TrimPrefix(header, "["), "]"), ""
	}
	if strings.Trim(port, "0123456789") != "" {
		return false
	}
	if strings.EqualFold(name, "localhost") || s.options.Host != "" && strings.EqualFold(name, s.options.Host) {
		return true
	}
	_, err = netip.ParseAddr(name)
	return err == nil
}

// orHost names the configured host where it is a name.
func (s *Server) orHost() string {
	if _, err := netip.ParseAddr(s.options.Host); err == nil || s.options.Host == "" || s.options.Host == "localhost" {
		return ""
	}
	return " or " + s.options.Host
}

func forbidden(code, message string) *openai.Error {
	return &openai.Error{Status: http.StatusForbidden, Type: "invalid_request_error", Message: message, Code: code}
}

func unauthorized(message string) *openai.Error {
	return &openai.Error{Status: http.StatusUnauthorized, Type: "invalid_request_error", Message: message, Code: "invalid_admin_token"}
}
