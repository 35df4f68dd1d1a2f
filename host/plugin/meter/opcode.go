package meter

// opcode is what the meter knows of an instruction: how to step over it and
// what it costs. Neither its stack effect nor its meaning matters here; the
// engine validates both.
type opcode struct {
	first, last uint32 // a range of opcodes of the same kind
	// operands spells the immediates, one letter for each:
	//
	//	b block type     l local index    L local that is set    g global index    x other index
	//	i 32-bit int     I 64-bit int       f 4 bytes         F 8 bytes
	//	m memory operand n one byte (lane)  V 16 bytes        z one zero byte
	//	B branch table   t one value type   r reference type
	operands string
	// cost is in units of fuel: what is charged for one execution.
	cost int64
	// size is charged on top of cost for the number on top of the stack.
	size *sizeCharge
	flow flow
	// refused is the feature that the instruction belongs to, of those that
	// plugins do without.
	refused string
}

// flow is what an instruction does to the nesting of blocks.
type flow uint8

const (
	flowNone flow = iota
	flowBlock
	flowLoop
	flowIf
	flowElse
	flowEnd
	flowBranch
	flowCall
	flowReturn
)

// sizeCharge is fuel for an instruction whose work grows with its operand n,
// the unsigned i32 on top of the stack: base + n·times / 2^shift.
type sizeCharge struct {
	base  int64
	times int64
	shift int64
}

var (
	bulk = &sizeCharge{base: 32, times: 1, shift: 2}
	grow = &sizeCharge{base: 2000, times: 64, shift: 0}
)

// Costs of instructions. Run in a loop of its own, none may take longer than
// 4 ns a unit: then the default budget of 5 M units is used up within 20 ms,
// whatever a guest does with it. BenchmarkOpcodes times them all, each with
// its operand waiting for the one before; the costs keep the worst below
// half of that, since other machines are slower.
const (
	costPlain   = 1
	costVector  = 4 // a vector that waits takes 16 bytes of stack
	costStore   = 4
	costFew     = 4 // several machine instructions: conversions, tables, calls through them
	costFloat   = 8 // division and square root, up to 25 cycles
	costDivide  = 16
	costRuntime = 128 // a call of the engine's runtime, 200 ns
	// costLoad is for loads that each need the one before and miss the
	// caches: 150 ns on a quiet virtual machine, 280 beside others, 600 at
	// worst. Most loads hit, and pay for those that don't.
	costLoad = 96
)

// The prefixes of two-byte opcodes, and the tables of each.
const (
	prefixMisc   = 0xfc
	prefixVector = 0xfd
)

// plainOpcodes are the instructions of one byte: specification chapter 5.4,
// with the refused ones of later proposals by their names.
var plainOpcodes = expand(0x100, []opcode{
	{first: 0x00, last: 0x01, cost: costPlain},                                  // unreachable, nop
	{first: 0x02, last: 0x02, operands: "b", cost: costPlain, flow: flowBlock},  // block
	{first: 0x03, last: 0x03, operands: "b", cost: costPlain, flow: flowLoop},   // loop
	{first: 0x04, last: 0x04, operands: "b", cost: costPlain, flow: flowBlock},  // if
	{first: 0x05, last: 0x05, cost: costPlain, flow: flowElse},                  // else
	{first: 0x06, last: 0x0a, refused: "exceptions"},                            // try, catch, throw, rethrow, throw_ref
	{first: 0x0b, last: 0x0b, cost: costPlain, flow: flowEnd},                   // end
	{first: 0x0c, last: 0x0d, operands: "x", cost: costPlain, flow: flowBranch}, // br, br_if
	{first: 0x0e, last: 0x0e, operands: "B", cost: costFew, flow: flowBranch},   // br_table
	{first: 0x0f, last: 0x0f, cost: costPlain, flow: flowReturn},                // return
	{first: 0x10, last: 0x10, operands: "x", cost: costPlain, flow: flowCall},   // call
	{first: 0x11, last: 0x11, operands: "xx", cost: costFew, flow: flowCall},    // call_indirect
	{first: 0x12, last: 0x13, refused: "tail calls"},
	{first: 0x14, last: 0x15, refused: "typed function references"}, // call_ref, return_call_ref
	{first: 0x18, last: 0x19, refused: "exceptions"},                // delegate, catch_all
	{first: 0x1a, last: 0x1b, cost: costPlain},                      // drop, select
	{first: 0x1c, last: 0x1c, operands: "t", cost: costPlain},       // select with a type
	{first: 0x1f, last: 0x1f, refused: "exceptions"},                // try_table
	{first: 0x20, last: 0x20, operands: "l", cost: costPlain},       // local.get
	{first: 0x21, last: 0x22, operands: "L", cost: costPlain},       // local.set, local.tee
	{first: 0x23, last: 0x24, operands: "g", cost: costPlain},       // global.get, global.set
	{first: 0x25, last: 0x26, operands: "x", cost: costFew},         // table.get, table.set
	{first: 0x28, last: 0x35, operands: "m", cost: costLoad},        // loads
	{first: 0x36, last: 0x3e, operands: "m", cost: costStore},       // stores
	{first: 0x3f, last: 0x3f, operands: "z", cost: costPlain},       // memory.size
	{first: 0x40, last: 0x40, operands: "z", cost: costPlain, size: grow},
	{first: 0x41, last: 0x41, operands: "i", cost: costPlain}, // i32.const
	{first: 0x42, last: 0x42, operands: "I", cost: costPlain}, // i64.const
	{first: 0x43, last: 0x43, operands: "f", cost: costPlain}, // f32.const
	{first: 0x44, last: 0x44, operands: "F", cost: costPlain}, // f64.const
	{first: 0x45, last: 0x6c, cost: costPlain},                // comparisons, i32 up to mul
	{first: 0x6d, last: 0x70, cost: costDivide},               // i32 div, rem
	{first: 0x71, last: 0x7e, cost: costPlain},                // i32 bits, i64 up to mul
	{first: 0x7f, last: 0x82, cost: costDivide},               // i64 div, rem
	{first: 0x83, last: 0x90, cost: costPlain},                // i64 bits, f32
	{first: 0x91, last: 0x91, cost: costFloat},                // f32.sqrt
	{first: 0x92, last: 0x94, cost: costPlain},
	{first: 0x95, last: 0x95, cost: costFloat}, // f32.div
	{first: 0x96, last: 0x9e, cost: costPlain}, // f32, f64
	{first: 0x9f, last: 0x9f, cost: costFloat}, // f64.sqrt
	{first: 0xa0, last: 0xa2, cost: costPlain},
	{first: 0xa3, last: 0xa3, cost: costFloat},                  // f64.div
	{first: 0xa4, last: 0xa7, cost: costPlain},                  // f64, i32.wrap_i64
	{first: 0xa8, last: 0xab, cost: costFew},                    // truncations to i32
	{first: 0xac, last: 0xad, cost: costPlain},                  // i64.extend_i32
	{first: 0xae, last: 0xba, cost: costFew},                    // truncations to i64, conversions to floats
	{first: 0xbb, last: 0xbf, cost: costPlain},                  // f64.promote_f32, reinterpretations
	{first: 0xc0, last: 0xc4, cost: costPlain},                  // sign extension
	{first: 0xd0, last: 0xd0, operands: "r", cost: costPlain},   // ref.null
	{first: 0xd1, last: 0xd1, cost: costPlain},                  // ref.is_null
	{first: 0xd2, last: 0xd2, operands: "x", cost: costRuntime}, // ref.func
	{first: 0xd3, last: 0xd3, refused: "garbage collection"},    // ref.eq
	{first: 0xd4, last: 0xd6, refused: "typed function references"},
	{first: 0xfb, last: 0xfb, refused: "garbage collection"},
	{first: 0xfe, last: 0xfe, refused: "threads"},
})

// miscOpcodes follow the byte fc.
var miscOpcodes = expand(0x20, []opcode{
	{first: 0, last: 7, cost: costFew},                                 // saturating truncations
	{first: 8, last: 8, operands: "xz", cost: costPlain, size: bulk},   // memory.init
	{first: 9, last: 9, operands: "x", cost: costPlain},                // data.drop
	{first: 10, last: 10, operands: "zz", cost: costPlain, size: bulk}, // memory.copy
	{first: 11, last: 11, operands: "z", cost: costPlain, size: bulk},  // memory.fill
	{first: 12, last: 12, operands: "xx", cost: costPlain, size: bulk}, // table.init
	{first: 13, last: 13, operands: "x", cost: costPlain},              // elem.drop
	{first: 14, last: 14, operands: "xx", cost: costPlain, size: bulk}, // table.copy
	{first: 15, last: 15, operands: "x", cost: costPlain, size: grow},  // table.grow
	{first: 16, last: 16, operands: "x", cost: costPlain},              // table.size
	{first: 17, last: 17, operands: "x", cost: costPlain, size: bulk},  // table.fill
	{first: 18, last: 18, refused: "memory control"},
	{first: 19, last: 22, refused: "wide arithmetic"},
})

// vectorOpcodes follow the byte fd: fixed-width SIMD.
var vectorOpcodes = expand(0x180, []opcode{
	{first: 0x00, last: 0x0a, operands: "m", cost: costLoad},
	{first: 0x0b, last: 0x0b, operands: "m", cost: costStore},  // v128.store
	{first: 0x0c, last: 0x0d, operands: "V", cost: costVector}, // v128.const, i8x16.shuffle
	{first: 0x0e, last: 0x14, cost: costVector},                // i8x16.swizzle, splats
	{first: 0x15, last: 0x22, operands: "n", cost: costVector}, // extract_lane, replace_lane
	{first: 0x23, last: 0x53, cost: costVector},                // comparisons, bits
	{first: 0x54, last: 0x57, operands: "mn", cost: costLoad},  // load_lane
	{first: 0x58, last: 0x5b, operands: "mn", cost: costStore}, // store_lane
	{first: 0x5c, last: 0x5d, operands: "m", cost: costLoad},   // load_zero
	{first: 0x5e, last: 0x99, cost: costVector},                // integers, between the gaps of the numbering
	{first: 0x9b, last: 0xa1, cost: costVector},
	{first: 0xa3, last: 0xa4, cost: costVector},
	{first: 0xa7, last: 0xae, cost: costVector},
	{first: 0xb1, last: 0xb1, cost: costVector},
	{first: 0xb5, last: 0xba, cost: costVector},
	{first: 0xbc, last: 0xc1, cost: costVector},
	{first: 0xc3, last: 0xc4, cost: costVector},
	{first: 0xc7, last: 0xce, cost: costVector},
	{first: 0xd1, last: 0xd1, cost: costVector},
	{first: 0xd5, last: 0xe1, cost: costVector},
	{first: 0xe3, last: 0xe3, cost: costFloat}, // f32x4.sqrt
	{first: 0xe4, last: 0xe6, cost: costVector},
	{first: 0xe7, last: 0xe7, cost: costFloat}, // f32x4.div
	{first: 0xe8, last: 0xed, cost: costVector},
	{first: 0xef, last: 0xef, cost: costFloat}, // f64x2.sqrt
	{first: 0xf0, last: 0xf2, cost: costVector},
	{first: 0xf3, last: 0xf3, cost: costFloat}, // f64x2.div
	{first: 0xf4, last: 0xff, cost: costVector},
	{first: 0x100, last: 0x17f, refused: "relaxed SIMD"},
})

// expand makes a table that is indexed by opcode. An unknown opcode has no
// cost.
func expand(size int, rows []opcode) []opcode {
	table := make([]opcode, size)
	for _, row := range rows {
		for op := row.first; op <= row.last; op++ {
			table[op] = row
		}
	}
	return table
}
