package settings

// Saying gives the value with more words on what may stand there.
func (v Value) Saying(more string) Value {
	v.allowed += more
	return v
}
