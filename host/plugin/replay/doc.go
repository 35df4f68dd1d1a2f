// Package replay runs the requests of a ledger through a plugin again: what
// would they have cost with other prices?
//
// Copy takes frames out of a ledger's file, without anything that a client
// wrote. A Pricer is a plugin with its configuration; Run hands it every frame
// of a file and sums what it emits, beside another Pricer if there is one.
// Files are read from front to back, so that their size does not matter.
package replay
