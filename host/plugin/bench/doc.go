// Package bench measures what a plugin takes, in the server's own sandbox: the
// time and the fuel of each hook, the memory that it grows to, and what the
// host allocates for it. Native measures the same Go source without a sandbox.
package bench
