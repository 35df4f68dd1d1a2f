package wasm

import (
	"math"
	"strings"
	"testing"
)

// The encodings are the examples and edge cases of LEB128 in the
// specification, chapter 5.2.2.
func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		name   string
		signed bool
		bits   int
		bytes  string
		want   int64
		fault  string
	}{
		{"zero", false, 32, "\x00", 0, ""},
		{"one byte", false, 32, "\x7f", 127, ""},
		{"two bytes", false, 32, "\x80\x01", 128, ""},
		{"longer than needed", false, 32, "\x83\x00", 3, ""},
		{"largest u32", false, 32, "\xff\xff\xff\xff\x0f", math.MaxUint32, ""},
		{"u32 with a bit too many", false, 32, "\xff\xff\xff\xff\x1f", 0, "more than 32 bits"},
		{"u32 of six bytes", false, 32, "\x80\x80\x80\x80\x80\x00", 0, "more than 32 bits"},
		{"u32 cut off", false, 32, "\x80", 0, "cut off"},
		{"minus one", true, 32, "\x7f", -1, ""},
		{"63", true, 32, "\x3f", 63, ""},
		{"-64", true, 33, "\x40", -64, ""},
		{"-64 in two bytes", true, 33, "\xc0\x7f", -64, ""},
		{"128", true, 32, "\x80\x01", 128, ""},
		{"least i32", true, 32, "\x80\x80\x80\x80\x78", math.MinInt32, ""},
		{"largest i32", true, 32, "\xff\xff\xff\xff\x07", math.MaxInt32, ""},
		{"i32 above", true, 32, "\xff\xff\xff\xff\x0f", 0, "more than 32 bits"},
		{"i33 of the same bytes", true, 33, "\xff\xff\xff\xff\x0f", math.MaxUint32, ""},
		{"least i64", true, 64, "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x7f", math.MinInt64, ""},
		{"largest i64", true, 64, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00", math.MaxInt64, ""},
		{"i64 above", true, 64, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 0, "more than 64 bits"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := NewReader([]byte(c.bytes), 7)
			var got int64
			if c.signed {
				got = r.Int(c.bits)
			} else {
				got = int64(r.Uint(c.bits))
			}
			if c.fault != "" {
				if r.Err() == nil || !strings.Contains(r.Err().Error(), c.fault) {
					t.Errorf("% x: got %d, %v; want an error that says %q", c.bytes, got, r.Err(), c.fault)
				}
				return
			}
			if got != c.want || r.Err() != nil || r.More() || r.Offset() != 7+len(c.bytes) {
				t.Errorf("% x: got %d, %v, %d bytes left at %d; want %d", c.bytes, got, r.Err(), len(r.Rest()), r.Offset(), c.want)
			}
		})
	}
}

func TestStructures(t *testing.T) {
	r := NewReader([]byte("\x60\x02\x7f\x7e\x01\x70"+"\x03ab\xff"+"\x05\x01\x10"), 0)
	if params, results := r.FunctionType(); params != "iI" || results != "r" || r.Err() != nil {
		t.Errorf("got (%s) -> (%s), %v; want (iI) -> (r)", params, results, r.Err())
	}
	if name := r.Name(); r.Err() == nil || !strings.Contains(r.Err().Error(), "not UTF-8") {
		t.Errorf("got the name %q, %v; want an error", name, r.Err())
	}
	r = NewReader([]byte("\x05\x01\x10"), 0)
	if l := r.Limits(); l != (Limits{Min: 1, Max: 16, Capped: true, Wide: true}) {
		t.Errorf("got %+v", l)
	}
	if r.Each(2, func() { t.Error("an entry of an empty vector") }); r.Err() == nil {
		t.Error("reading behind the end is no error")
	}
	// A count that the bytes can't hold is refused before the first entry.
	r = NewReader([]byte("\xff\xff\xff\xff\x0f\x00"), 0)
	if r.Each(1, func() { t.Error("an entry was read") }); r.Err() == nil {
		t.Error("4 G entries in one byte are no error")
	}
}
