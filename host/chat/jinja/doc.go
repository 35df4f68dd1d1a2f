// Package jinja renders the chat templates that models carry, in the part of Jinja 3.1 that such templates use, as
// transformers sets it up: blocks trimmed, loop controls, a sandbox in which a template changes nothing but its own variables.
//
// A template comes with a model's file, which may be anybody's, and is rendered for what clients send. So every rendering has a
// budget: each node that is evaluated and each byte that is made or looked through is paid for before it is done, and what nests
// is counted, in the source as in the values. A rendering that goes beyond ends with ErrLimit; it takes neither the process's
// memory nor its stack. That is why no engine of others is used here, see RATIONALE.md.
//
// Left out, with an error that says so: inheritance, imports, recursive loops, the do and with statements, star arguments, integers beyond
// 64 bits, lists as keys of a dict. A tuple prints like a list, and what map and select give is a list too. Nothing is escaped:
// safe leaves a string as it is.
package jinja
