package openai

// Opt is a value that a request may leave out. Absent and null are the same.
type Opt[T any] struct {
	Value T
	Set   bool
}

// Some is a value that is there.
func Some[T any](v T) Opt[T] { return Opt[T]{Value: v, Set: true} }

// Or is the value, or otherwise if there is none.
func (o Opt[T]) Or(otherwise T) T {
	if o.Set {
		return o.Value
	}
	return otherwise
}
