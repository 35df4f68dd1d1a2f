package meter

// Instructions that the meter writes: specification chapter 5.4.
const (
	opUnreachable = 0x00
	opIf          = 0x04
	opEnd         = 0x0b
	opLocalGet    = 0x20
	opLocalSet    = 0x21
	opGlobalGet   = 0x23
	opGlobalSet   = 0x24
	opI64Const    = 0x42
	opI64LtS      = 0x53
	opI64Sub      = 0x7d
	opI64Mul      = 0x7e
	opI64ShrU     = 0x88
	opI64ExtendU  = 0xad // i64.extend_i32_u
	typeI32       = 0x7f
	typeI64       = 0x7e
	typeNone      = 0x40
)

// appendCharge appends code that leaves the stack as it is:
//
//	fuel -= cost; if fuel < 0 { unreachable }
func (w *rewriter) appendCharge(dst []byte, cost int64) []byte {
	dst = w.appendFuel(dst, opGlobalGet)
	dst = appendSigned(append(dst, opI64Const), cost)
	dst = append(dst, opI64Sub)
	return w.appendSpend(dst)
}

// appendLateCharge appends code that leaves the stack as it is, and what is
// below 0 to who looks next:
//
//	fuel -= cost
func (w *rewriter) appendLateCharge(dst []byte, cost int64) []byte {
	dst = w.appendFuel(dst, opGlobalGet)
	dst = appendSigned(append(dst, opI64Const), cost)
	return w.appendFuel(append(dst, opI64Sub), opGlobalSet)
}

// appendSizeCharge appends code for the i32 on top of the stack, which it
// leaves there:
//
//	fuel -= base + size·times / 2^shift; if fuel < 0 { unreachable }
func (w *rewriter) appendSizeCharge(dst []byte, charge *sizeCharge, scratch uint64) []byte {
	dst = appendUnsigned(append(dst, opLocalSet), scratch)
	dst = w.appendFuel(dst, opGlobalGet)
	dst = appendSigned(append(dst, opI64Const), charge.base)
	dst = append(dst, opI64Sub)
	dst = appendUnsigned(append(dst, opLocalGet), scratch)
	dst = append(dst, opI64ExtendU)
	dst = appendSigned(append(dst, opI64Const), charge.times)
	dst = append(dst, opI64Mul)
	dst = appendSigned(append(dst, opI64Const), charge.shift)
	dst = append(dst, opI64ShrU, opI64Sub)
	dst = w.appendSpend(dst)
	return appendUnsigned(append(dst, opLocalGet), scratch)
}

// appendSpend appends code that takes the fuel that is left from the stack,
// keeps it, and traps when it is below 0.
func (w *rewriter) appendSpend(dst []byte) []byte {
	return w.appendLook(w.appendFuel(dst, opGlobalSet))
}

// appendLook appends code that traps when the fuel is below 0.
func (w *rewriter) appendLook(dst []byte) []byte {
	dst = w.appendFuel(dst, opGlobalGet)
	return append(dst, opI64Const, 0, opI64LtS, opIf, typeNone, opUnreachable, opEnd)
}

func (w *rewriter) appendFuel(dst []byte, op byte) []byte {
	return appendUnsigned(append(dst, op), uint64(w.numGlobals))
}

// appendUnsigned appends v in LEB128: specification chapter 5.2.2.
func appendUnsigned(dst []byte, v uint64) []byte {
	for v >= 0x80 {
		dst = append(dst, byte(v)|0x80)
		v >>= 7
	}
	return append(dst, byte(v))
}

// appendSigned appends v in signed LEB128.
func appendSigned(dst []byte, v int64) []byte {
	for v < -0x40 || v > 0x3f {
		dst = append(dst, byte(v)|0x80)
		v >>= 7
	}
	return append(dst, byte(v)&0x7f)
}
