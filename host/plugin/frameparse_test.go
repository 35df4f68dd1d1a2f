package plugin

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"os"
	"reflect"
	"strings"
	"testing"
)

// TestParseFrame reads the bytes that testdata/frame.py wrote.
func TestParseFrame(t *testing.T) {
	text, err := os.ReadFile("testdata/frame.hex")
	if err != nil {
		t.Fatal(err)
	}
	b, err := hex.DecodeString(strings.ReplaceAll(string(text), "\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseFrame(b)
	if err != nil {
		t.Fatal(err)
	}
	want := fullFrame()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	clear(b)
	if !reflect.DeepEqual(got, want) {
		t.Error("the frame is a view of the bytes that it was read from")
	}
}

// TestParseLaterFrame: a longer header, wider records and more strings are
// read over.
func TestParseLaterFrame(t *testing.T) {
	le := binary.LittleEndian
	const header, stride = 320, 32
	b := append([]byte(frameMagic), bytes.Repeat([]byte{0}, header-len(frameMagic))...)
	le.PutUint16(b[4:], header)
	le.PutUint32(b[32:], 7)
	le.PutUint32(b[160:], header)
	le.PutUint32(b[164:], 2)
	le.PutUint16(b[168:], stride)
	for kind := range byte(2) {
		event := bytes.Repeat([]byte{0xA5}, stride)
		copy(event, make([]byte, eventStride))
		event[8] = kind + 1
		b = append(b, event...)
	}
	const strings = stringCount + 1
	le.PutUint32(b[180:], uint32(len(b)))
	le.PutUint32(b[184:], strings)
	text := len(b) + strings*pairSize
	for i := range strings {
		b = le.AppendUint32(b, uint32(text+i))
		b = le.AppendUint32(b, 1)
	}
	b = append(b, "abcdefghijklmnX"...)
	f, err := ParseFrame(b)
	if err != nil {
		t.Fatal(err)
	}
	if f.PromptTokens != 7 || len(f.Events) != 2 || f.Events[1].Kind != EventScheduled || f.RequestID != "a" || f.SpecJSON != "n" {
		t.Errorf("got %+v", f)
	}
}

func TestParseFrameRefuses(t *testing.T) {
	le := binary.LittleEndian
	for _, c := range []struct {
		name, want string
		change     func([]byte) []byte
	}{
		{"nothing", "0 bytes that are no frame", func([]byte) []byte { return nil }},
		{"other text", "no frame", func(b []byte) []byte { return append([]byte("{"), b...) }},
		{"half a header", "200 bytes that are no frame", func(b []byte) []byte { return b[:200] }},
		{"short header", "header has 255", func(b []byte) []byte { le.PutUint16(b[4:], 255); return b }},
		{"header beyond the end", "header has 65535", func(b []byte) []byte { le.PutUint16(b[4:], 65535); return b }},
		{"cut off", "not inside", func(b []byte) []byte { return b[:len(b)-1] }},
		{"events beyond the end", "events", func(b []byte) []byte { le.PutUint32(b[164:], 1<<32-1); return b }},
		{"events of no width", "records of 0 bytes", func(b []byte) []byte { le.PutUint16(b[168:], 0); return b }},
		{"narrow choices", "records of 87 bytes", func(b []byte) []byte { le.PutUint16(b[170:], 87); return b }},
		{"choices in the header", "choices", func(b []byte) []byte { le.PutUint32(b[172:], 8); return b }},
		{"many strings", "string table", func(b []byte) []byte { le.PutUint32(b[184:], 1<<32-1); return b }},
		{"document far away", "document", func(b []byte) []byte { le.PutUint32(b[188:], 1<<32-1); return b }},
		{"strings over each other", "over each other", func(b []byte) []byte {
			for at := le.Uint32(b[180:]); at < le.Uint32(b[180:])+stringCount*pairSize; at += pairSize {
				le.PutUint32(b[at:], headerSize)
				le.PutUint32(b[at+4:], uint32(len(b)-headerSize))
			}
			return b
		}},
	} {
		if f, err := ParseFrame(c.change(fullFrame().Append(nil, HookFinish))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %+v, %v; want an error with %q", c.name, f, err, c.want)
		}
	}
}

// FuzzParseFrame: no bytes make it panic, and what it reads it reads again
// from what is written of it.
func FuzzParseFrame(f *testing.F) {
	f.Add(fullFrame().Append(nil, HookFinish))
	f.Add((&Frame{}).Append(nil, HookFinish))
	f.Add([]byte(frameMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		frame, err := ParseFrame(b)
		if err != nil {
			return
		}
		again, err := ParseFrame(frame.Append(nil, HookFinish))
		if err != nil || !reflect.DeepEqual(frame, again) {
			t.Errorf("%x: read %+v, then %+v, %v", b, frame, again, err)
		}
	})
}
