// Package tokenizer turns text into token ids and token ids into text, by the
// vocabulary that a model file brings.
//
// Two families are supported. In byte-level BPE (GPT-2's scheme: Radford et al.
// 2019, section 2.2), text is cut into words by a pre-tokenizer, and the bytes
// of each word are merged pairwise in the order of the model's merge list. In
// SentencePiece's BPE, the runes of the whole text are merged by the tokens'
// scores, and what is left becomes tokens of bytes. So any text has tokens, and
// no token needs to be whole UTF-8; the Decoder puts runes back together.
//
// A Tokenizer does not change after New and serves any number of goroutines; a
// Decoder belongs to one sequence.
package tokenizer
