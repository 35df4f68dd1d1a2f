package cpu

import "time"

// crew decides how many threads take part in a phase. A thread whose core a
// neighbour wants is put aside in the middle of a chunk, for the milliseconds of a
// scheduler's slice, and the phase waits for it. Where that takes more than a
// thread can bring, one fewer takes part for a while, which doubles with each
// return that fails. Only their number is decided: the operating system moves the
// others, the caller too, to the cores that are free.
//
// It is owned by the caller of run, and knows of time what it is told.
type crew struct {
	threads int
	// threadTime is that of the caller's thread; tests have their own.
	threadTime func() (thread int, used time.Duration)
	// size is the number that takes part, 1 … threads.
	size int
	// busy is the time of the phases since the size has changed, late what of it
	// went by because threads were put aside. Both fade.
	busy, late time.Duration
	// The caller's thread, when it was looked at last: which it is, the time of the
	// day, and the processor time that it had used.
	thread     int
	seen, used time.Duration
	// ended is when the last phase did.
	ended time.Duration
	// until is when the next one comes back, pause how long the last one to leave
	// was told to stay away.
	until, pause time.Duration
}

const (
	// crewMemory is the time in phases after which what was seen is halved. A thread
	// that stays so long has come back for good.
	crewMemory = 64 * time.Millisecond
	// crewTrial is the least time in phases that a judgement is based on.
	crewTrial = 8 * time.Millisecond
	// The time away begins with the first and is at most the second: what a
	// neighbour who stays costs in failed returns, and how long one who has left is
	// still believed to be there.
	minCrewPause, maxCrewPause = 16 * time.Millisecond, 1024 * time.Millisecond
	// crewLook is the time between two looks at what the caller's thread has used.
	crewLook = time.Millisecond
)

func newCrew(threads int) crew {
	return crew{threads: threads, size: threads, threadTime: threadTime}
}

// whole tells that nobody is away.
func (c *crew) whole() bool { return c.size == c.threads }

// begin is told that a phase begins.
func (c *crew) begin(now time.Duration) {
	if !c.whole() && now >= c.until {
		c.size++
		c.busy, c.late = 0, 0
		c.until = now + crewMemory // of the next one
	}
	if c.size > 1 && now-c.ended > spinTime {
		c.look(now) // between two steps it may have slept
	}
}

// end is told what a phase took until the caller had nothing more to do, and how
// long it waited from then on. Waiting for a chunk that is being computed is no
// fault: a thread does some six of them.
func (c *crew) end(now, worked, waited time.Duration) {
	c.busy += worked + waited
	c.ended = now
	late := max(waited-worked/4, 0)
	if now-c.seen > crewLook {
		late += c.look(now)
	}
	if late > 0 {
		c.late += late
		c.judge(now)
	}
	if c.busy > crewMemory {
		c.busy, c.late = c.busy/2, c.late/2
		if c.whole() {
			c.pause = 0
		}
	}
}

// look is the time since the last look in which the caller's thread was put
// aside: it has gone by and was not used. Of another thread nothing is known.
func (c *crew) look(now time.Duration) (aside time.Duration) {
	thread, used := c.threadTime()
	if thread == c.thread && thread != 0 {
		aside = max(now-c.seen-(used-c.used), 0)
	}
	c.thread, c.seen, c.used = thread, now, used
	return aside
}

// judge lets one leave if more than a quarter of a thread's share of the time is
// lost: where memory bounds the work, a thread brings less than its share.
func (c *crew) judge(now time.Duration) {
	if c.size == 1 || 4*time.Duration(c.size)*c.late <= max(c.busy, crewTrial) {
		return
	}
	c.size--
	c.busy, c.late = 0, 0
	c.pause = min(max(2*c.pause, minCrewPause), maxCrewPause)
	c.until = now + c.pause
}
