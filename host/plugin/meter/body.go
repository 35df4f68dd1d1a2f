package meter

import (
	"github.com/wasmeter/wasmeter/host/plugin/wasm"
)

// Limits of a function body.
const (
	maxLocals  = 4096
	maxNesting = 4096
	// maxMerges bounds the values that the engine must carry over the joins
	// of a function's control flow; see (*scan).join.
	maxMerges = 1 << 18
)

// costEntry is charged for entering a function: it takes stack, which the
// host must allocate when a recursion is deep.
const costEntry = 64

// leastRegion is the number of instructions from which a region has a charge
// of its own: a charge takes as long as a few of them. A smaller one costs guests
// that branch much time, a larger one fuel for what they skip (BenchmarkRealGuests):
// with 10, 14 and 28 a call of the Go guest takes 0.07 M, 0.13 M and 0.33 M units, and the
// guests are slower by up to 22, 14 and 11 %.
const leastRegion = 14

// mostLate is how much of a function is charged without a look at what is left,
// which costs more than the charge. The next entry of a function, the next turn of
// a loop, the next import and the end of the call look at it. A function that calls
// others looks before it returns: else a deep recursion could do so much on each of
// its ways back. So a call exceeds its budget by twice mostLate, or a hundredth.
const mostLate = 25_000

// movesAUnit is how many values a join moves for one unit of fuel.
const movesAUnit = 2

// scan is what the first pass over a body finds out.
type scan struct {
	numLocals int // parameters included
	entry     int // offset of the first instruction

	regions []region // in the order of their heads
	frames  []frame  // the blocks that are open
	charges []charge

	numSets  int // local.set and local.tee so far
	numEdges int // branches so far, each entry of a table one
	merges   int // values carried over joins
	calls    bool
	label    uint32 // the outermost of the branch that was read last

	blockType arity // of the block that was read last
}

// region is code that is charged for at once, at its head. Each way to an
// instruction of it leads over the head, and no instruction of it runs twice
// without the head in between.
type region struct {
	cost         int64
	instructions int
	// into is an earlier region that dominates this one, and takes its cost
	// if it is too short for a charge of its own.
	into int
}

// frame is an open block.
type frame struct {
	start  int // region at its beginning
	region int // region of the instruction that is read
	sets   int // scan.numSets where it began
	joined int // values that a branch to it carries on the stack
	loop   bool
}

// charge is a place in the body where code is to be put.
type charge struct {
	at     int         // offset in the file; the code goes before it
	region int         // whose cost to charge, if size is nil
	looks  bool        // at what is left, as each must at the head of a function or loop
	exit   bool        // it only looks, before the function may return
	size   *sizeCharge // of the instruction at that place
}

// code rewrites the code section.
func (w *rewriter) code(r *wasm.Reader) []byte {
	first := *r
	section := make([]byte, 0, len(r.Rest())+len(r.Rest())/4)
	section = appendUnsigned(section, uint64(first.U32()))
	var rewritten []byte
	r.Each(3, func() {
		body := r.Sub(r.U32())
		if r.Err() != nil {
			return
		}
		if w.numBodies >= len(w.functions) {
			r.Fail("more bodies than the %d functions that are declared", len(w.functions))
			return
		}
		if n := len(body.Rest()); n > maxFunctionBytes {
			r.Fail("a function body of %d bytes; at most %d (64 KiB) are allowed: compile with less inlining", n, maxFunctionBytes)
			return
		}
		rewritten = w.function(rewritten[:0], body, w.functions[w.numBodies])
		if body.Err() != nil {
			r.Fail("function %d: %v", int(w.numImported)+w.numBodies, body.Err())
			return
		}
		w.numBodies++
		section = appendUnsigned(section, uint64(len(rewritten)))
		section = append(section, rewritten...)
	})
	return section
}

// function appends the metered form of one body to dst.
func (w *rewriter) function(dst []byte, r *wasm.Reader, signature arity) []byte {
	body := *r
	w.readLocals(r, signature)
	w.scan(r, signature)
	if r.Err() != nil {
		return dst
	}
	return w.write(dst, &body)
}

// write appends a body with the charges that the scan found.
func (w *rewriter) write(dst []byte, r *wasm.Reader) []byte {
	// A local more holds the operands of sized instructions.
	groups := r.U32()
	dst = appendUnsigned(dst, uint64(groups)+1)
	source, at := r.Rest(), r.Offset()
	s := &w.body
	dst = append(dst, source[:s.entry-at]...)
	dst = append(dst, 1, typeI32)
	from, late := s.entry, int64(0)
	for _, c := range s.charges {
		dst = append(dst, source[from-at:c.at-at]...)
		from = c.at
		cost := s.regions[c.region].cost
		switch {
		case c.size != nil:
			dst = w.appendSizeCharge(dst, c.size, uint64(s.numLocals))
		case c.exit:
			if s.calls && late > 0 {
				dst = w.appendLook(dst)
			}
		case cost == 0:
		case !c.looks && late+cost <= mostLate:
			late += cost
			dst = w.appendLateCharge(dst, cost)
		default:
			dst = w.appendCharge(dst, cost)
		}
	}
	return append(dst, source[from-at:]...)
}

// readLocals reads the declarations of locals.
func (w *rewriter) readLocals(r *wasm.Reader, signature arity) {
	total := uint64(signature.params)
	r.Each(2, func() {
		total += uint64(r.U32())
		r.ValueType()
	})
	if total > maxLocals {
		r.Fail("%d locals; at most %d are allowed", total, maxLocals)
		total = 0
	}
	w.body.numLocals = int(total)
	w.body.entry = r.Offset()
}

// scan finds the regions of a body and what they cost.
func (w *rewriter) scan(r *wasm.Reader, signature arity) {
	s := &w.body
	s.numSets, s.numEdges, s.merges, s.calls = 0, 0, 0, false
	s.regions = append(s.regions[:0], region{cost: costEntry + int64(s.numLocals)})
	s.frames = append(s.frames[:0], frame{joined: signature.results})
	s.charges = append(s.charges[:0], charge{at: s.entry, looks: true})
	for len(s.frames) > 0 && r.Err() == nil {
		at := r.Offset()
		op := w.readOpcode(r)
		w.readOperands(r, op)
		current := &s.frames[len(s.frames)-1]
		s.regions[current.region].add(op.cost, 1)
		switch outermost := len(s.frames) - 1; {
		case op.size != nil:
			s.charges = append(s.charges, charge{at: at, size: op.size})
		case op.flow == flowReturn, op.flow == flowEnd && outermost == 0, op.flow == flowBranch && int64(s.label) >= int64(outermost):
			s.charges = append(s.charges, charge{at: at, exit: true})
		}
		s.follow(op, r)
	}
	if r.Err() == nil && r.More() {
		r.Fail("%d bytes behind the function's end", len(r.Rest()))
	}
	if n := s.merges + s.numEdges*min(s.numLocals, s.numSets); n > maxMerges {
		r.Fail("branches carry locals over %d joins; at most %d are allowed in a function: compile with less inlining", n, maxMerges)
	}
}

// follow keeps the stack of open blocks and begins regions. r stands behind
// the instruction.
func (s *scan) follow(op *opcode, r *wasm.Reader) {
	current := &s.frames[len(s.frames)-1]
	switch op.flow {
	case flowBlock:
		s.open(r, frame{start: current.region, joined: s.blockType.results})
	case flowLoop:
		s.charges = append(s.charges, charge{at: r.Offset(), region: len(s.regions), looks: true})
		s.regions = append(s.regions, region{})
		// A branch to a loop goes to its head.
		s.open(r, frame{start: len(s.regions) - 1, joined: s.blockType.params, loop: true})
	case flowIf:
		s.open(r, frame{start: current.region, joined: s.blockType.results})
		s.split(r)
	case flowElse:
		s.settle(current)
		current.region = current.start
		s.split(r)
	case flowEnd:
		s.end(r)
	case flowBranch:
		s.numEdges++
	case flowCall:
		s.calls = true
	}
}

func (s *scan) open(r *wasm.Reader, f frame) {
	if len(s.frames) >= maxNesting {
		r.Fail("blocks nested %d deep; at most %d are allowed", len(s.frames)+1, maxNesting)
	}
	f.region, f.sets = f.start, s.numSets
	s.frames = append(s.frames, f)
}

// split begins a region for what follows in the innermost block: where a
// branch may have skipped the code before, not all of it was needed.
func (s *scan) split(r *wasm.Reader) {
	current := &s.frames[len(s.frames)-1]
	s.settle(current)
	s.charges = append(s.charges, charge{at: r.Offset(), region: len(s.regions)})
	s.regions = append(s.regions, region{into: current.region})
	current.region = len(s.regions) - 1
}

// settle ends the region that a block is in. A charge costs about as much as
// the code of a short region, whose cost therefore goes to the one before.
func (s *scan) settle(f *frame) {
	if ended := &s.regions[f.region]; f.region != f.start && ended.instructions < leastRegion {
		s.regions[ended.into].add(ended.cost, ended.instructions)
		ended.cost, ended.instructions = 0, 0
		f.region = ended.into
	}
}

func (r *region) add(cost int64, instructions int) {
	r.cost += cost
	r.instructions += instructions
}

// end closes a block and charges for what meets at its end, or at the head
// of a loop: the values on the stack and the locals that the block sets may
// have to be moved, since they come from elsewhere on each way there. No
// instruction stands for these moves, so a few instructions could cause
// thousands of them.
func (s *scan) end(r *wasm.Reader) {
	f := s.frames[len(s.frames)-1]
	s.settle(&f)
	s.frames = s.frames[:len(s.frames)-1]
	carried, at := f.joined, f.start
	if len(s.frames) > 0 {
		carried += min(s.numLocals, s.numSets-f.sets) // no local outlives the function
		s.split(r)
		if !f.loop {
			at = s.frames[len(s.frames)-1].region
		}
	}
	s.merges += carried
	s.regions[at].cost += int64(carried+movesAUnit-1) / movesAUnit
}
