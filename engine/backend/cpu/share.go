package cpu

// shareTask does what others ask of the threads between two steps.
type shareTask struct{ do func(part, thread int) }

func (t *shareTask) run(chunk int, s *scratch) { t.do(chunk, s.thread) }

// Threads implements backend.Sharer.
func (b *Backend) Threads() int { return len(b.workers.scratch) }

// Share implements backend.Sharer.
func (b *Backend) Share(parts int, do func(part, thread int)) {
	b.shareTask.do = do
	b.workers.run(&b.shareTask, parts)
}
