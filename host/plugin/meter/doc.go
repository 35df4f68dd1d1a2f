// Package meter makes WebAssembly modules count what they do.
//
// Compiled guest code has no point at which the host could stop it, and while
// it runs the Go garbage collector waits for it, and every other goroutine
// with it. So each module is rewritten before it is compiled: it gets a
// counter of fuel, a mutable global that is exported as FuelGlobal and that
// no instruction of the guest can reach, and code that draws on it.
//
//	func              f ──▶ fuel -= cost of the body outside loops; trap if fuel < 0
//	  loop              ──▶ fuel -= cost of the loop outside inner loops; trap if fuel < 0
//	    memory.fill     ──▶ fuel -= cost by the size on the stack; trap if fuel < 0
//	  end               ──▶ fuel -= cost of what a branch may have skipped
//
// A region is the code of a function outside its loops, or of a loop outside
// the loops in it. Within one pass through a region's head each of its
// instructions runs at most once, since the only jumps backwards go to heads
// of loops. To charge the whole region there is therefore never too little;
// it is too much when a branch skips a part. So code behind a join that is
// long enough is a region of its own. Its charge doesn't look at what is left:
// that is left to the next charge that does, which never is far away.
//
// The counter can't overflow: it starts at 0 or above, a region costs less
// than 2^31, a sized instruction less than 2^39, and the first charge that
// finds it below 0, a few regions later at most, traps.
//
// The cost of an instruction is in the table of opcode.go. An instruction
// that is not in it is refused.
package meter
