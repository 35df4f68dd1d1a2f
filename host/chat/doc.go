// Package chat writes a conversation as a prompt, by the chat template that the model carries (GGUF key
// tokenizer.chat_template, in Jinja).
//
// A prompt is a list of pieces. Control tokens, such as <|im_start|>, are pieces of their own, and only the template's text
// makes them: what a client wrote stays text, however it is spelled (see guard.go).
//
// Not bounded: the template engine has no limit of steps, recursion or memory. Here the size of a template, the turns of
// range and panics of the engine are held in check, and inputs are as large as the server lets a body be. Beyond that a model
// file is trusted with its template as it is with its weights.
package chat
