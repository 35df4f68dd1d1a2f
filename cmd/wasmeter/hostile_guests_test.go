package main

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
)

// endless are plugins that never end by themselves. Each is stopped by the
// default budget of fuel.
func endless() []hostile {
	const outOfFuel = "out_of_fuel"
	recursion := wasmCall(4) // itself
	cycle := func(next int32) []byte { return wasm(wasmI32(next), []byte{0x11, 3, 0}) }

	// A br_table of 20,000 targets, entered at another place each time.
	const targets = 20_000
	table := binary.AppendUvarint([]byte{0x0e}, targets)
	for i := range targets {
		table = append(table, byte(i%4))
	}
	blocks := bytes.Repeat([]byte{0x02, 0x40}, 4)
	giantTable := wasmForever(blocks, wasmGet(0), table, []byte{0}, bytes.Repeat([]byte{0x0b}, 4),
		wasmGet(0), wasmI32(7919), []byte{0x6a}, wasmI32(0x3fff), []byte{0x71}, wasmSet(0))

	// The costliest there is for its fuel: loads from the upper 8 MiB that each
	// need the one before and miss the caches. The successors are those of a
	// generator of full period (Knuth, TAOCP 3.2.1.2) over the 2^17 cache lines;
	// init, whose local 0 is its parameter, writes them down.
	const upper = 8 << 20
	next := wasm(wasmGet(1), wasmI32(166_245), []byte{0x6c}, wasmI32(64*1013), []byte{0x6a}, wasmI32(upper-64), []byte{0x71})
	writeDown := wasm(wasmI32(252), wasmGrow, wasmDrop,
		[]byte{0x03, 0x40}, wasmGet(1), next, wasmStore(upper), next, []byte{0x22, 1, 0x0d, 0, 0x0b})
	chase := wasmForever(wasmGet(0), bytes.Repeat(wasmLoad(upper), 2000), wasmSet(0))

	return []hostile{
		{name: "loop", kind: outOfFuel, crime: wasmForever()},
		{name: "recursion", kind: outOfFuel, crime: recursion},
		{name: "grow-storm", kind: outOfFuel, crime: wasmForever(wasmI32(1), wasmGrow, wasmDrop)},
		{name: "fill-storm", kind: outOfFuel, crime: wasm(wasmI32(200), wasmGrow, wasmDrop, wasmForever(wasmI32(0), wasmI32(1), wasmI32(200<<16), wasmFill))},
		{name: "call-indirect", kind: outOfFuel, crime: cycle(0), functions: [][]byte{cycle(1), cycle(2), cycle(0)}},
		{name: "br-table", kind: outOfFuel, crime: giantTable},
		{name: "costliest", kind: outOfFuel, init: writeDown, crime: chase},
	}
}

// says answers with a text.
func says(name, kind, text string) hostile {
	return hostile{name: name, kind: kind, text: text, crime: wasmAnswer(textAt, uint32(len(text)))}
}

// unavailable traps unless the call before it gave -6.
func unavailable(call []byte) []byte {
	return wasm(call, wasmI32(-6), []byte{0x47, 0x04, 0x40, 0x00, 0x0b}) // i32.ne if unreachable end
}

// hostiles are all of them.
func hostiles() []hostile {
	const badResult = "bad_result"
	const log = "wasmeter_v1.log iii -"
	lines := func(length int32) []byte { return wasm(wasmI32(1), wasmI32(0), wasmI32(length), wasmCall(0)) }
	count := wasm(wasmI32(0), wasmGet(0), []byte{0x44, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f}, wasmCall(0), wasmDrop) // by 1.0
	// An iovec at 16: 2 KiB from 0. fd_write(2, 16, 1, 32).
	iovec := wasm(wasmI32(20), wasmI32(2048), wasmStore(0))
	stderr := wasm(wasmI32(2), wasmI32(16), wasmI32(1), wasmI32(32), wasmCall(0), wasmDrop)
	key := wasm(wasmI32(textAt), wasmI32(3))
	imports := wasm(
		unavailable(wasm(key, key, wasmI32(0), wasmCall(0))),                                  // kv_set
		unavailable(wasm(key, key, wasmCall(1))),                                              // kv_get
		unavailable(wasm(wasmI32(1), key, wasmCall(2))),                                       // emit
		unavailable(wasm(wasmI32(0), wasmI32(0), []byte{0x44}, make([]byte, 8), wasmCall(3)))) // metric_add

	return append(endless(),
		hostile{name: "good", crime: wasmGood},
		hostile{name: "trap", kind: "trap", crime: wasmUnreachable},
		hostile{name: "exit", kind: "trap", calls: []string{"wasi_snapshot_preview1.proc_exit i -"}, crime: wasm(wasmI32(0), wasmCall(0), wasmGood)},
		hostile{name: "memory", kind: "memory", crime: wasm(wasmI32(1000), wasmGrow, wasmI32(-1), []byte{0x46, 0x04, 0x40, 0x00, 0x0b}, wasmGood)},

		says("huge", badResult, `{"fields":{"x_test":"`+strings.Repeat("a", 60_000)+`"}}`),
		says("deep", badResult, `{"fields":{"x_test":`+strings.Repeat("[", 15)+strings.Repeat("]", 15)+`}}`),
		says("not-utf8", badResult, "{\"fields\":{\"x_test\":\"\xff\xfe\"}}"),
		says("nan", badResult, `{"fields":{"x_test":NaN}}`),
		says("infinite", badResult, `{"fields":{"x_test":1e999}}`),
		says("duplicate", badResult, `{"fields":{"x_test":1,"x_test":2}}`),
		says("ungranted", "denied_key", `{"fields":{"x_test":1,"x_other":2}}`),
		says("wire-member", "denied_key", `{"fields":{"choices":[]}}`),
		// Where an answer was once there is the frame of this call.
		hostile{name: "stale-pointer", kind: badResult, crime: wasmAnswer(frameAt, uint32(len(goodAnswer)))},
		hostile{name: "outside", kind: badResult, crime: wasmAnswer(0xffff_fff0, 0xffff_ffff)},
		hostile{name: "outside-in-import", calls: []string{log}, crime: wasm(wasmI32(1), wasmI32(-16), wasmI32(-1), wasmCall(0), wasmGood)},

		// As many lines as the fuel is for, and lines that claim to be longer than there
		// is memory. A gigabyte of them is a test of package plugin.
		hostile{name: "log-flood", kind: "out_of_fuel", calls: []string{log}, crime: wasmForever(lines(2048))},
		hostile{name: "log-endless-line", kind: "out_of_fuel", calls: []string{log}, crime: wasmForever(lines(1 << 30))},
		hostile{name: "stderr-flood", kind: "out_of_fuel", calls: []string{"wasi_snapshot_preview1.fd_write iiii i"}, crime: wasm(iovec, wasmForever(stderr))},
		hostile{
			name: "metric-series", calls: []string{"wasmeter_v1.metric_add iiF i"}, crime: wasm(wasmTimes(10_000, count), wasmGood),
			config: "fuel: 20000000, grants: {fields: [x_test], metrics: true}, metrics: [{name: seen, type: counter, labels: {l: [a, b]}}]",
		},
		hostile{
			name: "imports-in-init", init: imports, text: "key", crime: wasmGood,
			calls:  []string{"wasmeter_v1.kv_set iiiii i", "wasmeter_v1.kv_get iiii i", "wasmeter_v1.emit iii i", "wasmeter_v1.metric_add iiF i"},
			config: "grants: {fields: [x_test], metrics: true, emit: true, kv: {read: true, write: true}}, metrics: [{name: seen, type: counter}]",
		},

		hostile{name: "loop-in-request", hook: "request", kind: "out_of_fuel", crime: wasmForever()},
		hostile{name: "loop-in-chunk", hook: "chunk", kind: "out_of_fuel", crime: wasmForever(), config: "grants: {rewrite: true, read: {response: true}}"},
		hostile{name: "trap-in-finish", hook: "finish", kind: "trap", crime: wasmUnreachable},
	)
}

// recycled tells whether a failure of that kind costs the instance.
func recycled(kind string) bool {
	return slices.Contains([]string{"trap", "out_of_fuel", "memory"}, kind)
}
