package cpu

import (
	"errors"
	"fmt"
	"strings"
)

// Level names a set of instructions, in the order of their speed. A machine need not
// have all below its best: AVXVNNI is of processors without AVX-512, and of some with.
type Level int

const (
	// Generic is plain Go and runs everywhere.
	Generic Level = iota
	// AVX2 needs AVX2, FMA and F16C (x86-64-v3: Haswell, Zen and later).
	AVX2
	// AVXVNNI adds VNNI in 256 bits (Alder Lake, Zen 5 and later).
	AVXVNNI
	// AVX512VNNI adds to AVX2 AVX-512 F, BW, VL and VNNI (Cascade Lake, Zen 4 and later).
	AVX512VNNI
	// AMX adds to AVX512VNNI tiles of int8 (Sapphire Rapids and later), which a process must ask
	// Linux for. Products of many tokens take them; the rest is AVX512VNNI's.
	AMX
	// NEON needs the dot products of Armv8.2 (asimddp: Neoverse N1, Cortex-A76, Apple M1
	// and later).
	NEON

	numLevels
)

// EnvLevel is the environment variable that forces a level.
const EnvLevel = "WASMETER_CPU"

var levelNames = [...]string{Generic: "generic", AVX2: "avx2", AVXVNNI: "avxvnni", AVX512VNNI: "avx512vnni", AMX: "amx", NEON: "neon"}

// String returns the name that ParseLevel reads.
func (l Level) String() string {
	if l < 0 || int(l) >= len(levelNames) {
		return fmt.Sprintf("Level(%d)", int(l))
	}
	return levelNames[l]
}

// ParseLevel reads the name of a level, in any case.
func ParseLevel(name string) (Level, error) {
	for l, n := range levelNames {
		if strings.EqualFold(name, n) {
			return Level(l), nil
		}
	}
	return Generic, fmt.Errorf("cpu level %q is unknown; use %s", name, strings.Join(levelNames[:], ", "))
}

// FromEnv returns the level that WASMETER_CPU asks for, or the best one of this
// machine if the variable is empty. It is an error to ask for a level that the
// machine lacks: a measurement must not silently run something else.
func FromEnv(getenv func(string) string) (Level, error) {
	name := getenv(EnvLevel)
	if name == "" {
		return Best(), nil
	}
	l, err := ParseLevel(name)
	if err != nil {
		return Generic, fmt.Errorf("environment variable %s: %w", EnvLevel, err)
	}
	if err := l.available(); err != nil {
		return Generic, fmt.Errorf("environment variable %s: %w", EnvLevel, err)
	}
	return l, nil
}

// Levels returns the levels that this processor and its operating system support, in
// their order.
func Levels() []Level {
	var levels []Level
	for l := range numLevels {
		if l.missing() == nil {
			levels = append(levels, l)
		}
	}
	return levels
}

// Best returns the highest level that this processor and its operating system
// support.
func Best() Level {
	levels := Levels()
	return levels[len(levels)-1]
}

// available tells why the level cannot run here, or nil.
func (l Level) available() error {
	if err := l.missing(); err != nil {
		return fmt.Errorf("cpu level %s is not available here: %w; the best is %s", l, err, Best())
	}
	return nil
}

// errInstructions is what most levels miss where they are not available.
var errInstructions = errors.New("its instructions are missing")
