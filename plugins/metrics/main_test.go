package main

import (
	"testing"

	"github.com/wasmeter/wasmeter/host/plugin"
	wasmeter "github.com/wasmeter/wasmeter/sdk/go"
)

// native runs the hook as an ordinary function of this program.
func native(frame *plugin.Frame) string {
	var out wasmeter.Answer
	shape(wasmeter.NewRequest(frame.Append(nil, plugin.HookShape)), &out)
	return string(out.Fields.AppendTo(nil))
}

// Numbers at the edges, worked out by hand.
func TestTiming(t *testing.T) {
	const last = 1<<64 - 1
	for _, c := range []struct {
		name string
		timing
		want string
	}{
		{"nothing happened", timing{}, `null,null,null,null,null`},
		{"one token", timing{1, 2, 3, 3, 1}, `0.000001,0.0,0.000001,null,1000000000.0`},
		{"no time at all", timing{5, 5, 5, 5, 3}, `0.0,0.0,0.0,0.0,null`},
		{"half a nanosecond rounds up", timing{1, 1, 1, 4, 3}, `0.0,0.000003,0.0,0.000002,1000000000.0`},
		{"a third of a nanosecond rounds down", timing{1, 1, 1, 2, 4}, `0.0,0.000001,0.0,0.0,4000000000.0`},
		{"longest and most", timing{1, 1, 1, last, 1<<32 - 1}, `0.0,18446744073709.551614,0.0,4294.967298,0.232831`},
		{"most in a nanosecond", timing{1, 1, 1, 2, 1<<32 - 1}, `0.0,0.000001,0.0,0.0,4294967295000000000.0`},
		{"queued after scheduled", timing{9, 2, 3, 10, 2}, `0.000001,0.000007,null,0.000007,250000000.0`},
		{"first before scheduled", timing{1, 5, 4, 8, 2}, `null,0.000004,0.000004,0.000004,666666666.666667`},
	} {
		var w wasmeter.JSON
		c.write(w.List("metrics"))
		if got := string(w.AppendTo(nil)); got != `"metrics":[`+c.want+`]` {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}
