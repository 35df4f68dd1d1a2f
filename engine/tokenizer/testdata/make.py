"""Makes pretokenize.json, bpe.json and decoder.json; see README.md.

Needs the PyPI packages tokenizers 0.23.3 and regex 2026.11.19.
"""

import codecs
import importlib.metadata
import json
import pathlib
import random
import unicodedata

import regex
from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers, trainers

assert importlib.metadata.version("tokenizers") == "0.23.3"
assert importlib.metadata.version("regex") == "2026.11.19"

HERE = pathlib.Path(__file__).parent
LLAMA = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN = LLAMA.replace(r"\p{N}{1,3}", r"\p{N}")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*|\p{{N}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def byte_level(use_regex):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


# The pre-tokenizers as the models' tokenizer.json files have them.
PRE = {
    "smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level(True)]),
    "gpt2": byte_level(True),
    "llama-bpe": pre_tokenizers.Split(Regex(LLAMA), "isolated"),
    "qwen2": pre_tokenizers.Split(Regex(QWEN), "isolated"),
    "tekken": pre_tokenizers.Split(Regex(TEKKEN), "isolated"),
}


def by_regex(name, text):
    """The same by the package regex: a second opinion."""
    if name != "smollm":
        return regex.findall({"gpt2": GPT2, "llama-bpe": LLAMA, "qwen2": QWEN, "tekken": TEKKEN}[name], text)
    words = []
    for part in regex.split(r"(\p{N})", text):
        words += [part] if regex.fullmatch(r"\p{N}", part) else regex.findall(GPT2, part)
    return words


def words(name, text):
    """Lengths of the words in UTF-8 bytes."""
    out = [text[a:b] for _, (a, b) in PRE[name].pre_tokenize_str(text)]
    assert out == by_regex(name, text), (name, text)
    return [len(w.encode()) for w in out]


SENTENCES = [
    "The quick brown fox jumps over 13 lazy dogs.",
    "don't we'll I've it's they're I'd I'm DON'T WE'LL I'VE IT'S THEY'RE I'D I'M",
    "'s't're've'm'll'd 'S 'T 'RE 'VE 'M 'LL 'D 'rE 'lL ''s '' ' 'x 'r 'v 'l '1 's1 'ſ 'ſx",
    "1234567890 12 123 1234 1,234.56 ½ Ⅷ ² ٣٤٥ १२३ 𝟘𝟙𝟚",
    "a\n\n\nb \n c\r\n\r\nd  \n  e \t\n\tf   ",
    "   leading, trailing   ",
    "func main() {\n\tfmt.Println(\"hi\")\n\n\treturn\n}\n",
    "x=1;y+=2 // comment!!!\r\n\r\n###\n",
    "안녕하세요 세계 한글과 English 섞인 문장입니다.",
    "你好，世界！ こんにちは世界",
    "हिन्दी में ก็ดี ไทย مرحبا بالعالم שלום",
    "👩\u200d👩\u200d👧\u200d👦 family 🇰🇷 🏳️\u200d🌈 \ufeffbom \u200bzw",
    "\u00a0nbsp\u2003em\u3000ideographic\u1680ogham\u2028line\u2029para\u0085nel\u180evowel",
    "\x00\x01\x1c\x1d\x1e\x1f\x7f \x0b\x0c ",
    "$100 €50 £20 ¥9 https://example.com/a?b=c&d=%20#frag user@example.com",
    "ǅ ß İ ı ſ ﬁ ﬂ Å Ω café nai\u0308ve",
    "<|im_start|>user\nhi<|im_end|>\n",
    "\n", "\r", " ", "  ", "\t", " \n", "\n ", "  \n", "\n\n", "a ", " a", "  a", "\na", "a\n", ". \n", ".\n\n x", " .\r\n", "\u00a0a", "\ta",
]
ALPHABET = list("  \t\n\r'abSsTtrRveEmlLdD019.,!?-_(){}") + list(
    "ſé한界ि٣½Ⅷ\u00a0\u2003\u200b\u2028\u0085\x1c\x0b\u180e\u3000😀\u200dǅ\ufeff\x00K\u1680ßﬆ"
)
rng = random.Random(1)
# Code points of all planes that unicodedata knows, and so older than every table that is compared.
KNOWN = [c for c in map(chr, range(0x110000)) if unicodedata.category(c) not in ("Cs", "Cn", "Co")]


def noise(alphabet, most):
    return "".join(rng.choice(alphabet) for _ in range(rng.randint(1, most)))


def write(name, head, rows):
    lines = [" " + json.dumps(k) + ": " + json.dumps(v) for k, v in head.items()]
    lines.append(' "cases": [\n' + ",\n".join("  " + json.dumps(r) for r in rows) + "\n ]")
    (HERE / name).write_text("{\n" + ",\n".join(lines) + "\n}\n")


texts = SENTENCES + [noise(ALPHABET, 14) for _ in range(200)] + [noise(KNOWN, 8) for _ in range(100)]
# Where case and marks change; with numbers of its own, so that what follows stays as it is.
CASES = ["camelCase HTTPServer XMLHttpRequest iPhone ABCdefGHI", "ǅabc ʰAbc AʰB A\u0301B e\u0301A \u0301ABC \u0301abc \u0301 한A Aa한B", "a//\n https://x.org/y//\r\n //\n/"]
cases = random.Random(3)
CASES += ["".join(cases.choice("abAB한ʰǅ\u0301 /\n1.éÉ") for _ in range(cases.randint(1, 12))) for _ in range(150)]
texts += CASES
write("pretokenize.json", {}, [{"text": t} | {name: words(name, t) for name in PRE} for t in texts])

# A small vocabulary with all bytes, trained on the sentences above, in which three tokens cannot be reached by merges.
trained = Tokenizer(models.BPE())
trained.pre_tokenizer = byte_level(True)
trainer = trainers.BpeTrainer(vocab_size=420, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
trained.train_from_iterator(SENTENCES * 2 + ["aaaaaaaaaaaaaaaa abababababab"] * 4, trainer)
model = json.loads(trained.to_str())["model"]
vocab, merges = model["vocab"], [tuple(m) for m in model["merges"]]
for extra in ["zebra", " unreachable", "세계"]:
    vocab[byte_level(False).pre_tokenize_str(extra)[0][0]] = len(vocab)
CONTROL = ["<|im_start|>", "<|im_end|>", "<s>", "<s>>", "<|im"]
USER = ["[UD]", "\t\t", "<s>[UD]"]


def encoder(ignore_merges, as_text):
    t = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=ignore_merges))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA), "isolated"), byte_level(False)]) if ignore_merges else byte_level(True)
    t.add_special_tokens([AddedToken(c, normalized=False) for c in CONTROL])
    t.add_tokens([AddedToken(c, normalized=False) for c in USER])
    t.encode_special_tokens = as_text
    return t


encoders = {
    "gpt2": encoder(False, False),
    "gpt2 as text": encoder(False, True),
    "llama-bpe": encoder(True, False),
    "llama-bpe as text": encoder(True, True),
}
texts = SENTENCES + [
    "zebra zebras unreachable 세계 세계들 zebra",
    "a" * 200, "ab" * 100, "aaab" * 50 + "b" * 60, " " * 100, "1" * 70, "!" * 80, "한" * 60,
    "<s><s>><s><s>>>[UD]<s>[UD][UD <|im_start|><|im_star<|im<|im_end|>\t\t\t\t\tx",
    "<s>", "<s", "<<s>>", "[UD]", "[UD", "\t", "\t\t\t",
] + [noise("ab <s>|im_[UD]\t", 30) for _ in range(60)] + [noise(ALPHABET, 30) for _ in range(40)] + [noise(KNOWN, 12) for _ in range(20)]
tokens = [None] * len(vocab)
for text, i in vocab.items():
    tokens[i] = text


def row(text):
    """The ids by each encoder; a column "as text" is left out where control tokens make no difference."""
    ids = {name: e.encode(text, add_special_tokens=False).ids for name, e in encoders.items()}
    return {"text": text} | {n: v for n, v in ids.items() if not (n.endswith(" as text") and v == ids[n.removesuffix(" as text")])}


write(
    "bpe.json",
    {"tokens": tokens, "control": CONTROL, "user_defined": USER, "merges": [" ".join(m) for m in merges]},
    [row(t) for t in texts],
)


# Pieces of bytes, and what Python's incremental decoder makes of each.
def pieces():
    kind = rng.randrange(3)
    if kind == 0:  # valid text cut anywhere
        data = noise(["a", "é", "한", "😀", "\u0800", "\ud7ff", "\ue000", "\U0010ffff"], 8).encode()
    elif kind == 1:  # bytes that lie near the edges of UTF-8's table
        data = bytes(rng.choice([0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF]) for _ in range(rng.randint(1, 12)))
    else:  # text with a damaged byte
        data = bytearray(noise(["a", "é", "한", "😀"], 8).encode())
        data[rng.randrange(len(data))] = rng.randrange(256)
        data = bytes(data)
    out = []
    while data:
        n = rng.randint(1, 4)
        out.append(data[:n])
        data = data[n:]
    return out


rows = []
for _ in range(260):
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    parts = pieces()
    # Where a piece ends after two bytes of an encoded surrogate, CPython waits for the third (for "surrogatepass"), though no
    # third byte can make it valid. The Decoder does not wait.
    if any(regex.search(rb"\xed[\xa0-\xbf]$", b"".join(parts[: i + 1])) for i in range(len(parts))):
        continue
    rows.append({"pieces": [p.hex() for p in parts], "texts": [decoder.decode(p) for p in parts] + [decoder.decode(b"", True)]})
write("decoder.json", {}, rows)
