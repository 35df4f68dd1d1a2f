package keys

// Changes says how the ring differs from one before: +NAME for a key that has
// come, -NAME for one that has gone, ~NAME for one whose secret or tenant is
// another, in the order of the rings.
func (r *Ring) Changes(before *Ring) []string {
	var changes []string
	places, placesBefore := r.places(), before.places()
	for i := range r.Len() {
		name := r.owners[i].Name
		j, known := placesBefore[name]
		switch {
		case !known:
			changes = append(changes, "+"+name)
		case before.hashes[j] != r.hashes[i] || before.owners[j] != r.owners[i]:
			changes = append(changes, "~"+name)
		}
	}
	for j := range before.Len() {
		name := before.owners[j].Name
		if _, known := places[name]; !known {
			changes = append(changes, "-"+name)
		}
	}
	return changes
}

// places gives the place of each key by its name.
func (r *Ring) places() map[string]int {
	places := make(map[string]int, r.Len())
	for i := range r.Len() {
		places[r.owners[i].Name] = i
	}
	return places
}
