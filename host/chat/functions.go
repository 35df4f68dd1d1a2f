package chat

import (
	"fmt"
	"strings"
	"time"

	"github.com/wasmeter/wasmeter/host/chat/jinja"
)

// RaisedError is a template's own refusal of a conversation, such as "Conversation roles must alternate". It is the client's to
// mend.
type RaisedError struct{ Message string }

func (e *RaisedError) Error() string {
	return "the model's chat template refuses the conversation: " + e.Message
}

// TemplateError is a fault of the template itself, which no other conversation may mend: an undefined method, no end within the
// limits.
type TemplateError struct{ Err error }

func (e *TemplateError) Error() string { return "render tokenizer.chat_template: " + e.Err.Error() }

func (e *TemplateError) Unwrap() error { return e.Err }

func raiseException(args []jinja.Value) (jinja.Value, error) {
	message := ""
	if len(args) > 0 {
		message, _ = args[0].(string)
	}
	return nil, &RaisedError{message}
}

// maxFormatBytes is far above any format of a date, whose text may be several times as long.
const maxFormatBytes = 1 << 10

// strftimeNow is the date and time in a format of C's strftime, as transformers offers it.
func strftimeNow(now func() time.Time) func([]jinja.Value) (jinja.Value, error) {
	return func(args []jinja.Value) (jinja.Value, error) {
		var format string
		if len(args) == 1 {
			format, _ = args[0].(string)
		}
		if format == "" || len(format) > maxFormatBytes {
			return nil, fmt.Errorf("takes one string, the format, of 1 to %d bytes", maxFormatBytes)
		}
		return strftime(now(), format), nil
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
