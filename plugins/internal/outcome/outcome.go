// Package outcome has the ends of requests and choices in the words of
// host/plugin/ABI.md, and the groups in which configurations speak of them.
package outcome

import wasmeter "github.com/wasmeter/wasmeter/sdk/go"

var names = [...]string{
	wasmeter.Running:        "running",
	wasmeter.Stop:           "stop",
	wasmeter.Length:         "length",
	wasmeter.ToolCalls:      "tool_calls",
	wasmeter.ClientAbort:    "client_abort",
	wasmeter.ServerError:    "server_error",
	wasmeter.Rejected:       "rejected",
	wasmeter.Deadline:       "deadline",
	wasmeter.Shutdown:       "shutdown",
	wasmeter.SlowReader:     "slow_reader",
	wasmeter.Denied:         "denied",
	wasmeter.PluginError:    "plugin_error",
	wasmeter.CrashRecovered: "crash_recovered",
}

// Name is the ABI's word for an outcome; those of a later ABI are "unknown".
func Name(o wasmeter.Outcome) string {
	if int(o) >= len(names) {
		return "unknown"
	}
	return names[o]
}

// Group says who ended a request before its time.
type Group uint8

// Groups.
const (
	Complete Group = iota // nobody: it came to its own end, or runs
	Aborted               // its client
	Failed                // the server
	Denied                // whoever did not let it begin
	NumGroups
)

// GroupOf gives the group of an outcome. What this ABI does not know is a
// failure: nobody pays for it.
func GroupOf(o wasmeter.Outcome) Group {
	switch o {
	case wasmeter.Running, wasmeter.Stop, wasmeter.Length, wasmeter.ToolCalls:
		return Complete
	case wasmeter.ClientAbort, wasmeter.SlowReader:
		return Aborted
	case wasmeter.Rejected, wasmeter.Denied:
		return Denied
	}
	return Failed
}
