package config

import (
	"fmt"
	"slices"
	"strings"
)

// schema is a set of keys to read one mapping by.
type schema []key

// find gives the key of that name, or nil.
func (s schema) find(name string) *key {
	for i := range s {
		if s[i].name == name {
			return &s[i]
		}
	}
	return nil
}

// isSection reports whether keys stand below that name.
func (s schema) isSection(name string) bool {
	return slices.ContainsFunc(s, func(k key) bool { return strings.HasPrefix(k.name, name+".") })
}

// unknown says what may have been meant by a name that is no key.
func (s schema) unknown(name string) string {
	if near := s.nearest(name); near != "" {
		return "unknown key; did you mean " + near + "?"
	}
	section, _ := cutLast(name)
	for section != "" && !s.isSection(section) {
		section, _ = cutLast(section)
	}
	return "unknown key; " + s.members(section)
}

// members lists what may stand in a section, "" for the top.
func (s schema) members(section string) string {
	var names []string
	prefix := section + "."
	if section == "" {
		prefix = ""
	}
	for _, k := range s {
		rest, ok := strings.CutPrefix(k.name, prefix)
		name, _, _ := strings.Cut(rest, ".")
		if ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if section == "" {
		return "known are " + strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s has %s", section, strings.Join(names, ", "))
}

// nearest gives the known name that is closest by its last part, which may
// stand in another section or be spelt as a flag; "" when none is close.
func (s schema) nearest(name string) string {
	var names []string
	for _, k := range s {
		for part := k.name; part != ""; part, _ = cutLast(part) {
			names = append(names, part)
		}
	}
	return Nearest(strings.ReplaceAll(strings.ToLower(name), "-", "_"), names)
}

// Nearest gives the dotted name among names whose last part is closest to that
// of name, one of the same section first; "" when none is close.
func Nearest(name string, names []string) string {
	section, leaf := cutLast(name)
	best, bestCost := "", 2*((len(leaf)+2)/3)+2 // a third of the letters may be wrong
	for _, candidate := range names {
		inSection, inLeaf := cutLast(candidate)
		cost := 2 * distance(leaf, inLeaf)
		if section != inSection {
			cost++
		}
		if cost < bestCost {
			best, bestCost = candidate, cost
		}
	}
	return best
}

// cutLast cuts a dotted name before its last part.
func cutLast(name string) (section, leaf string) {
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		return name[:i], name[i+1:]
	}
	return "", name
}

// distance is the number of letters to insert, delete, replace or swap with
// their neighbour to get from a to b (optimal string alignment). Names beyond
// 64 bytes are as far as they are long.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return max(len(a), len(b))
	}
	var rows [3][65]int
	for j := range len(b) + 1 {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row := &rows[(i+2)%3], &rows[i%3], &rows[(i+1)%3]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return rows[(len(a)+1)%3][len(b)]
}
