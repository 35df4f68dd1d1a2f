package plugin

// State is what a chain keeps of one request from one hook to the next: what
// each plugin carries on, and room for the answers. The caller has one for
// each request and hands it to every call; the zero value is a request that
// begins. It must not be used by two calls at once.
type State struct {
	carries []string // by the plugin's place in the chain
	// ended is the number of plugins that have accepted the request, if one
	// has not: the others are not told of its end.
	ended   int
	refused bool
	result  result
}

// Reset makes a State fit for the next request, with the memory it has.
func (s *State) Reset() {
	clear(s.carries)
	s.carries = s.carries[:0]
	s.ended, s.refused = 0, false
	s.result.begin()
}

// Carry gives what the plugin at place i of the chain carries on to its later
// hooks.
func (s *State) Carry(i int) string {
	if i >= len(s.carries) {
		return ""
	}
	return s.carries[i]
}

func (s *State) keep(i int, carry string) {
	for len(s.carries) <= i {
		s.carries = append(s.carries, "")
	}
	s.carries[i] = carry
}

// refuse notes that the plugin at place i has ended the request.
func (s *State) refuse(i int) { s.ended, s.refused = i, true }
