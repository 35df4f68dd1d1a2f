package chat

import (
	"fmt"
	"strings"
	"time"

	"github.com/ardanlabs/jinja"
)

// RaisedError is a template's own refusal of a conversation, such as "Conversation roles must alternate". It is the client's to
// mend.
type RaisedError struct{ Message string }

func (e *RaisedError) Error() string {
	return "the model's chat template refuses the conversation: " + e.Message
}

func raiseException(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	message := ""
	if len(args) > 0 && args[0].IsString() {
		message = args[0].AsString()
	}
	return jinja.Undefined(), &RaisedError{message}
}

// strftimeNow is the date and time in a format of C's strftime, as transformers offers it.
func strftimeNow(now func() time.Time) func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
	return func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		if len(args) != 1 || !args[0].IsString() {
			return jinja.Undefined(), fmt.Errorf("strftime_now takes one string, the format")
		}
		return jinja.NewString(strftime(now(), args[0].AsString())), nil
	}
}

// layouts are Go's words for strftime's conversions.
var layouts = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'd': "02", 'e': "_2", 'F': "2006-01-02", 'H': "15", 'I': "03",
	'j': "002", 'm': "01", 'M': "04", 'p': "PM", 'S': "05", 'T': "15:04:05", 'y': "06", 'Y': "2006", 'z': "-0700", 'Z': "MST",
}

func strftime(t time.Time, format string) string {
	var out strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			out.WriteByte(format[i])
			continue
		}
		i++
		if layout, ok := layouts[format[i]]; ok {
			out.WriteString(t.Format(layout))
			continue
		}
		if format[i] != '%' { // a conversion unknown here stays as it is
			out.WriteByte('%')
		}
		out.WriteByte(format[i])
	}
	return out.String()
}

// maxTurns bounds the items that all calls of range in one rendering may make.
const maxTurns = 1 << 18

// boundedRange is range with a budget, as the engine's own would fill the memory for one large number.
func boundedRange() func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
	left := int64(maxTurns)
	return func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		bounds := [3]int64{0, 0, 1} // start, stop, step
		if len(args) < 1 || len(args) > 3 {
			return jinja.Undefined(), fmt.Errorf("range takes 1 to 3 integers, got %d", len(args))
		}
		for i, arg := range args {
			if !arg.IsInt() {
				return jinja.Undefined(), fmt.Errorf("range takes integers, got %s", arg)
			}
			bounds[i] = arg.AsInt()
		}
		start, stop, step := bounds[0], bounds[1], bounds[2]
		if len(args) == 1 {
			start, stop = 0, bounds[0]
		}
		if step == 0 {
			return jinja.Undefined(), fmt.Errorf("range takes a step other than 0")
		}
		var items []jinja.Value
		for n := start; step > 0 && n < stop || step < 0 && n > stop; n += step {
			if left--; left < 0 {
				return jinja.Undefined(), fmt.Errorf("range makes more than %d items in one prompt", maxTurns)
			}
			items = append(items, jinja.NewInt(n))
		}
		return jinja.NewList(items), nil
	}
}
