package plugin

import "github.com/tetratelabs/wazero/api"

// Names of the ABI; ABI.md is their specification.
const (
	importModule = "wasmeter_v1"
	wasiModule   = "wasi_snapshot_preview1"

	exportMemory     = "memory"
	exportMarker     = "wasmeter_abi_v1"
	exportInitialize = "_initialize"
	exportBuffer     = "wasmeter_buffer"
	exportInit       = "wasmeter_init"
	exportRequest    = "wasmeter_request"
	exportShape      = "wasmeter_shape"
	exportChunk      = "wasmeter_chunk"
	exportFinish     = "wasmeter_finish"
)

// Limits of ABI v1.
const (
	maxModuleBytes   = 32 << 20
	maxFunctionBytes = 64 << 10
	maxFunctions     = 20_000
	maxTableEntries  = 64 << 10
	maxResultBytes   = 16 << 10
	maxResultDepth   = 16
	maxDocumentDepth = 128      // of a document that replaces the answer's
	maxDocumentMore  = 64 << 10 // bytes by which it may be longer
	maxCarryBytes    = 4 << 10
	maxHeaders       = 16
	maxHeaderBytes   = 1 << 10
	maxDenyMessage   = 1 << 10
	maxRetryAfter    = 24 * 3600 // s
	maxLogLine       = 2 << 10   // also the most that one fd_write takes
	maxIovecs        = 16
	maxRandomBytes   = 256

	wasmPage = 64 << 10
)

// Hook is a moment in a request's life at which a plugin is called. The
// values are those of the frame's hook byte.
type Hook uint8

// Hooks of ABI v1.
const (
	HookRequest Hook = 1
	HookShape   Hook = 2
	HookChunk   Hook = 3
	HookFinish  Hook = 4
)

// String gives the hook's name as it stands in the name of its export.
func (h Hook) String() string {
	switch h {
	case HookRequest:
		return "request"
	case HookShape:
		return "shape"
	case HookChunk:
		return "chunk"
	case HookFinish:
		return "finish"
	}
	return "none"
}

// export gives the name of the function that is the hook.
func (h Hook) export() string { return "wasmeter_" + h.String() }

// bit gives the hook's bit of the mask.
func (h Hook) bit() mask {
	switch h {
	case HookRequest:
		return maskRequest
	case HookShape:
		return maskShape
	case HookChunk:
		return maskChunk
	}
	return maskFinish
}

// parts gives the optional parts of the frame that a plugin with mask m sees
// in this hook. A chunk hook is about a document, so it always has it; a
// finish hook comes when the documents are gone.
func (h Hook) parts(m mask) mask {
	switch h {
	case HookRequest:
		return m & maskRequestBody
	case HookShape:
		return m & (maskEvents | maskChoices | maskResponseBody)
	case HookChunk:
		return maskResponseBody
	}
	return m & (maskEvents | maskChoices)
}

// mask is what wasmeter_init returns: the hooks a plugin has and the parts
// of the frame it reads.
type mask uint32

const (
	maskShape        mask = 1 << 0
	maskFinish       mask = 1 << 1
	maskRequest      mask = 1 << 2
	maskChunk        mask = 1 << 3
	maskEvents       mask = 1 << 8
	maskResponseBody mask = 1 << 9
	maskRequestBody  mask = 1 << 10
	maskChoices      mask = 1 << 11

	maskKnown = maskShape | maskFinish | maskRequest | maskChunk | maskEvents | maskResponseBody | maskRequestBody | maskChoices
)

// signature is the type of a function, one letter for a value: i for i32, I
// for i64, f for f32, F for f64, v and r for the others (vectors and
// references, which the ABI never uses).
type signature struct{ params, results string }

func (s signature) String() string {
	word := func(letters string) string {
		text := "("
		for i := range len(letters) {
			if i > 0 {
				text += ", "
			}
			text += letterNames[letters[i]]
		}
		return text + ")"
	}
	return word(s.params) + " -> " + word(s.results)
}

var letterNames = map[byte]string{'i': "i32", 'I': "i64", 'f': "f32", 'F': "f64", 'v': "v128", 'r': "ref"}

// valueTypes gives the letters as wazero wants them; letters are i and I only.
func valueTypes(letters string) []api.ValueType {
	types := make([]api.ValueType, len(letters))
	for i := range letters {
		switch letters[i] {
		case 'i':
			types[i] = api.ValueTypeI32
		case 'I':
			types[i] = api.ValueTypeI64
		case 'F':
			types[i] = api.ValueTypeF64
		default:
			panic("plugin: no value type for letter " + letters[i:i+1])
		}
	}
	return types
}

// exportRules are the functions a plugin may export to be called, with their
// exact signatures.
var exportRules = [...]struct {
	name      string
	signature signature
	required  bool
	why       string
}{
	{exportMarker, signature{"", "i"}, true, "it names the ABI the plugin was built for"},
	{exportBuffer, signature{"i", "i"}, true, "the host writes its frames there"},
	{exportInit, signature{"i", "i"}, true, "it receives the configuration and returns the hook mask"},
	{exportInitialize, signature{"", ""}, false, ""},
	{exportRequest, signature{"i", "I"}, false, ""},
	{exportShape, signature{"i", "I"}, false, ""},
	{exportChunk, signature{"i", "I"}, false, ""},
	{exportFinish, signature{"i", "i"}, false, ""},
}

// importRule is a function of module wasmeter_v1. An import with a grant
// needs that configuration key; one with egress takes content out of the
// sandbox to where it stays.
type importRule struct {
	name      string
	signature signature
	grant     string
	egress    bool
}

var importRules = [...]importRule{
	{"log", signature{"iii", ""}, "", true},
	{"emit", signature{"iii", "i"}, "emit", true},
	{"metric_add", signature{"iiF", "i"}, "metrics", false},
	{"metric_observe", signature{"iiF", "i"}, "metrics", false},
	{"kv_get", signature{"iiii", "i"}, "kv.read", false},
	{"kv_set", signature{"iiiii", "i"}, "kv.write", true},
	{"kv_add", signature{"iiIi", "I"}, "kv.write", true},
	{"now_unix_ns", signature{"", "I"}, "clock", false},
}
