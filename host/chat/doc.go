// Package chat writes a conversation as a prompt, by the chat template that the model carries (GGUF key
// tokenizer.chat_template, in Jinja).
//
// A prompt is a list of pieces. Control tokens, such as <|im_start|>, are pieces of their own, and only the template's text
// makes them: what a client wrote stays text, however it is spelled (see guard.go).
//
// The engine is github.com/ardanlabs/jinja. Where it is known to differ from jinja2: tojson writes a whole float without its
// fraction (2.0 as 2), and with an indent it sorts keys.
//
// Not bounded: that engine has no limit of steps, recursion or memory; a macro that calls itself for ever ends the process. Here
// the size of a template, the turns of range and panics are held in check, and inputs are as large as the server lets a body
// be. Beyond that a model file is trusted with its template as it is with its weights.
package chat
