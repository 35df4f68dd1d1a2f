package replay

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/wasmeter/wasmeter/host/plugin"
)

// secret stands for what somebody wrote to the model.
const secret = "my secret"

// secretive is a frame with the secret wherever a client or a plugin could
// have put it.
func secretive() *plugin.Frame {
	return &plugin.Frame{
		ArrivalUnixNS: 1_764_000_000_000_000_001, PromptTokens: 3, CompletionTokens: 5,
		RequestID: secret + " as an id", ClientRequestID: secret + " as an id", IdempotencyKey: secret, ServiceTier: secret,
		Metadata: `{"note":"` + secret + `"}`, Carry: secret, Document: []byte(`{"prompt":"` + secret + `"}`),
		AttemptID: "attempt", Model: "m", Tenant: "acme", KeyName: "k", UserHash: "u", ChainID: "c", SpecJSON: `{"n":1}`,
		Choices: []plugin.Choice{{PromptTokens: 3}}, Events: []plugin.Event{{TimeNS: 1}},
	}
}

func copyOf(t *testing.T, text string, filter Filter, keep Keep) (*bytes.Buffer, Copied) {
	t.Helper()
	r, err := NewReader(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	copied, err := Copy(t.Context(), &out, r, filter, keep)
	if err != nil {
		t.Fatal(err)
	}
	return &out, copied
}

// frames decodes a copy with the standard library, which did not write it.
func frames(t *testing.T, text string) [][]byte {
	t.Helper()
	var list [][]byte
	for l := range strings.Lines(text) {
		var members map[string]string
		if err := json.Unmarshal([]byte(l), &members); err != nil || len(members) != 1 {
			t.Fatalf("%v: %q has %d members, want frame alone", err, l, len(members))
		}
		frame, err := base64.StdEncoding.DecodeString(members["frame"])
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, frame)
	}
	return list
}

// TestCopyHasNoSecrets: neither what stands on the line, nor what the frame
// says, nor bytes of it that no field is about.
func TestCopyHasNoSecrets(t *testing.T) {
	frame := secretive()
	b := frame.Append(nil, plugin.HookShape)
	copy(b[196:256], secret) // reserved
	b = append(b, secret...)
	ledger := `{"prompt":"` + secret + `","emitted":[{"data":"` + secret + `"}],"frame":"` + base64.StdEncoding.EncodeToString(b) + "\"}\n"
	out, _ := copyOf(t, ledger, Filter{}, Keep{})
	got := frames(t, out.String())
	if len(got) != 1 || bytes.Contains(got[0], []byte(secret)) || strings.Contains(out.String(), secret) {
		t.Fatalf("got %q", got)
	}
	read, err := plugin.ParseFrame(got[0])
	if err != nil {
		t.Fatal(err)
	}
	// What prices may depend on is as it was.
	want := secretive()
	want.RequestID, want.ClientRequestID, want.IdempotencyKey, want.ServiceTier, want.Metadata, want.Carry, want.Document = "", "", "", "", "", "", nil
	if !reflect.DeepEqual(read, want) {
		t.Errorf("got  %+v\nwant %+v", read, want)
	}
}

func TestCopyKeeps(t *testing.T) {
	for _, c := range []struct {
		name string
		keep Keep
		have func(*plugin.Frame)
		want func(*plugin.Frame) bool
	}{
		{"metadata", Keep{Metadata: true}, nil, func(f *plugin.Frame) bool { return f.Metadata != "" && f.RequestID == "" && f.Document == nil }},
		{"ids", Keep{ClientIDs: true}, nil, func(f *plugin.Frame) bool {
			return f.RequestID != "" && f.ClientRequestID != "" && f.IdempotencyKey != "" && f.Metadata == ""
		}},
		{"the server's own id", Keep{}, func(f *plugin.Frame) { f.RequestID, f.ClientRequestID = "req-1", "" }, func(f *plugin.Frame) bool { return f.RequestID == "req-1" }},
		{"a tier", Keep{}, func(f *plugin.Frame) { f.ServiceTier = "Flex-2" }, func(f *plugin.Frame) bool { return f.ServiceTier == "Flex-2" }},
		{"no tier", Keep{}, func(f *plugin.Frame) { f.ServiceTier = strings.Repeat("a", 33) }, func(f *plugin.Frame) bool { return f.ServiceTier == "" }},
	} {
		frame := secretive()
		if c.have != nil {
			c.have(frame)
		}
		out, _ := copyOf(t, line(frame), Filter{}, c.keep)
		read, err := plugin.ParseFrame(frames(t, out.String())[0])
		if err != nil || !c.want(read) {
			t.Errorf("%s: got %+v, %v", c.name, read, err)
		}
	}
}

func TestFilter(t *testing.T) {
	at := func(hour int) time.Time { return time.Date(2026, 11, 28, hour, 0, 0, 0, time.UTC) }
	var ledger string
	for _, f := range []struct {
		hour                   int
		attempt, tenant, model string
	}{{1, "a", "acme", "big"}, {2, "b", "acme-eu", "small"}, {3, "c", "other", "small"}, {4, "d", "", "big"}} {
		ledger += line(&plugin.Frame{AttemptID: f.attempt, Tenant: f.tenant, Model: f.model, ArrivalUnixNS: uint64(at(f.hour).UnixNano())})
	}
	for _, c := range []struct {
		name   string
		filter Filter
		want   string
	}{
		{"all", Filter{}, "abcd"},
		{"since", Filter{Since: at(3)}, "cd"},
		{"until", Filter{Until: at(3)}, "ab"},
		{"an hour", Filter{Since: at(2), Until: at(3)}, "b"},
		{"tenant", Filter{Tenants: []string{"acme"}}, "a"},
		{"tenants", Filter{Tenants: []string{"acme*"}}, "ab"},
		{"no tenant", Filter{Tenants: []string{""}}, "d"},
		{"any tenant", Filter{Tenants: []string{"*"}}, "abcd"},
		{"models", Filter{Models: []string{"none", "small"}}, "bc"},
		{"both", Filter{Models: []string{"small"}, Tenants: []string{"other"}}, "c"},
	} {
		out, copied := copyOf(t, ledger, c.filter, Keep{})
		ids, _, err := attempts(out.String())
		if got := strings.Join(ids, ""); got != c.want || err != nil || copied.Requests != len(c.want) || copied.Skipped != 4-len(c.want) {
			t.Errorf("%s: got %q, %+v, %v; want %q", c.name, got, copied, err, c.want)
		}
	}
	if _, copied := copyOf(t, ledger, Filter{}, Keep{}); !copied.First.Equal(at(1)) || !copied.Last.Equal(at(4)) {
		t.Errorf("got %v to %v, want the first and the last arrival", copied.First, copied.Last)
	}
}
