package sample

import "math/bits"

// noise is the one random number behind a token: 64 uniform bits that depend on
// the seed, the choice and the position alone. It keeps no state, so a sequence
// that is preempted and resumed, or drafted and verified, draws the same number
// again.
func noise(seed uint64, choice, position int) uint64 {
	out := philox(
		[4]uint32{uint32(position), uint32(uint64(position) >> 32), uint32(choice), 0},
		[2]uint32{uint32(seed), uint32(seed >> 32)},
	)
	return uint64(out[1])<<32 | uint64(out[0])
}

// philox is Philox4x32-10, a bijection of the counter for each key. Source:
// Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, SC'11,
// https://doi.org/10.1145/2063384.2063405, section 3.3 and table 2.
func philox(counter [4]uint32, key [2]uint32) [4]uint32 {
	const rounds = 10
	for range rounds {
		hi0, lo0 := bits.Mul32(0xD2511F53, counter[0])
		hi1, lo1 := bits.Mul32(0xCD9E8D57, counter[2])
		counter = [4]uint32{hi1 ^ counter[1] ^ key[0], lo1, hi0 ^ counter[3] ^ key[1], lo0}
		key[0] += 0x9E3779B9 // the golden ratio
		key[1] += 0xBB67AE85 // the square root of three, less one
	}
	return counter
}
