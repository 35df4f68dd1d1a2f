package conformance

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wasmeter/wasmeter/host/plugin"
)

// wholeMask is what a guest with every hook that wants everything returns.
const wholeMask = 0xf0f

func (k *kit) checkExports(ctx context.Context) error {
	return k.with(ctx, "nothing", func(g *guest) error {
		var faults []error
		if minor, err := g.function("wasmeter_abi_v1").Call(ctx); err != nil || minor[0] != 0 {
			faults = append(faults, fmt.Errorf("wasmeter_abi_v1 gives %v, %v; want minor version 0", minor, err))
		}
		if g.mask != wholeMask {
			faults = append(faults, fmt.Errorf("init gives the mask %#x; a guest with all hooks that wants everything gives %#x", g.mask, wholeMask))
		}
		for _, hook := range []string{"request", "shape", "chunk", "finish"} {
			if !g.has("wasmeter_" + hook) {
				faults = append(faults, fmt.Errorf("wasmeter_%s is not exported", hook))
			}
		}
		return errors.Join(faults...)
	})
}

func (k *kit) checkFields(ctx context.Context) error {
	return k.echoes(ctx, map[string]*plugin.Frame{
		"no field set": {}, "each field its own value": distinctFrame(), "each field its highest": highestFrame(),
	})
}

func (k *kit) checkStrings(ctx context.Context) error {
	frames := make(map[string]*plugin.Frame)
	for i := range numStrings {
		for name, text := range map[string]string{
			"empty":             "",
			"four-byte UTF-8":   "\U00010000😀\U0010FFFF",
			"64 KiB of ä":       strings.Repeat("ä", 32<<10),
			"64 KiB of letters": strings.Repeat("wasmeter", 8<<10),
		} {
			f := distinctFrame()
			setString(f, i, text)
			frames[fmt.Sprintf("string %d, %s", i, name)] = f
		}
	}
	return k.echoes(ctx, frames)
}

// badUTF8 are sequences that are not UTF-8, after the list of Unicode 15,
// table 3-7, and what comes near it.
var badUTF8 = []string{
	"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc2", "\xc2a", "\xdf\xc0", "\xe0\x80\x80", "\xe0\x9f\xbf", "\xe0\xa0", "\xe1\x80a",
	"\xed\xa0\x80", "\xed\xbf\xbf", "\xef\xbf", "\xf0\x80\x80\x80", "\xf0\x8f\xbf\xbf", "\xf0\x90\x80", "\xf0\x90\x80a", "\xf1\x80\xc0\x80",
	"\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xfe\xff", "ä\xff😀\xe2\x82", "\xe2\x82\xe2\x82\xac",
}

func (k *kit) checkText(ctx context.Context) error {
	texts := []string{`"`, `\`, `\"`, "\x7f", "\u0080", "\u2028\u2029", "\ud7ff\ue000\ufffd\uffff", "/<>&'", strings.Repeat("\x00", 100)}
	for c := range ' ' {
		texts = append(texts, string(c), "eight by"+string(c)+"tes behind")
	}
	for _, bad := range badUTF8 {
		texts = append(texts, bad, "a"+bad, bad+"a", "eight by"+bad+`"tes behind`)
	}
	return k.with(ctx, "echo", func(g *guest) error {
		var faults []error
		for _, text := range texts {
			f := &plugin.Frame{Tenant: text, Metadata: text + text}
			frame := f.Append(nil, plugin.HookShape)
			if err := g.wants(ctx, "shape", frame, wantEcho(f, plugin.HookShape)); err != nil {
				faults = append(faults, fmt.Errorf("the string %q: %w", text, err))
			} else if got, err := g.document(ctx, "shape", frame); err != nil || !jsontext.Value(got).IsValid() {
				faults = append(faults, fmt.Errorf("the string %q: not valid JSON: %s, %v", text, got, err))
			}
		}
		return errors.Join(faults...)
	})
}

func (k *kit) checkTables(ctx context.Context) error {
	frames := make(map[string]*plugin.Frame)
	for _, n := range []int{0, 1, 2, 1000} {
		f := distinctFrame()
		f.Choices, f.Events = choices(n), events(1000-n)
		frames[fmt.Sprintf("%d choices, %d events", n, 1000-n)] = f
	}
	return k.echoes(ctx, frames)
}

// decimal gives a number with at most 6 places, rounded half up, and at least
// one.
func decimal(number *big.Rat) string {
	text := strings.TrimRight(number.FloatString(6), "0")
	if strings.HasSuffix(text, ".") {
		text += "0"
	}
	return text
}

func (k *kit) checkNumbers(ctx context.Context) error {
	const most = math.MaxUint64
	return k.with(ctx, "numbers", func(g *guest) error {
		var faults []error
		for _, c := range [][2]uint64{ // the ratio's two terms; the first is milliseconds too
			{0, 1}, {1, 0}, {1, 1}, {2, 3}, {1, 2_000_000}, {1, 2_000_001}, {1_999_999, 2_000_000}, {10, 1}, {5_000_000, 1}, {1_500_000, 7},
			{42_011_110, 3}, {999_999, 1_000_000}, {10_000_000_000, 1_542_250_000}, {most, 1}, {most, most}, {most - 1, most}, {1, most},
			{most, 2}, {most / 2, most}, {most - 1, most - 2}, {1 << 63, 3}, {1<<63 + 1, 1 << 63}, {18_446_744_073_709, most}, {18_446_744_073_710, most},
		} {
			f := &plugin.Frame{QueuedNS: c[0], ScheduledNS: c[1], DeviceNS: c[1], RecordSeq: c[0]}
			number := func(n uint64) *big.Int { return new(big.Int).SetUint64(n) }
			ratio := "null"
			if c[1] != 0 {
				ratio = decimal(new(big.Rat).SetFrac(number(c[0]), number(c[1])))
			}
			want := fmt.Sprintf(`{"fields":{"x_numbers":{"int":%d,"uint":%d,"millis":%s,"ratio":%s,"yes":true,"no":false,"nothing":null,"lists":[[],{},[-1,"a",{"b":null}]]}}}`,
				int64(c[1]), c[0], decimal(new(big.Rat).SetFrac(number(c[0]), number(1_000_000))), ratio)
			if err := g.wants(ctx, "shape", f.Append(nil, plugin.HookShape), want); err != nil {
				faults = append(faults, fmt.Errorf("%d / %d: %w", c[0], c[1], err))
			}
		}
		return errors.Join(faults...)
	})
}

func (k *kit) checkNothing(ctx context.Context) error {
	return k.with(ctx, "nothing", func(g *guest) error {
		frame := distinctFrame().Append(nil, plugin.HookShape)
		if err := g.write(ctx, frame); err != nil {
			return err
		}
		packed, err := g.invoke(ctx, "wasmeter_shape", uint64(len(frame)))
		if err == nil && packed != 0 {
			err = fmt.Errorf("a shape that writes nothing returns %#x, want 0", packed)
		}
		return err
	})
}

func (k *kit) checkBuffer(ctx context.Context) error {
	return k.with(ctx, "echo", func(g *guest) error {
		var faults []error
		for _, size := range []int{0, 1, 100, 1_000, 999, 10_000, 70_000, 1_000_000, 5, 1_000_001} {
			f := &plugin.Frame{Metadata: strings.Repeat("m", size), Tenant: "acme"}
			if err := g.wants(ctx, "shape", f.Append(nil, plugin.HookShape), wantEcho(f, plugin.HookShape)); err != nil {
				faults = append(faults, fmt.Errorf("a string of %d bytes: %w", size, err))
			}
		}
		// What can't be had is refused; a trap is a refusal too.
		for _, size := range []uint32{64 << 20, 1 << 31, math.MaxUint32 - 7, math.MaxUint32} {
			ptr, err := g.invoke(ctx, "wasmeter_buffer", uint64(size))
			if err == nil && uint32(ptr) != 0 {
				faults = append(faults, fmt.Errorf("wasmeter_buffer(%d) gives %#x in a memory of %d bytes, want 0", size, ptr, g.module.Memory().Size()))
			}
			if err != nil {
				break // a guest that trapped is not called again
			}
		}
		return errors.Join(faults...)
	})
}

func (k *kit) checkLater(ctx context.Context) error {
	return k.with(ctx, "echo", func(g *guest) error {
		var faults []error
		for name, f := range map[string]*plugin.Frame{"full": distinctFrame(), "empty": {}, "highest": highestFrame()} {
			const header, eventStride, choiceStride = 320, 32, 96
			frame := laterFrame(f.Append(nil, plugin.HookShape), header, eventStride, choiceStride)
			if err := g.wants(ctx, "shape", frame, wantEcho(f, plugin.HookShape)); err != nil {
				faults = append(faults, fmt.Errorf("%s, header %d, strides %d and %d: %w", name, header, eventStride, choiceStride, err))
			}
		}
		return errors.Join(faults...)
	})
}

// checkEarlier: a header that ends early has zeros for the rest, and so no
// tables.
func (k *kit) checkEarlier(ctx context.Context) error {
	return k.with(ctx, "echo", func(g *guest) error {
		full := distinctFrame()
		frame := full.Append(nil, plugin.HookShape)
		const behindDeadline = 104
		binary.LittleEndian.PutUint16(frame[headerLenAt:], behindDeadline)
		want := *full
		want.QueuedNS, want.ScheduledNS, want.FirstTokenNS, want.LastTokenNS, want.FinishedNS = 0, 0, 0, 0, 0
		want.DeviceNS, want.RecordSeq, want.Choices, want.Events, want.Document = 0, 0, nil, nil, nil
		for i := range numStrings {
			setString(&want, i, "")
		}
		return g.wants(ctx, "shape", frame, wantEcho(&want, plugin.HookShape))
	})
}

// checkTorn: no host sends a torn frame, and none makes a guest trap, read
// elsewhere or write what is no JSON.
func (k *kit) checkTorn(ctx context.Context) error {
	return k.with(ctx, "echo", func(g *guest) error {
		random := rand.New(rand.NewPCG(1, 2))
		whole := distinctFrame().Append(nil, plugin.HookShape)
		for i := range 3000 {
			frame := append([]byte(nil), whole...)
			for range 1 + random.IntN(4) {
				// Mostly where the offsets and counts are, and at their extremes.
				at := []int{random.IntN(len(frame) - 4), 160 + 4*random.IntN(9), headerLenAt}[random.IntN(3)]
				value := []uint32{random.Uint32(), random.Uint32N(1000), math.MaxUint32 - random.Uint32N(300), 0}[random.IntN(4)]
				binary.LittleEndian.PutUint32(frame[at:], value)
			}
			frame = frame[:len(frame)-random.IntN(2)*random.IntN(len(frame))]
			got, err := g.document(ctx, "shape", frame)
			if err != nil {
				return fmt.Errorf("torn frame %d, %x: %w", i, frame, err)
			}
			if !jsontext.Value(got).IsValid() {
				return fmt.Errorf("torn frame %d, %x: not valid JSON: %.200q", i, frame, got)
			}
		}
		return nil
	})
}

// checkEndurance: a guest that needs more memory with every call ends its
// server one day.
func (k *kit) checkEndurance(ctx context.Context) error {
	return k.with(ctx, "echo", func(g *guest) error {
		f := distinctFrame()
		frame, want := f.Append(nil, plugin.HookShape), wantEcho(f, plugin.HookShape)
		const settled = 1000
		size := uint32(0)
		for i := range k.calls {
			got, err := g.document(ctx, "shape", frame)
			if err != nil {
				return fmt.Errorf("call %d: %w", i+1, err)
			}
			if string(got) != want {
				return fmt.Errorf("call %d: %w", i+1, differ("shape", string(got), want))
			}
			if i == settled {
				size = g.module.Memory().Size()
			}
		}
		if grown := g.module.Memory().Size(); k.calls > settled && grown != size {
			return fmt.Errorf("the memory has %d bytes after %d calls and %d after %d: it grows with every call", size, settled, grown, k.calls)
		}
		return nil
	})
}
