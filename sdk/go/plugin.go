package wasmeter

// Plugin is the set of hooks of a plugin.
type Plugin struct {
	// Init receives the configuration of the plugin, a JSON object, once in
	// each instance before any other hook. An error refuses it. Optional.
	Init func(config []byte) error

	// Shape is called just before a final document (or a stream's usage
	// chunk) is written. It writes the members to add to fields. Writing
	// nothing adds nothing.
	Shape func(r Request, fields *JSON)

	// Events asks for Request.Events, Choices for Request.Choices. Asking
	// for less makes a call cheaper.
	Events  bool
	Choices bool
}

// Hook mask bits of the ABI.
const (
	maskShape   = 1 << 0
	maskEvents  = 1 << 8
	maskChoices = 1 << 11
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
	if p.Shape != nil {
		mask |= maskShape
	}
	if p.Events {
		mask |= maskEvents
	}
	if p.Choices {
		mask |= maskChoices
	}
	return mask
}

// shape runs the shape hook with w, whose memory it uses again, and gives
// the result document: nothing if the hook wrote nothing.
func (p *Plugin) shape(frame []byte, w *JSON) []byte {
	if p.Shape == nil {
		return nil
	}
	const head = `{"fields":{`
	w.buf = append(w.buf[:0], head...)
	w.open = w.open[:0]
	p.Shape(Request{frame}, w)
	w.closeAll()
	if len(w.buf) == len(head) {
		return nil
	}
	w.buf = append(w.buf, "}}"...)
	return w.buf
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
