//go:build cuda && cgo && linux

package cuda

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestSplits: what Decode's scratch is sized for holds for every launch, on small and
// large devices.
func TestSplits(t *testing.T) {
	for _, processors := range []int{1, 2, 20, 58, 108, 132, 192} {
		k := &Kernels{processors: processors}
		for units := 1; units < 3000; units++ {
			for _, context := range []int{1, 128, 129, 2048, 32768, 1 << 20} {
				n := k.splits(units, context)
				if n < 1 || n > maxSplits {
					t.Fatalf("%d splits of %d units, contexts up to %d, on %d processors", n, units, context, processors)
				}
				if n == 1 {
					continue // no scratch is touched
				}
				if int64(4*units) > k.decodeCounters() {
					t.Fatalf("%d units with %d splits on %d processors: counters for %d", units, n, processors, k.decodeCounters()/4)
				}
				if units*n > 2*k.decodeBlocks() {
					t.Fatalf("%d units with %d splits on %d processors: room for %d parts", units, n, processors, 2*k.decodeBlocks())
				}
				if (n-1)*minSplit >= context {
					t.Fatalf("%d splits of contexts of %d: the last has nothing", n, context)
				}
			}
		}
	}
}

func TestAttentionRefuses(t *testing.T) {
	k := &Kernels{attention: compiledAttention}
	for _, test := range []struct {
		q, kv, dim, blockSize int
		dimOrError            string
	}{
		{9, 3, 64, 16, "64"}, {1, 1, 8, 1, "64"}, {1, 1, 72, 16, "80"}, {1, 1, 88, 32, "96"}, {1, 1, 104, 16, "128"}, {1, 1, 136, 16, "256"}, {1, 1, 256, 16, "256"},
		{9, 4, 64, 16, "9 query heads are not a multiple of 4 key heads"},
		{0, 0, 64, 16, "0 query heads"},
		{1, 1, 60, 16, "heads of 60 values"},
		{1, 1, 264, 16, "heads of 264 values"},
		{1, 1, 0, 16, "heads of 0 values"},
		{1, 1, 64, 24, "block of 24 positions"},
		{1, 1, 64, 0, "block of 0 positions"},
	} {
		f, err := k.attentionFor(&Attention{Heads: Heads{Q: test.q, KV: test.kv, Dim: test.dim}, Cache: CacheLayer{BlockSize: test.blockSize}})
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = strconv.Itoa(f.dim)
		}
		if !strings.Contains(got, test.dimOrError) {
			t.Errorf("%+v: got %s", test, got)
		}
	}
}

// TestAttentionConstants compares with the numbers of the sources.
func TestAttentionConstants(t *testing.T) {
	decode, prefill := source(t, "attend_decode.cu"), source(t, "attend_prefill.cu")
	for name, want := range map[string]int{
		"decode_heads": decodeHeads, "max_splits": maxSplits, "min_split": minSplit, "prefill_warps": prefillWarps,
	} {
		m := regexp.MustCompile(`constexpr int ` + name + ` = (\d+);`).FindSubmatch(slices.Concat(decode, prefill))
		if m == nil || string(m[1]) != strconv.Itoa(want) {
			t.Errorf("%s: got %d in Go, and %q in the sources", name, want, m)
		}
	}
	if prefillQueries != 16*prefillWarps {
		t.Errorf("a block of prefill has %d queries in Go and %d warps", prefillQueries, prefillWarps)
	}
	decodes := regexp.MustCompile(`(?m)^DECODE\((\d+), (\d+)\)$`).FindAllSubmatch(decode, -1)
	prefills := regexp.MustCompile(`(?m)^PREFILL\((\d+), (\d+), \d+\)$`).FindAllSubmatch(prefill, -1)
	if n := len(compiledAttention); len(decodes) != n || len(prefills) != n {
		t.Fatalf("attention is compiled for %d and %d dimensions, and Go knows %d", len(decodes), len(prefills), n)
	}
	for i, f := range compiledAttention {
		if got, want := fmt.Sprintf("%s %s", decodes[i][1], decodes[i][2]), fmt.Sprintf("%d %d", f.dim, f.warps); got != want {
			t.Errorf("attend_decode.cu has dimension and warps %s, and Go %s", got, want)
		}
		if got, want := fmt.Sprintf("%s %s", prefills[i][1], prefills[i][2]), fmt.Sprintf("%d %d", f.dim, f.tile); got != want {
			t.Errorf("attend_prefill.cu has dimension and tile %s, and Go %s", got, want)
		}
		// 99 KiB is what a block can have on compute capability 8.9, the least of all; a
		// few KiB of decode are static.
		if f.decodeShared() > 96<<10 || f.prefillShared() > 99<<10 {
			t.Errorf("dimension %d: a block of decode takes %d bytes of shared memory, and one of prefill %d", f.dim, f.decodeShared(), f.prefillShared())
		}
	}
}

func source(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
