package cpu

import (
	"runtime"
	"testing"
	"time"
)

// testCrew knows nothing of the caller's thread.
func testCrew(threads int) crew {
	c := newCrew(threads)
	c.threadTime = unknownThread
	return c
}

func unknownThread() (int, time.Duration) { return 0, 0 }

// twoCores is a model of two threads that decode. The second thread's core belongs to
// it and a neighbour in turn, for a slice each, and one that has slept has a
// slice left.
type twoCores struct {
	crew  crew
	clock time.Duration

	neighbour bool
	turn      time.Duration // when the core changes hands
	aside     bool          // the neighbour has it
}

const (
	modelPhase = 40 * time.Microsecond // of one thread
	bothPhase  = 31 * time.Microsecond // of two, since memory bounds it
	modelSlice = 3 * time.Millisecond
)

// phase runs one, with as many threads as the crew says.
func (m *twoCores) phase() {
	m.crew.begin(m.clock)
	if !m.neighbour {
		m.aside, m.turn = false, m.clock+modelSlice
	}
	if m.crew.size == 1 {
		m.clock += modelPhase
		m.aside, m.turn = false, m.clock+modelSlice // it sleeps
		return
	}
	for m.clock >= m.turn {
		m.aside, m.turn = !m.aside, m.turn+modelSlice
	}
	if m.aside { // it comes to nothing of this phase
		m.clock += modelPhase
		m.crew.end(m.clock, modelPhase, 0)
		return
	}
	m.clock += bothPhase
	waited := time.Duration(0)
	if m.neighbour && m.clock >= m.turn { // it was put aside with a chunk
		waited = modelSlice
		m.clock += waited
	}
	m.crew.end(m.clock, bothPhase, waited)
}

// phases runs n and returns their time.
func (m *twoCores) phases(n int) time.Duration {
	start := m.clock
	for range n {
		m.phase()
	}
	return m.clock - start
}

// Beside a neighbour, a crew must not be slower than one thread would be.
func TestCrewBesideNeighbour(t *testing.T) {
	const n = 200_000 // some eight seconds
	m := twoCores{crew: testCrew(2)}
	alone := m.phases(n)
	if alone != n*bothPhase {
		t.Errorf("alone: %s, want %s with two threads", alone, n*bothPhase)
	}
	m.neighbour = true
	one := n * modelPhase
	if beside := m.phases(n); beside > one*102/100 {
		t.Errorf("beside a neighbour: %s, want at most 2 %% more than one thread's %s", beside, one)
	}
	if m.crew.size != 1 {
		t.Errorf("beside a neighbour: %d threads, want one", m.crew.size)
	}
	m.neighbour = false
	for back := m.clock; m.crew.size == 1; m.phase() {
		if m.clock-back > maxCrewPause+2*modelPhase {
			t.Fatalf("%s after the neighbour has left the thread is not back", m.clock-back)
		}
	}
	if again := m.phases(n); again > alone+alone/1000 {
		t.Errorf("after the neighbour: %s, want %s as before", again, alone)
	}
}

// Rare delays, which the kernel's own work and other programs bring, cost less than
// staying away would.
func TestCrewForgivesRareDelays(t *testing.T) {
	c := testCrew(2)
	clock := time.Duration(0)
	for i := range 100_000 {
		c.begin(clock)
		worked, waited := 30*time.Microsecond, time.Microsecond
		if i%1000 == 999 {
			waited = 2 * time.Millisecond // of 32
		}
		clock += worked + waited
		c.end(clock, worked, waited)
		if c.size != 2 {
			t.Fatalf("a thread has left after %s, which lost one part in 16", clock)
		}
	}
}

// A chunk that is being computed is waited for, however long it is.
func TestCrewWaitsForChunks(t *testing.T) {
	c := testCrew(3)
	clock := time.Duration(0)
	for range 1000 {
		c.begin(clock)
		worked, waited := 24*time.Millisecond, 4*time.Millisecond
		clock += worked + waited
		c.end(clock, worked, waited)
		if c.size != 3 {
			t.Fatal("a thread has left, which was computing")
		}
	}
}

// Of many threads one leaves after the other, and they come back so.
func TestCrewShrinksAndGrows(t *testing.T) {
	c := testCrew(4)
	clock := time.Duration(0)
	var sizes []int
	for i := range 60_000 {
		c.begin(clock)
		worked, waited := 20*time.Microsecond, time.Duration(0)
		if i < 100 && c.size > 2 { // two neighbours, for 100 phases
			waited = 3 * time.Millisecond
		}
		clock += worked + waited
		c.end(clock, worked, waited)
		if n := len(sizes); n == 0 || sizes[n-1] != c.size {
			sizes = append(sizes, c.size)
		}
	}
	want := []int{3, 2, 3, 4}
	if len(sizes) != len(want) {
		t.Fatalf("sizes %v, want %v", sizes, want)
	}
	for i := range want {
		if sizes[i] != want[i] {
			t.Fatalf("sizes %v, want %v", sizes, want)
		}
	}
}

// Where the caller itself is put aside, the one core that is free is its worker's.
func TestCrewMakesRoomForCaller(t *testing.T) {
	c := newCrew(2)
	clock, used, thread := time.Duration(0), time.Duration(0), 7
	c.threadTime = func() (int, time.Duration) { return thread, used }
	// phases runs some, of which the caller computes a part and is put aside for the rest.
	phases := func(n int, part float64) {
		for range n {
			c.begin(clock)
			took := 40 * time.Microsecond
			clock += took
			used += time.Duration(part * float64(took))
			c.end(clock, took, 0)
		}
	}
	phases(10_000, 1)
	clock += time.Second // asleep between two steps, which is no fault
	phases(10_000, 1)
	thread, used = 8, time.Hour // on another thread from here on, of which nothing is known
	phases(10_000, 1)
	if c.size != 2 {
		t.Fatal("a thread has left, with nobody put aside")
	}
	phases(10_000, 0.95)
	if c.size != 2 {
		t.Fatal("a thread has left for one part in 20")
	}
	phases(1000, 0.6)
	if c.size != 1 {
		t.Fatal("no thread has left, with the caller put aside for two parts in five")
	}
}

func TestThreadTime(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread, used := threadTime()
	if runtime.GOOS != "linux" {
		t.Skip("known on Linux only")
	}
	start := time.Now()
	for used2 := used; used2-used < 2*time.Millisecond; {
		var now int
		if now, used2 = threadTime(); now != thread || used2 < used {
			t.Fatalf("thread %d has used %s, and then thread %d %s", thread, used, now, used2)
		}
		if time.Since(start) > 20*time.Second {
			t.Fatal("a thread that computes for 20 s has used less than 2 ms")
		}
	}
}
