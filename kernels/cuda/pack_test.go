package cuda

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestPackKeepsBlocks packs random blocks and takes them back: every bit of the file
// must be somewhere in the planes. What the planes mean is checked by the suite,
// whose kernels read them.
func TestPackKeepsBlocks(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for f := range NumFormats {
		for _, rows := range []int{1, 3} {
			for _, cols := range []int{256, 768} {
				l, err := NewLayout(f, rows, cols)
				if err != nil {
					t.Fatal(err)
				}
				blocks := make([]byte, rows*l.SourceRowBytes())
				for i := range blocks {
					blocks[i] = byte(rng.Uint32())
				}
				planes := l.Carve(dirty(l.StageBytes(rows)), rows)
				if err := l.Pack(planes, blocks, rows); err != nil {
					t.Fatal(err)
				}
				got := dirty(len(blocks))
				if err := l.Unpack(got, planes, rows); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, blocks) {
					t.Errorf("%v, %d rows of %d columns: unpacked blocks differ from the packed ones", f, rows, cols)
				}
			}
		}
	}
}

// TestPackPlanes checks where single columns come to lie, as Layout's comment says:
// blocks are zero but for one column's code.
func TestPackPlanes(t *testing.T) {
	for _, c := range []struct {
		format      Format
		byte        int // of the block, and its value
		value       byte
		plane, at   int // where it must come to
		want        byte
		description string
	}{
		{Q8_0, 2 + 5, 0x81, 0, 5, 0x81, "column 5"},
		{Q4_0, 2 + 5, 0xf0, 0, 5, 0xf0, "column 21"},
		{Q4_1, 2, 0x11, 2, 2, 0x11, "the minimum"},
		{Q5_0, 2 + 1, 0x80, 1, 1, 0x80, "column 15's fifth bit"},
		{Q4_K, 16 + 17, 0x0f, 0, 1, 0xf0, "column 17: the first run's second half"},
		{Q4_K, 16 + 3, 0xf0, 0, 16 + 3, 0x0f, "column 35: the second run's first half"},
		{Q4_K, 16 + 32, 0x0f, 0, 32, 0x0f, "column 64"},
		{Q5_K, 16 + 9, 1 << 3, 1, 4*3 + 1, 1 << 1, "column 3·32+9's fifth bit"},
		{Q6_K, 32 + 4, 0x0f, 0, 16 + 4, 0x0f, "column 36: run 1"},
		{Q6_K, 4, 0xf0, 0, 32 + 4, 0x0f, "column 68: run 2"},
		{Q6_K, 64 + 20, 0x0f, 0, 64 + 4, 0xf0, "column 148: run 4's second half"},
		{Q6_K, 128 + 18, 3 << 2, 1, 8 + 4, 3 << 4, "column 50's high bits: run 1, word 1, column 2"},
		{Q6_K, 192 + 7, 0x7f, 2, 7, 0x7f, "scale 7"},
		{Q6_K, 209, 0x3c, 2, 17, 0x3c, "the block's scale"},
	} {
		cols := forms[c.format].elements
		l, err := NewLayout(c.format, 1, cols)
		if err != nil {
			t.Fatal(err)
		}
		blocks := make([]byte, l.SourceRowBytes())
		blocks[c.byte] = c.value
		planes := l.Carve(dirty(l.StageBytes(1)), 1)
		if err := l.Pack(planes, blocks, 1); err != nil {
			t.Fatal(err)
		}
		for plane := range planes {
			want := make([]byte, len(planes[plane]))
			if plane == c.plane {
				want[c.at] = c.want
			}
			if !bytes.Equal(planes[plane], want) {
				t.Errorf("%v, %s: plane %d is %x, want %x", c.format, c.description, plane, planes[plane], want)
			}
		}
	}
}

// TestPackWidens checks that 16-bit rows which are not whole units become float32.
// Values: IEEE 754-2019, table 3.5, and bfloat16 as the high half of a float32.
func TestPackWidens(t *testing.T) {
	for _, c := range []struct {
		format Format
		blocks []byte
		want   []byte // float32, a row of 5 in 32 bytes
	}{
		{F16, []byte{0, 0x3c, 0, 0xc0, 1, 0, 0, 0x7c, 0xff, 0x7b}, // 1, -2, 2⁻²⁴, ∞, 65504
			[]byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0, 0, 0, 0x80, 0x33, 0, 0, 0x80, 0x7f, 0, 0xe0, 0x7f, 0x47}},
		{BF16, []byte{0x80, 0x3f, 0, 0xc0, 0, 0, 0x80, 0x7f, 1, 0},
			[]byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0x80, 0x7f, 0, 0, 1, 0}},
	} {
		l, err := NewLayout(c.format, 1, 5)
		if err != nil {
			t.Fatal(err)
		}
		planes := l.Carve(dirty(l.StageBytes(1)), 1)
		if err := l.Pack(planes, c.blocks, 1); err != nil {
			t.Fatal(err)
		}
		if want := append(c.want, make([]byte, 12)...); l.Format != F32 || !bytes.Equal(planes[0], want) {
			t.Errorf("%v: format %v, row %x, want F32 and %x", c.format, l.Format, planes[0], want)
		}
	}
}

func TestLayoutRefusals(t *testing.T) {
	for _, c := range []struct {
		format     Format
		rows, cols int
		want       string
	}{
		{Q4_K, 4, 128, "matrix of Q4_K with 128 columns: a row must be whole blocks of 256 columns"},
		{Q8_0, 0, 32, "matrix of 0 rows and 32 columns: 1 to 2147483647 rows and 1 to 16777216 columns are supported"},
		{NumFormats, 1, 1, "matrix of format 11: use one of F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K"},
		{-1, 1, 1, "matrix of format -1: use one of F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K"},
	} {
		if _, err := NewLayout(c.format, c.rows, c.cols); err == nil || err.Error() != c.want {
			t.Errorf("%v, %d rows, %d columns: error %v, want %s", c.format, c.rows, c.cols, err, c.want)
		}
	}
	l, err := NewLayout(Q8_0, 2, 64)
	if err != nil {
		t.Fatal(err)
	}
	planes := l.Carve(make([]byte, l.StageBytes(2)), 2)
	if err := l.Pack(planes, make([]byte, 100), 2); err == nil {
		t.Error("blocks of the wrong length are packed")
	}
	if err := l.Pack(planes, make([]byte, 68), 1); err == nil {
		t.Error("planes of the wrong length are filled")
	}
}

// dirty is memory that nobody has cleared.
func dirty(n int) []byte { return bytes.Repeat([]byte{0xa5}, n) }

func BenchmarkPack(b *testing.B) {
	for _, f := range []Format{Q8_0, Q4_K, Q6_K} {
		b.Run(fmt.Sprint(f), func(b *testing.B) {
			l, err := NewLayout(f, 16, 4096)
			if err != nil {
				b.Fatal(err)
			}
			blocks, planes := make([]byte, 16*l.SourceRowBytes()), l.Carve(make([]byte, l.StageBytes(16)), 16)
			b.SetBytes(int64(len(blocks)))
			b.ReportAllocs()
			for b.Loop() {
				if err := l.Pack(planes, blocks, 16); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
