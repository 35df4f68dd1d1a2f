package sample

import "testing"

// The vectors are the lines "philox4x32 10" of tests/kat_vectors in
// https://github.com/DEShawResearch/random123, by the generator's authors.
func TestPhiloxKnownAnswers(t *testing.T) {
	const ones = 0xffffffff
	for _, c := range []struct {
		name    string
		counter [4]uint32
		key     [2]uint32
		want    [4]uint32
	}{
		{"zeros", [4]uint32{}, [2]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{"ones", [4]uint32{ones, ones, ones, ones}, [2]uint32{ones, ones}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{"pi", [4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [2]uint32{0xa4093822, 0x299f31d0}, [4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		if got := philox(c.counter, c.key); got != c.want {
			t.Errorf("%s: philox(%08x, %08x) = %08x, want %08x", c.name, c.counter, c.key, got, c.want)
		}
	}
}

func TestNoiseUsesTheWholeKey(t *testing.T) {
	if got, want := noise(0, 0, 0), uint64(0xe169c58d6627e8d5); got != want {
		t.Errorf("noise(0, 0, 0) = %016x, want %016x, the first two words of the vector of zeros", got, want)
	}
	seen := map[uint64]string{}
	for _, c := range []struct {
		name             string
		seed             uint64
		choice, position int
	}{
		{"base", 1, 1, 1},
		{"low word of the seed", 2, 1, 1},
		{"high word of the seed", 1 | 1<<32, 1, 1},
		{"choice", 1, 2, 1},
		{"position", 1, 1, 2},
		{"high word of the position", 1, 1, 1 | 1<<32},
	} {
		n := noise(c.seed, c.choice, c.position)
		if other, ok := seen[n]; ok {
			t.Errorf("%s: the same noise %016x as %s", c.name, n, other)
		}
		seen[n] = c.name
	}
}
