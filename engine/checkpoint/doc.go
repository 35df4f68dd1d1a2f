// Package checkpoint presents a folder of Hugging Face weights as the GGUF file
// that a converter would make of it, so that model and tokenizer read one format.
//
// A folder has config.json, tokenizer.json and model.safetensors, or several of
// these with model.safetensors.index.json; tokenizer_config.json,
// generation_config.json and chat_template.jinja add to it. Names of tensors and
// keys are those of llama.cpp's convert_hf_to_gguf.py, and so is what changes in
// them: rows of queries and keys change places where a model rotates neighbours,
// vectors become float32. Tensors stay views of the mapped files where nothing
// changes in them.
//
// What an architecture is called and how its tensors are named is a table,
// architectures.
package checkpoint
