package plugintest

import (
	"encoding/json"
	"testing"

	"github.com/wasmeter/wasmeter/host/plugin"
	wasmeter "github.com/wasmeter/wasmeter/sdk/go"
)

// resultBytes is the ABI's limit of a result.
const resultBytes = 16 << 10

// FuzzHook hands a hook any bytes as its frame: nothing panics, and what it
// answers is a JSON object that the ABI has room for.
func FuzzHook(f *testing.F, hook plugin.Hook, run func(wasmeter.Request, *wasmeter.Answer), seeds ...*plugin.Frame) {
	for _, seed := range seeds {
		f.Add(seed.Append(nil, hook))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, frame []byte) {
		wasmeter.Outside.KV = map[string][]byte{}
		var out wasmeter.Answer
		run(wasmeter.NewRequest(frame), &out)
		result := out.AppendTo(nil)
		var object map[string]json.RawMessage
		if len(result) > 0 && json.Unmarshal(result, &object) != nil || len(result) > resultBytes {
			t.Errorf("a result of %d bytes: %s", len(result), result)
		}
	})
}
