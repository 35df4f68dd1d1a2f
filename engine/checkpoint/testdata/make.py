"""Make the folders of this directory, and what is true of them.

    python3 -m venv v && v/bin/pip install numpy safetensors gguf tokenizers
    v/bin/python make.py

Each folder is a random model of one family, as transformers would save it. The
truth comes from elsewhere: logits from a forward pass in numpy (float64) that
follows transformers' modeling files, token ids from the library tokenizers,
llama.gguf and the hashes of Q8_0 tensors from the package gguf.
Made with numpy 2.4.6, safetensors 0.8.0, gguf 0.19.0, tokenizers 0.23.3.
"""

import hashlib
import json
import pathlib
import struct

import gguf
import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).resolve().parent
SPECIALS = ["<|begin|>", "<|end|>", "<|turn|>"]
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
TEXT = [
    "The quick brown fox jumps over the lazy dog, and the dog does not mind.",
    "There are 1234 things that the fox didn't do; they're all in the other book.",
    "for i in range(10):\n    print(i, 2 ** i)\n\n\n",
] * 4
SAMPLES = [
    "The other fox", "didn't they're I'LL", "12345 and 7", "  two  spaces\n\n and lines \r\n", "größer, 東京 and 🦊!", "a\tb",
    "<|turn|>user <tool>the fox</tool>", "",
]


def cutter(name):
    """The pre-tokenizer of a family, as its tokenizer.json has it."""
    bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    if name in ("llama-bpe", "qwen2"):
        pattern = Regex(LLAMA3 if name == "llama-bpe" else QWEN2)
        return pre_tokenizers.Sequence([pre_tokenizers.Split(pattern, "isolated"), bytes_only])
    whole = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if name == "smollm":
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), whole])
    return whole


def tokenizer(name):
    t = Tokenizer(models.BPE(ignore_merges=name == "llama-bpe"))
    t.pre_tokenizer = cutter(name)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=290, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False))
    t.add_special_tokens(SPECIALS)
    t.add_tokens([AddedToken("<tool>", normalized=False)])
    t.post_processor = processors.TemplateProcessing(single="<|begin|> $A", special_tokens=[("<|begin|>", t.token_to_id("<|begin|>"))])
    return t


def sentencepiece(name):
    """A tokenizer as those that stand for SentencePiece models: bytes, few runes, merges in the order of scores."""
    space = normalizers.Replace(" ", "▁")
    normal = normalizers.Sequence([normalizers.Prepend("▁"), space]) if name == "llama2" else space
    trained = Tokenizer(models.BPE())
    trained.normalizer = normal
    trained.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=34, limit_alphabet=18, show_progress=False))
    merges = [tuple(m) for m in json.loads(trained.to_str())["model"]["merges"]]
    pieces = ["<unk>", "<s>", "</s>", "<tool>"] + [f"<0x{b:02X}>" for b in range(256)] + [t for t, _ in sorted(trained.get_vocab().items(), key=lambda x: x[1])]
    t = Tokenizer(models.BPE({p: i for i, p in enumerate(pieces)}, merges, byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    t.normalizer = normal
    if name == "gemma":
        t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    t.add_special_tokens(["<unk>", "<s>", "</s>"])
    t.add_tokens([AddedToken("<tool>", normalized=False)])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return t


def random_weights(rng, c, family):
    """The tensors of a model, by transformers' names, float32."""
    q, kv, width, hidden = c["num_attention_heads"] * c["head_dim"], c["num_key_value_heads"] * c["head_dim"], c["hidden_size"], c["intermediate_size"]
    matrix = lambda rows, cols: rng.normal(0, 0.15, (rows, cols)).astype(np.float32)
    norm = lambda n: rng.normal(0 if family == "gemma3_text" else 1, 0.2, n).astype(np.float32)
    w = {"model.embed_tokens.weight": rng.normal(0, 1, (c["vocab_size"], width)).astype(np.float32), "model.norm.weight": norm(width)}
    if not c["tie_word_embeddings"]:
        w["lm_head.weight"] = matrix(c["vocab_size"], width)
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}."
        for name, rows, cols in [("q", q, width), ("k", kv, width), ("v", kv, width), ("o", width, q)]:
            w[p + f"self_attn.{name}_proj.weight"] = matrix(rows, cols)
            if family == "qwen2" and name != "o":
                w[p + f"self_attn.{name}_proj.bias"] = rng.normal(0, 0.3, rows).astype(np.float32)
        for name, rows, cols in [("gate", hidden, width), ("up", hidden, width), ("down", width, hidden)]:
            w[p + f"mlp.{name}_proj.weight"] = matrix(rows, cols)
        norms = ["input_layernorm", "post_attention_layernorm"]
        if family == "gemma3_text":
            norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
        for name in norms:
            w[p + name + ".weight"] = norm(width)
        if family in ("qwen3", "gemma3_text"):
            w[p + "self_attn.q_norm.weight"] = norm(c["head_dim"])
            w[p + "self_attn.k_norm.weight"] = norm(c["head_dim"])
    return w


def encode(x, dtype):
    """The bytes of an array, and the values that they stand for."""
    if dtype == "F32":
        return x.tobytes(), x
    if dtype == "F16":
        return x.astype(np.float16).tobytes(), x.astype(np.float16).astype(np.float32)
    bits = x.view(np.uint32)
    bits = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return bits.tobytes(), (bits.astype(np.uint32) << 16).view(np.float32)


def write_safetensors(path, tensors):
    """Written by hand, since numpy has no BF16: name -> (dtype, shape, bytes)."""
    head, body = {"__metadata__": {"format": "pt"}}, b""
    for name, (dtype, shape, data) in tensors.items():
        head[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def frequencies(c, theta):
    """_compute_llama3_parameters and its kin, of modeling_rope_utils.py."""
    d = c["head_dim"]
    freqs = 1 / theta ** (np.arange(0, d, 2) / d)
    s = c.get("rope_scaling") or {}
    factors = np.ones(d // 2)
    if s.get("rope_type") == "llama3":
        for i, f in enumerate(freqs):
            wave, old = 2 * np.pi / f, s["original_max_position_embeddings"]
            if wave > old / s["low_freq_factor"]:
                factors[i] = s["factor"]
            elif wave >= old / s["high_freq_factor"]:
                smooth = (old / wave - s["low_freq_factor"]) / (s["high_freq_factor"] - s["low_freq_factor"])
                factors[i] = 1 / ((1 - smooth) / s["factor"] + smooth)
    if s.get("rope_type") == "linear":
        factors[:] = s["factor"]
    return freqs / factors, factors


def forward(c, w, ids, family):
    """Logits of each position, in float64, as modeling_*.py computes them."""
    w = {k: v.astype(np.float64) for k, v in w.items()}
    gemma = family == "gemma3_text"
    eps, d, heads, kv = c["rms_norm_eps"], c["head_dim"], c["num_attention_heads"], c["num_key_value_heads"]

    def norm(x, weight):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * (1 + weight if gemma else weight)

    def rotate(x, freqs):  # apply_rotary_pos_emb with rotate_half; x is [n, heads, d]
        angle = np.arange(len(ids))[:, None] * freqs
        cos, sin = (np.concatenate([f(angle)] * 2, -1)[:, None] for f in (np.cos, np.sin))
        return x * cos + np.concatenate([-x[..., d // 2 :], x[..., : d // 2]], -1) * sin

    x = w["model.embed_tokens.weight"][ids] * (np.sqrt(c["hidden_size"]) if gemma else 1)
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}."
        local = gemma and (i + 1) % c["sliding_window_pattern"] != 0
        h = norm(x, w[p + "input_layernorm.weight"])
        q, k, v = (
            (h @ w[p + f"self_attn.{n}_proj.weight"].T + w.get(p + f"self_attn.{n}_proj.bias", 0)).reshape(len(ids), -1, d) for n in "qkv"
        )
        if p + "self_attn.q_norm.weight" in w:
            q, k = norm(q, w[p + "self_attn.q_norm.weight"]), norm(k, w[p + "self_attn.k_norm.weight"])
        freqs = 1 / c["rope_local_base_freq"] ** (np.arange(0, d, 2) / d) if local else frequencies(c, c["rope_theta"])[0]
        q, k = rotate(q, freqs), rotate(k, freqs)
        k, v = (np.repeat(t, heads // kv, 1) for t in (k, v))
        score = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(c.get("query_pre_attn_scalar", d))
        at = np.arange(len(ids))
        hidden = at[None, :] > at[:, None]
        if local:
            hidden |= at[:, None] - at[None, :] >= c["sliding_window"]
        score = np.where(hidden, -np.inf, score)
        share = np.exp(score - score.max(-1, keepdims=True))
        share /= share.sum(-1, keepdims=True)
        out = np.einsum("hqk,khd->qhd", share, v).reshape(len(ids), -1) @ w[p + "self_attn.o_proj.weight"].T
        if gemma:
            x = x + norm(out, w[p + "post_attention_layernorm.weight"])
            h = norm(x, w[p + "pre_feedforward_layernorm.weight"])
        else:
            x = x + out
            h = norm(x, w[p + "post_attention_layernorm.weight"])
        gate, up = h @ w[p + "mlp.gate_proj.weight"].T, h @ w[p + "mlp.up_proj.weight"].T
        act = 0.5 * gate * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3))) if gemma else gate / (1 + np.exp(-gate))
        out = (act * up) @ w[p + "mlp.down_proj.weight"].T
        x = x + (norm(out, w[p + "post_feedforward_layernorm.weight"]) if gemma else out)
    return norm(x, w["model.norm.weight"]) @ w.get("lm_head.weight", w["model.embed_tokens.weight"]).T


def config(family, vocab, **more):
    return {
        "model_type": family, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 256, "vocab_size": vocab, "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": True,
    } | more


def permute(x, heads):
    """The rows of q and k as GGUF's llama has them: halves of a head become neighbours."""
    return x.reshape(heads, 2, x.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(x.shape)


def write_gguf(c, stored, tok, factors):
    """llama.gguf, and the hashes of the tensors in Q8_0."""
    names = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
             "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
             "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}
    out = gguf.GGUFWriter(HERE / "llama.gguf", "llama")
    out.add_block_count(c["num_hidden_layers"])
    out.add_context_length(c["max_position_embeddings"])
    out.add_embedding_length(c["hidden_size"])
    out.add_feed_forward_length(c["intermediate_size"])
    out.add_head_count(c["num_attention_heads"])
    out.add_head_count_kv(c["num_key_value_heads"])
    out.add_key_length(c["head_dim"])
    out.add_value_length(c["head_dim"])
    out.add_layer_norm_rms_eps(c["rms_norm_eps"])
    out.add_rope_freq_base(c["rope_theta"])
    vocab = tok.get_vocab(with_added_tokens=True)
    tokens = [f"[PAD{i}]" for i in range(c["vocab_size"])]
    types = [gguf.TokenType.UNUSED] * c["vocab_size"]
    for text, i in vocab.items():
        tokens[i], types[i] = text, gguf.TokenType.CONTROL if text in SPECIALS else gguf.TokenType.USER_DEFINED if text == "<tool>" else gguf.TokenType.NORMAL
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("llama-bpe")
    out.add_token_list(tokens)
    out.add_token_types(types)
    out.add_token_merges([" ".join(m) for m in json.loads(tok.to_str())["model"]["merges"]])
    out.add_bos_token_id(vocab["<|begin|>"])
    out.add_eos_token_id(vocab["<|turn|>"])
    out.add_eot_token_id(vocab["<|end|>"])
    out.add_add_bos_token(True)
    out.add_chat_template(TEMPLATE)
    hashes = {}
    types = {"F32": gguf.GGMLQuantizationType.F32, "F16": gguf.GGMLQuantizationType.F16, "BF16": gguf.GGMLQuantizationType.BF16}
    for name, (dtype, values) in stored.items():
        stem = name.removesuffix(".weight")
        to = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}.get(stem)
        if to is None:
            _, _, layer, part = stem.split(".", 3)
            to = f"blk.{layer}.{names[part]}"
        if to.endswith("attn_q"):
            values = permute(values, c["num_attention_heads"])
        if to.endswith("attn_k"):
            values = permute(values, c["num_key_value_heads"])
        if values.ndim == 1:
            out.add_tensor(to + ".weight", values)
            continue
        data = np.frombuffer(encode(np.ascontiguousarray(values), dtype)[0], np.uint8).reshape(values.shape[0], -1)
        out.add_tensor(to + ".weight", data, raw_dtype=types[dtype])
        q8 = gguf.quants.quantize(values, gguf.GGMLQuantizationType.Q8_0)
        hashes[to + ".weight"] = hashlib.sha256(q8.tobytes()).hexdigest()
    out.add_tensor("rope_freqs.weight", factors.astype(np.float32))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    return hashes


TEMPLATE = "{% for message in messages %}<|turn|>{{ message.role }}: {{ message.content }}{% endfor %}"


def dump(path, value):
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def main():
    rng = np.random.default_rng(6)
    truth = {"tokens": {}, "logits": {}}
    for name in ("gpt-2", "smollm", "qwen2", "llama-bpe"):
        tok = tokenizer(name)
        (HERE / f"tokenizer-{name}.json").write_text(tok.to_str(pretty=False))
        truth["tokens"][name] = [{"text": s, "ids": tok.encode(s, add_special_tokens=False).ids} for s in SAMPLES]
    for name in ("llama2", "gemma"):
        spm = sentencepiece(name)
        (HERE / f"tokenizer-{name}.json").write_text(spm.to_str(pretty=False))
        truth["tokens"][name] = [{"text": s, "ids": spm.encode(s, add_special_tokens=False).ids} for s in SAMPLES + ["the</s>fox <s> dog"]]
    vocab = tok.get_vocab_size(with_added_tokens=True)
    end = {t: tok.token_to_id(t) for t in SPECIALS}
    ids = tok.encode("The other dog does not jump 42 times.").ids

    families = {
        # Each layer has its own type; the ids of the vocabulary end before its size.
        "llama": config("llama", vocab + 2, tie_word_embeddings=False, rope_scaling={
            "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}),
        "qwen2": config("qwen2", vocab, hidden_size=16, num_hidden_layers=1, rope_theta=1000000.0, intermediate_size=32),
        "qwen3": config("qwen3", vocab, hidden_size=16, num_hidden_layers=1, head_dim=16, intermediate_size=32),
        "gemma3_text": config("gemma3_text", vocab, hidden_size=16, hidden_act=None, hidden_activation="gelu_pytorch_tanh", sliding_window=4,
            sliding_window_pattern=2, rope_local_base_freq=10000.0, rope_theta=1000000.0, query_pre_attn_scalar=8, intermediate_size=32,
            rope_scaling={"rope_type": "linear", "factor": 8.0}),
    }
    for family, c in families.items():
        folder = HERE / family
        folder.mkdir(exist_ok=True)
        stored, read = {}, {}
        for name, x in random_weights(rng, c, family).items():
            dtype = "BF16"
            if family == "llama":
                dtype = "F16" if ".layers.1." in name and x.ndim == 2 else "F32" if name == "lm_head.weight" else "BF16"
            data, values = encode(x, dtype)
            stored[name], read[name] = (dtype, x.shape, data), (dtype, values)
        c = c | {"architectures": [{"gemma3_text": "Gemma3"}.get(family, family.capitalize()) + "ForCausalLM"], "eos_token_id": end["<|end|>"], "bos_token_id": end["<|begin|>"]}
        dump(folder / "config.json", c)
        if family == "llama":
            order = sorted(stored)
            parts = {"model-00001-of-00002.safetensors": order[: len(order) // 2], "model-00002-of-00002.safetensors": order[len(order) // 2 :]}
            for file, names in parts.items():
                write_safetensors(folder / file, {n: stored[n] for n in names})
            dump(folder / "model.safetensors.index.json", {"metadata": {"total_size": 0}, "weight_map": {n: f for f, ns in parts.items() for n in ns}})
            dump(folder / "tokenizer_config.json", {"bos_token": "<|begin|>", "eos_token": {"content": "<|turn|>"}, "chat_template": TEMPLATE})
            dump(folder / "generation_config.json", {"eos_token_id": [end["<|end|>"], end["<|turn|>"]]})
            truth["q8_0"] = write_gguf(c, read, tok, frequencies(c, c["rope_theta"])[1])
        else:
            write_safetensors(folder / "model.safetensors", stored)
        logits = forward(c, {n: v for n, (_, v) in read.items()}, ids, family)
        truth["logits"][family] = {"ids": ids, "last": [round(float(x), 5) for x in logits[-1]], "argmax": logits.argmax(-1).tolist()}
    (HERE / "truth.json").write_text(json.dumps(truth, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
