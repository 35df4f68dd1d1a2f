package engine

// queue is the list of waiting sequences, linked through the sequences
// themselves so that one can leave from anywhere when its reader goes.
type queue struct {
	first, last *sequence
	len         int
}

// add puts q at the end.
func (w *queue) add(q *sequence) {
	q.previous, q.next, q.queued = w.last, nil, true
	if w.last == nil {
		w.first = q
	} else {
		w.last.next = q
	}
	w.last = q
	w.len++
}

// addFirst puts q before all others.
func (w *queue) addFirst(q *sequence) {
	q.previous, q.next, q.queued = nil, w.first, true
	if w.first == nil {
		w.last = q
	} else {
		w.first.previous = q
	}
	w.first = q
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
