// Package chat writes a conversation as a prompt, by the chat template that the model carries (GGUF key
// tokenizer.chat_template, in Jinja).
//
// A prompt is a list of pieces. Control tokens, such as <|im_start|>, are pieces of their own, and only the template's text
// makes them: what a client wrote stays text, however it is spelled (see guard.go).
//
// Templates are rendered by package jinja, whose budget bounds the time, memory and stack that one takes: a template comes with a
// model's file, and ends a request at worst.
package chat
