package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/wasmeter/wasmeter/host/plugin"
	"github.com/wasmeter/wasmeter/plugins"
)

// current is the default plugin, compiled once for all tests.
var current = sync.OnceValues(func() (*plugin.Current, error) {
	ctx := context.Background()
	h, err := plugin.NewHost(ctx, plugin.Options{})
	if err != nil {
		return nil, err
	}
	c := plugin.NewCurrent(h)
	return c, c.Reload(ctx, []plugin.Spec{{
		Name: "metrics", Wasm: plugins.Module("metrics"), Grants: plugin.Grants{Fields: []string{"metrics"}},
		Match: plugin.Match{Endpoints: []string{"chat"}},
	}})
})

const secret = "0123456789abcdef-secret"

// operators is a server with what it was asked to do.
type operators struct {
	*Server
	t          *testing.T
	reloads    int
	reloadFail error
}

func newOperators(t *testing.T, change func(*Options)) *operators {
	t.Helper()
	plugins, err := current()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	token, err := ReadToken(file)
	if err != nil {
		t.Fatal(err)
	}
	o := &operators{t: t}
	options := Options{
		Token: token, Host: "ops.example", Plugins: plugins,
		Reload: func(context.Context) error { o.reloads++; return o.reloadFail },
		Scrape: func(w io.Writer, accept string) (string, error) {
			_, err := io.WriteString(w, "series "+accept)
			return "text/plain; of=prometheus", err
		},
	}
	if change != nil {
		change(&options)
	}
	o.Server = New(options)
	return o
}

// ask asks with the token, if the headers say nothing else. A header with an
// empty value is not sent.
func (o *operators) ask(method, target string, headers ...string) *httptest.ResponseRecorder {
	o.t.Helper()
	q := httptest.NewRequest(method, target, nil)
	q.Host = "127.0.0.1:8001"
	q.Header.Set("Authorization", "Bearer "+secret)
	for i := 0; i < len(headers); i += 2 {
		switch {
		case headers[i] == "Host":
			q.Host = headers[i+1]
		case headers[i+1] == "":
			q.Header.Del(headers[i])
		default:
			q.Header.Set(headers[i], headers[i+1])
		}
	}
	w := httptest.NewRecorder()
	o.HTTP().Handler.ServeHTTP(w, q)
	return w
}

// code is the error's code in an answer, "" for none.
func code(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	var e struct {
		Error struct{ Code, Message string }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil {
		t.Fatalf("%v in %q", err, w.Body)
	}
	if w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("an error as %q", w.Header().Get("Content-Type"))
	}
	if e.Error.Code != "" && e.Error.Message == "" {
		t.Errorf("an error without a message: %s", w.Body)
	}
	return e.Error.Code
}

func TestRefusals(t *testing.T) {
	o := newOperators(t, nil)
	for _, c := range []struct {
		name, method, target string
		headers              []string
		status               int
		code                 string
	}{
		{"good", "GET", "/admin/plugins", nil, 200, ""},
		{"scheme in other letters", "GET", "/admin/plugins", []string{"Authorization", "bearer " + secret}, 200, ""},
		{"no token", "GET", "/admin/plugins", []string{"Authorization", ""}, 401, "invalid_admin_token"},
		{"no scheme", "GET", "/admin/plugins", []string{"Authorization", secret}, 401, "invalid_admin_token"},
		{"basic", "GET", "/admin/plugins", []string{"Authorization", "Basic " + secret}, 401, "invalid_admin_token"},
		{"another token", "GET", "/admin/plugins", []string{"Authorization", "Bearer " + secret[1:]}, 401, "invalid_admin_token"},
		{"a longer token", "GET", "/admin/plugins", []string{"Authorization", "Bearer " + secret + "0"}, 401, "invalid_admin_token"},
		{"empty token", "GET", "/admin/plugins", []string{"Authorization", "Bearer "}, 401, "invalid_admin_token"},
		{"token in the address", "GET", "/admin/plugins?token=" + secret, []string{"Authorization", ""}, 401, "invalid_admin_token"},
		{"a token before a route", "GET", "/admin/nothing", []string{"Authorization", ""}, 401, "invalid_admin_token"},

		{"localhost", "GET", "/admin/plugins", []string{"Host", "localhost:8001"}, 200, ""},
		{"no port", "GET", "/admin/plugins", []string{"Host", "LOCALHOST"}, 200, ""},
		{"IPv6", "GET", "/admin/plugins", []string{"Host", "[::1]:8001"}, 200, ""},
		{"IPv6 without port", "GET", "/admin/plugins", []string{"Host", "[::1]"}, 200, ""},
		{"the pod's address", "GET", "/admin/plugins", []string{"Host", "10.1.2.3:8001"}, 200, ""},
		{"the configured name", "GET", "/admin/plugins", []string{"Host", "Ops.Example:8001"}, 200, ""},
		{"rebound name", "GET", "/admin/plugins", []string{"Host", "evil.example:8001"}, 403, "wrong_host"},
		{"name that begins well", "GET", "/admin/plugins", []string{"Host", "localhost.evil.example"}, 403, "wrong_host"},
		{"address in a name", "GET", "/admin/plugins", []string{"Host", "127.0.0.1.nip.io:8001"}, 403, "wrong_host"},
		{"strange port", "GET", "/admin/plugins", []string{"Host", "127.0.0.1:8001.evil.example"}, 403, "wrong_host"},
		{"no host", "GET", "/admin/plugins", []string{"Host", ""}, 403, "wrong_host"},
		{"rebound name, metrics", "GET", "/metrics", []string{"Host", "evil.example"}, 403, "wrong_host"},

		{"browser", "POST", "/admin/plugins/reload", []string{"Origin", "http://evil.example"}, 403, "from_browser"},
		{"browser, same origin", "POST", "/admin/plugins/reload", []string{"Origin", "http://127.0.0.1:8001"}, 403, "from_browser"},
		{"browser, hidden origin", "POST", "/admin/plugins/reload", []string{"Origin", "null"}, 403, "from_browser"},
		{"browser, metrics", "GET", "/metrics", []string{"Origin", "null"}, 403, "from_browser"},

		{"effect by GET", "GET", "/admin/plugins/reload", nil, 405, "method_not_allowed"},
		{"effect by HEAD", "HEAD", "/admin/plugins/metrics/disable", nil, 405, "method_not_allowed"},
		{"disable by GET", "GET", "/admin/plugins/metrics/disable", nil, 405, "method_not_allowed"},
		{"enable by PUT", "PUT", "/admin/plugins/metrics/enable", nil, 405, "method_not_allowed"},
		{"self-test by GET", "GET", "/admin/plugins/metrics/selftest", nil, 405, "method_not_allowed"},
		{"list by POST", "POST", "/admin/plugins", nil, 405, "method_not_allowed"},
		{"metrics by POST", "POST", "/metrics", nil, 405, "method_not_allowed"},
		{"unknown path", "GET", "/plugins", nil, 404, "unknown_url"},
		{"unknown action", "POST", "/admin/plugins/metrics/delete", nil, 404, "unknown_url"},
		{"unknown plugin", "POST", "/admin/plugins/billing/disable", nil, 404, "plugin_not_found"},
		{"unknown plugin to enable", "POST", "/admin/plugins/billing/enable", nil, 404, "plugin_not_found"},
		{"unknown plugin to try", "POST", "/admin/plugins/%2e%2e%2f/selftest", nil, 404, "plugin_not_found"},
	} {
		w := o.ask(c.method, c.target, c.headers...)
		if w.Code != c.status || code(t, w) != c.code {
			t.Errorf("%s: got %d %s, want %d %s", c.name, w.Code, w.Body, c.status, c.code)
		}
		if strings.Contains(w.Body.String(), secret) {
			t.Errorf("%s: the token is in the answer: %s", c.name, w.Body)
		}
		if asked := w.Header().Get("WWW-Authenticate"); (asked == "Bearer") != (c.status == 401) {
			t.Errorf("%s: asks for %q", c.name, asked)
		}
		if c.status == 405 && w.Header().Get("Allow") == "" {
			t.Errorf("%s: a 405 that does not say what is allowed", c.name)
		}
	}
	if o.reloads != 0 {
		t.Errorf("%d reloads by requests that were refused", o.reloads)
	}
	if s := o.only(); s.Disabled {
		t.Error("a refused request has disabled the plugin")
	}
}

func (o *operators) only() Plugin {
	o.t.Helper()
	var list Plugins
	if err := json.Unmarshal(o.ask("GET", "/admin/plugins").Body.Bytes(), &list); err != nil || len(list.Plugins) != 1 {
		o.t.Fatalf("got %+v, %v; want one plugin", list, err)
	}
	return list.Plugins[0]
}

// TestList: the document has what operators look for, by the names of the
// configuration.
func TestList(t *testing.T) {
	o := newOperators(t, nil)
	var got map[string]any
	if err := json.Unmarshal(o.ask("GET", "/admin/plugins").Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	p := got["plugins"].([]any)[0].(map[string]any)
	if loaded, _ := p["loaded_at"].(string); !strings.HasSuffix(loaded, "Z") {
		t.Errorf("loaded_at is %v, want a time in UTC", p["loaded_at"])
	}
	if n, _ := p["memory_bytes"].(float64); n < 65536 { // an instance was made to try it
		t.Errorf("memory_bytes is %v", p["memory_bytes"])
	}
	delete(p, "loaded_at")
	delete(p, "memory_bytes")
	text, err := json.Marshal(got) // in the order of the names
	if err != nil {
		t.Fatal(err)
	}
	hash := o.only().SHA256
	want := `{"generation":1,"plugins":[{"breaker":"closed","calls":0,"disabled":false,"failures":0,"generation":1,"grants":{"fields":["metrics"]},` +
		`"hooks":["shape"],"instances":1,"last_error":null,"match":{"endpoints":["chat"]},"name":"metrics","on_error":"open","recycles":0,"sha256":"` + hash + `","source":"builtin"}]}`
	if string(text) != want || len(hash) != 64 {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

func TestDescribe(t *testing.T) {
	all := plugin.Status{
		Name: "p", Path: "p.wasm", Policy: plugin.Closed, Disabled: true,
		Grants: plugin.Grants{
			Fields: []string{"a"}, UsageExtend: []string{"b"}, Headers: []string{"x-c"}, Emit: true, Metrics: true, Clock: true,
			KVRead: true, KVWrite: true, ReadRequest: true, ReadResponse: true, ContentEgress: true, Rewrite: true, Deny: true,
		},
		Stats:       plugin.Stats{Breaker: plugin.BreakerOpen, Recycled: 3},
		LastFailure: &plugin.LastFailure{RequestID: "req-1", Failure: &plugin.Failure{Plugin: "p", Hook: plugin.HookFinish, Kind: plugin.FailureTrap, Err: errors.New("unreachable")}},
	}
	text, err := json.Marshal(describePlugin(&all))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"source":"p.wasm"`, `"disabled":true`, `"breaker":"open"`, `"on_error":"closed"`, `"recycles":3`, `"hooks":[]`,
		`"grants":{"fields":["a"],"usage_extend":["b"],"headers":["x-c"],"emit":true,"metrics":true,"clock":true,"kv":{"read":true,"write":true},"read":{"request":true,"response":true},"content_egress":true,"rewrite":true,"deny":true}`,
		`"hook":"finish","kind":"trap","message":"unreachable","request_id":"req-1"`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}

func TestEffects(t *testing.T) {
	o := newOperators(t, nil)
	for _, c := range []struct {
		action   string
		disabled bool
	}{{"disable", true}, {"disable", true}, {"enable", false}} {
		w := o.ask("POST", "/admin/plugins/metrics/"+c.action)
		var p Plugin
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != 200 || p.Name != "metrics" || p.Disabled != c.disabled {
			t.Errorf("%s: got %d %s", c.action, w.Code, w.Body)
		}
		if got := o.only().Disabled; got != c.disabled {
			t.Errorf("after %s: disabled is %v", c.action, got)
		}
	}

	w := o.ask("POST", "/admin/plugins/metrics/selftest")
	var test SelfTest
	if err := json.Unmarshal(w.Body.Bytes(), &test); err != nil || !test.Passed || len(test.Calls) != 3 {
		t.Fatalf("self-test: got %d %s", w.Code, w.Body)
	}
	for _, call := range test.Calls {
		if call.Hook != "shape" || !call.OK || call.Fuel < 1000 || call.DurationMillis <= 0 || call.Error != "" {
			t.Errorf("self-test: %+v", call)
		}
	}
	failed := describeTrials("p", []plugin.Trial{{Hook: plugin.HookShape}, {Hook: plugin.HookFinish, Err: errors.New("trap: unreachable")}})
	if failed.Passed || !failed.Calls[0].OK || failed.Calls[1].OK || failed.Calls[1].Error != "trap: unreachable" {
		t.Errorf("a self-test that fails: %+v", failed)
	}

	if w := o.ask("POST", "/admin/plugins/reload"); w.Code != 200 || o.reloads != 1 || !strings.Contains(w.Body.String(), `"name":"metrics"`) {
		t.Errorf("reload: %d %s, %d times", w.Code, w.Body, o.reloads)
	}
	o.reloadFail = errors.New(`plugin "billing": no such file`)
	if w := o.ask("POST", "/admin/plugins/reload"); w.Code != http.StatusConflict || code(t, w) != "reload_failed" || !strings.Contains(w.Body.String(), "no such file") {
		t.Errorf("reload that fails: %d %s", w.Code, w.Body)
	}
}

func TestMetrics(t *testing.T) {
	open := newOperators(t, nil)
	w := open.ask("GET", "/metrics", "Authorization", "", "Accept", "text/x")
	if w.Code != 200 || w.Body.String() != "series text/x" || w.Header().Get("Content-Type") != "text/plain; of=prometheus" {
		t.Errorf("open: %d %s", w.Code, w.Body)
	}
	guarded := newOperators(t, func(o *Options) { o.GuardMetrics = true })
	if w := guarded.ask("GET", "/metrics", "Authorization", ""); w.Code != 401 {
		t.Errorf("guarded, without a token: %d %s", w.Code, w.Body)
	}
	if w := guarded.ask("GET", "/metrics"); w.Code != 200 {
		t.Errorf("guarded, with the token: %d %s", w.Code, w.Body)
	}
	broken := newOperators(t, func(o *Options) {
		o.Scrape = func(io.Writer, string) (string, error) { return "", errors.New("two series are one") }
	})
	if w := broken.ask("GET", "/metrics"); w.Code != 500 || !strings.Contains(w.Body.String(), "two series are one") {
		t.Errorf("broken: %d %s", w.Code, w.Body)
	}
}

func TestSetToken(t *testing.T) {
	o := newOperators(t, nil)
	file := filepath.Join(t.TempDir(), "next")
	next, err := MakeToken(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := ReadTokenText(file)
	if err != nil {
		t.Fatal(err)
	}
	o.SetToken(next)
	if w := o.ask("GET", "/admin/plugins"); w.Code != 401 {
		t.Errorf("the token before: %d", w.Code)
	}
	if w := o.ask("GET", "/admin/plugins", "Authorization", "Bearer "+text); w.Code != 200 {
		t.Errorf("the next token: %d %s", w.Code, w.Body)
	}
}

// FuzzAddressed: a Host header that is let through is an address, localhost or
// the configured name, whatever else stands in it.
func FuzzAddressed(f *testing.F) {
	for _, host := range []string{"", "localhost", "127.0.0.1:8001", "[::1]:8001", "[::1", "::1", "a:b:c", "ops.example:1", "[fe80::1%eth0]:80", "127.0.0.1:8001.evil", "localhost:"} {
		f.Add(host)
	}
	s := &Server{options: Options{Host: "ops.example"}}
	f.Fuzz(func(t *testing.T, host string) {
		if !s.addressed(host) {
			return
		}
		// By net/url, which reads a Host as browsers do.
		u, err := url.Parse("http://" + strings.ReplaceAll(host, "%", "%25"))
		if err != nil {
			return // no browser sends it
		}
		name := u.Hostname()
		if _, err := netip.ParseAddr(name); err != nil && !strings.EqualFold(name, "localhost") && !strings.EqualFold(name, "ops.example") {
			// An IPv6 address without brackets reads as a name and a port.
			if _, err := netip.ParseAddr(host); err != nil {
				t.Errorf("%q is let through, and means %q", host, name)
			}
		}
	})
}
