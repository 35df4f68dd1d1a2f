package engine

// queue is the list of waiting sequences in the order of sequence.before, linked
// through the sequences themselves so that one can leave from anywhere when its
// reader goes.
type queue struct {
	first, last *sequence
	len         int
}

// add puts q behind all that come before it.
func (w *queue) add(q *sequence) {
	q.previous, q.next, q.queued = w.last, nil, true
	for q.previous != nil && q.before(q.previous) {
		q.previous, q.next = q.previous.previous, q.previous
	}
	if q.previous == nil {
		w.first = q
	} else {
		q.previous.next = q
	}
	if q.next == nil {
		w.last = q
	} else {
		q.next.previous = q
	}
	w.len++
}

// has tells whether q waits.
func (w *queue) has(q *sequence) bool { return q.queued }

// remove takes q out; it must be waiting.
func (w *queue) remove(q *sequence) {
	if q.previous == nil {
		w.first = q.next
	} else {
		q.previous.next = q.next
	}
	if q.next == nil {
		w.last = q.previous
	} else {
		q.next.previous = q.previous
	}
	q.previous, q.next, q.queued = nil, nil, false
	w.len--
}
