package replay

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/host/plugin"
)

// line is a frame as a ledger has it, among other members.
func line(f *plugin.Frame) string {
	return `{"attempt_id":"` + f.AttemptID + `","emitted":[{"frame":"no"}],"frame":"` +
		base64.StdEncoding.EncodeToString(f.Append(nil, plugin.HookFinish)) + "\"}\n"
}

func zip(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// attempts reads all frames and gives their attempts.
func attempts(text string) (ids []string, torn int, err error) {
	r, err := NewReader(strings.NewReader(text))
	if err != nil {
		return nil, 0, err
	}
	for {
		f, err := r.Next()
		if errors.Is(err, io.EOF) {
			return ids, r.Torn(), nil
		}
		if err != nil {
			return ids, r.Torn(), err
		}
		ids = append(ids, f.AttemptID)
	}
}

func TestReader(t *testing.T) {
	a, b := line(&plugin.Frame{AttemptID: "a"}), line(&plugin.Frame{AttemptID: "b", Model: "???>>>"})
	long := line(&plugin.Frame{AttemptID: "c", Events: make([]plugin.Event, 10_000)})
	for _, c := range []struct {
		name, text string
		want       []string
		torn       int
	}{
		{"empty", "", nil, 0},
		{"one", a, []string{"a"}, 0},
		{"several", a + long + b, []string{"a", "c", "b"}, 0},
		{"empty lines", "\n" + a + "\r\n\n" + b + "\n", []string{"a", "b"}, 0},
		{"without its last end", a + strings.TrimSuffix(b, "\n"), []string{"a", "b"}, 0},
		{"torn", a + b[:50], []string{"a"}, 50},
		{"torn in the base64", a + b[:len(b)-10], []string{"a"}, len(b) - 10},
		{"only torn", b[:50], nil, 50},
		{"blanks at the end", a + "  ", []string{"a"}, 0},
		{"spelled otherwise", ` { "x" : [ {} ] , "frame" : "` + strings.ReplaceAll(b[strings.Index(b, "V01G"):len(b)-3], "/", `\/`) + `" } ` + "\n", []string{"b"}, 0},
		{"gzip", zip(t, a+b), []string{"a", "b"}, 0},
		{"gzip of nothing", zip(t, ""), nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, torn, err := attempts(c.text)
			if err != nil || torn != c.torn || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %q, torn %d, %v; want %q, torn %d", got, torn, err, c.want, c.torn)
			}
		})
	}
	// What gzip that was cut off has in its last block can't be told.
	whole := zip(t, a+long+b)
	if got, _, err := attempts(whole[:len(whole)-20]); err != nil || len(got) == 0 || got[0] != "a" {
		t.Errorf("gzip, cut off: got %q, %v; want what is whole", got, err)
	}
}

func TestReaderRefuses(t *testing.T) {
	a := line(&plugin.Frame{AttemptID: "a"})
	bad := `{"frame":"` + base64.StdEncoding.EncodeToString([]byte("WMF1")) + "\"}\n"
	for _, c := range []struct{ name, text, want string }{
		{"text", a + "hello\n", "line 2: not a JSON object"},
		{"a list", "[]\n", "line 1: not a JSON object"},
		{"no frame", a + a + `{"attempt_id":"x"}` + "\n", `line 3: no member "frame"`},
		{"half an object, not the last", a[:40] + "\n" + a, "line 1: "},
		{"twice", `{"frame":"","frame":""}` + "\n", "line 1: "},
		{"two objects", `{"a":1}{"b":2}` + "\n", "more than one JSON object"},
		{"frame of another type", `{"frame":{}}` + "\n", "line 1: frame: {} is not a string"},
		{"no base64", `{"frame":"*"}` + "\n", "line 1: frame: illegal base64"},
		{"no frame in it", "\n" + bad + a, "line 2: 4 bytes that are no frame"},
		{"empty frame", `{"frame":""}` + "\n", "line 1: 0 bytes that are no frame"},
		{"endless", a + strings.Repeat("x", maxLine+1), "line 2: longer than"},
		{"nested", `{"a":` + strings.Repeat("[", 20_000) + "\n", "line 1: "},
		{"gzip that is none", "\x1f\x8bxxxxxxxxxxxx", "gzip: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, _, err := attempts(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %q, %v; want an error with %q", got, err, c.want)
			}
		})
	}
}

// FuzzReader: no file makes it panic, and what it reads can be copied and read
// again.
func FuzzReader(f *testing.F) {
	f.Add([]byte(line(&plugin.Frame{AttemptID: "a"})))
	f.Add([]byte(line(&plugin.Frame{})[:30]))
	f.Add([]byte(zip(f, line(&plugin.Frame{Tenant: "t"}))))
	f.Add([]byte(`{"frame":3}` + "\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := NewReader(bytes.NewReader(file))
		if err != nil {
			return
		}
		var out bytes.Buffer
		copied, err := Copy(t.Context(), &out, r, Filter{}, Keep{true, true})
		again, torn, readErr := attempts(out.String())
		if readErr != nil || torn != 0 || len(again) != copied.Requests {
			t.Errorf("%q: copied %d (%v), and of the copy %d were read, torn %d, %v", file, copied.Requests, err, len(again), torn, readErr)
		}
	})
}
