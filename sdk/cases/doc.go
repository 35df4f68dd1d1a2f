// Package cases runs a plugin on cases that people read: a YAML file says
// what the server knows of a request, which hooks it calls, and what the plugin is
// expected to answer. README.md describes the file.
//
// Every case runs twice in the server's own host, compiled and interpreted, and
// must do the same in both, to the unit of fuel.
package cases
