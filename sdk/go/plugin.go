package wasmeter

// Plugin is the set of hooks of a plugin.
type Plugin struct {
	// Init receives the configuration of the plugin, a JSON object, once in
	// each instance before any other hook. An error refuses it. Optional.
	Init func(config []byte) error

	// Request is called before a request is queued. It may deny it.
	Request func(r Request, out *Answer)

	// Shape is called just before a final document (or a stream's usage
	// chunk) is written.
	Shape func(r Request, out *Answer)

	// Chunk is called for each chunk of a stream, which is the request's
	// Document.
	Chunk func(r Request, out *Answer)

	// Finish is called once for each request, whatever its end. What it emits
	// counts together with the request's account; an error leaves the request
	// unpriced, to be finished again.
	Finish func(r Request) error

	// Events asks for Request.Events, Choices for Request.Choices,
	// RequestDocument and ResponseDocument for Request.Document in the hooks
	// Request and Shape. Asking for less makes a call cheaper.
	Events, Choices                   bool
	RequestDocument, ResponseDocument bool
}

// Hook mask bits of the ABI.
const (
	maskShape            = 1 << 0
	maskFinish           = 1 << 1
	maskRequest          = 1 << 2
	maskChunk            = 1 << 3
	maskEvents           = 1 << 8
	maskResponseDocument = 1 << 9
	maskRequestDocument  = 1 << 10
	maskChoices          = 1 << 11
)

// registered is package state because the hooks are exported functions,
// which have no receiver.
var registered Plugin

// Register makes p this module's plugin. Call it from an init function; the
// last call counts.
func Register(p Plugin) { registered = p }

// mask is what the plugin answers to the host's init.
func (p *Plugin) mask() int32 {
	var mask int32
	set := func(wanted bool, bit int32) {
		if wanted {
			mask |= bit
		}
	}
	set(p.Shape != nil, maskShape)
	set(p.Finish != nil, maskFinish)
	set(p.Request != nil, maskRequest)
	set(p.Chunk != nil, maskChunk)
	set(p.Events, maskEvents)
	set(p.Choices, maskChoices)
	set(p.RequestDocument, maskRequestDocument)
	set(p.ResponseDocument, maskResponseDocument)
	return mask
}

// answer runs a hook with out, whose memory it uses again, and gives the
// result document: nothing if the hook wrote nothing.
func answer(hook func(Request, *Answer), frame []byte, out *Answer) []byte {
	out.reset()
	hook(Request{frame}, out)
	return out.document()
}

// Level is the level of a log line.
type Level int32

// Levels.
const (
	Debug Level = iota
	Info
	Warn
	Error
)
