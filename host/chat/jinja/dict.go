package jinja

import "math"

// Dict is a mapping that keeps the order of its keys. A key is none, a boolean, a number or a string.
type Dict struct {
	members []member
	places  map[Value]int // of members by their keys, where they are many
}

type member struct{ key, value Value }

// maxScanned is how many members are looked through faster than a map is made and asked.
const maxScanned = 8

// NewDict makes an empty mapping.
func NewDict() *Dict { return new(Dict) }

// Set adds or replaces a member. It is for whoever builds the mapping, before a template sees it.
func (d *Dict) Set(key string, v Value) { d.set(key, v) }

// All yields the members whose keys are strings, in order.
func (d *Dict) All() func(yield func(string, Value) bool) {
	return func(yield func(string, Value) bool) {
		for _, m := range d.members {
			if key, ok := m.key.(string); ok && !yield(key, m.value) {
				return
			}
		}
	}
}

// hashed is what stands for all keys that are equal, as 1, 1.0 and true are. It reports whether v may be a key.
func hashed(v Value) (Value, bool) {
	switch v := v.(type) {
	case nil, string, int64:
		return v, true
	case bool:
		_, i, _, _ := number(v)
		return i, true
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<62 {
			return int64(v), true
		}
		return v, true
	}
	return nil, false
}

// set reports whether key may be one.
func (d *Dict) set(key, v Value) bool {
	hash, ok := hashed(key)
	if !ok {
		return false
	}
	if i := d.place(hash); i >= 0 {
		d.members[i].value = v
		return true
	}
	if d.members == nil {
		d.members = make([]member, 0, 4)
	}
	d.members = append(d.members, member{key, v})
	if len(d.members) == maxScanned+1 {
		d.places = make(map[Value]int, 4*maxScanned)
		for i, m := range d.members {
			hash, _ := hashed(m.key)
			d.places[hash] = i
		}
	} else if d.places != nil {
		d.places[hash] = len(d.members) - 1
	}
	return true
}

// place is the index of the member with a key's hash, or -1.
func (d *Dict) place(hash Value) int {
	if d.places != nil {
		if i, found := d.places[hash]; found {
			return i
		}
		return -1
	}
	text, isText := hash.(string)
	for i := range d.members {
		if isText {
			if key, ok := d.members[i].key.(string); ok && key == text {
				return i
			}
		} else if other, _ := hashed(d.members[i].key); other == hash {
			return i
		}
	}
	return -1
}

func (d *Dict) get(key Value) (Value, bool) {
	if d == nil {
		return nil, false
	}
	hash, ok := hashed(key)
	if !ok {
		return nil, false
	}
	if i := d.place(hash); i >= 0 {
		return d.members[i].value, true
	}
	return nil, false
}

// named are members with strings for keys, such as the arguments of a call; none for nil.
func (d *Dict) named() []member {
	if d == nil {
		return nil
	}
	return d.members
}
