package gguf

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// fixture opens the file that the Python package gguf wrote; see testdata.
func fixture(t testing.TB) *File {
	t.Helper()
	f, err := Open("testdata/quants.gguf")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func TestMetadata(t *testing.T) {
	f := fixture(t)
	describe := map[string]string{
		"uint8": "200", "int8": "-100", "uint16": "60000", "int16": "-30000",
		"uint32": "4000000000", "int32": "-2000000000",
		"uint64": "18446744073709551615", "int64": "-9223372036854775808",
		"float32": "0.1", "float64": "0.1", "bool": "true", "string": `"여우 🦊"`,
		"strings": `["", "a", "여우"] (array of 3 string)`,
		"ints":    "[1, -2, 3] (array of 3 int32)",
		"floats":  "[0.5, -0.25] (array of 2 float32)",
		"absent":  "",
	}
	for key, want := range describe {
		if got := f.Describe(key); got != want {
			t.Errorf("describe %s: got %s, want %s", key, got, want)
		}
	}
	for key, want := range map[string]uint64{"uint8": 200, "uint16": 60000, "uint32": 4000000000, "uint64": 1<<64 - 1} {
		if got, err := f.Uint(key); err != nil || got != want {
			t.Errorf("uint %s: got %d, %v, want %d", key, got, err, want)
		}
	}
	for key, want := range map[string]float64{"float32": float64(float32(0.1)), "float64": 0.1} {
		if got, err := f.Float(key); err != nil || got != want {
			t.Errorf("float %s: got %v, %v, want %v", key, got, err, want)
		}
	}
	if got, err := f.Bool("bool"); err != nil || !got {
		t.Errorf("bool: got %v, %v, want true", got, err)
	}
	if got, err := f.Text("string"); err != nil || got != "여우 🦊" {
		t.Errorf("text: got %q, %v", got, err)
	}
	if got, err := f.Texts("strings"); err != nil || !slices.Equal(got, []string{"", "a", "여우"}) {
		t.Errorf("texts: got %q, %v", got, err)
	}
	if got, err := f.Ints("ints"); err != nil || !slices.Equal(got, []int32{1, -2, 3}) {
		t.Errorf("ints: got %d, %v", got, err)
	}
	if got, err := f.Floats("floats"); err != nil || !slices.Equal(got, []float32{0.5, -0.25}) {
		t.Errorf("floats: got %v, %v", got, err)
	}
}

func TestMetadataFaults(t *testing.T) {
	f := fixture(t)
	only := func(_ any, err error) error { return err }
	tests := []struct {
		got  error
		want string
	}{
		{only(f.Text("uint8")), `key "uint8": found uint8, want string`},
		{only(f.Uint("string")), `key "string": found string, want integer that is not negative`},
		{only(f.Uint("int8")), `key "int8": found int8 -100, want integer that is not negative`},
		{only(f.Float("int64")), `key "int64": found int64 -9223372036854775808, want float32 or float64`},
		{only(f.Bool("uint8")), `key "uint8": found uint8, want bool`},
		{only(f.Texts("string")), `key "string": found string, want array of strings`},
		{only(f.Texts("ints")), `key "ints": found array of 3 int32, want array of strings`},
		{only(f.Ints("strings")), `key "strings": found array of 3 string, want array of integers`},
		{only(f.Floats("ints")), `key "ints": found array of 3 int32, want array of floats`},
	}
	for _, test := range tests {
		if test.got == nil || test.got.Error() != test.want {
			t.Errorf("got error %v, want %s", test.got, test.want)
		}
		if errors.Is(test.got, ErrNoKey) {
			t.Errorf("%v: is ErrNoKey, but the key is there", test.got)
		}
	}
	absent := []error{
		only(f.Text("absent")), only(f.Uint("absent")), only(f.Float("absent")), only(f.Bool("absent")),
		only(f.Texts("absent")), only(f.Ints("absent")), only(f.Floats("absent")),
	}
	for _, err := range absent {
		if !errors.Is(err, ErrNoKey) || !strings.Contains(err.Error(), `"absent"`) {
			t.Errorf("absent key: got %v, want ErrNoKey with the key's name", err)
		}
	}
}

// TestArrayRanges holds that integers and floats that a narrower type cannot
// hold are refused, not wrapped.
func TestArrayRanges(t *testing.T) {
	parse := func(v any) *File {
		var b strings.Builder
		if err := Write(&b, []KeyValue{{"k", v}}, nil); err != nil {
			t.Fatal(err)
		}
		f, err := Parse([]byte(b.String()))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for _, v := range []any{[]uint32{0, 1 << 31}, []uint64{0, 1<<64 - 1}, []int64{0, -1 << 40}, []uint64{0, 1<<63 + 5}} {
		if got, err := parse(v).Ints("k"); err == nil || !strings.Contains(err.Error(), "element 1 does not fit") {
			t.Errorf("%T %d: got %d, %v, want an error", v, v, got, err)
		}
	}
	for _, v := range []any{[]uint8{1, 2}, []int8{1, 2}, []uint16{1, 2}, []int16{1, 2}, []uint32{1, 2}, []int32{1, 2}, []uint64{1, 2}, []int64{1, 2}} {
		if got, err := parse(v).Ints("k"); err != nil || !slices.Equal(got, []int32{1, 2}) {
			t.Errorf("%T: got %d, %v, want [1 2]", v, got, err)
		}
	}
	if got, err := parse([]float64{0, 1e39}).Floats("k"); err == nil {
		t.Errorf("float 1e39: got %v, want an error", got)
	}
	if got, err := parse([]float64{0.5}).Floats("k"); err != nil || !slices.Equal(got, []float32{0.5}) {
		t.Errorf("float 0.5: got %v, %v", got, err)
	}
}
