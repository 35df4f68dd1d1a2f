"""Makes spm.json; see README.md. Needs the PyPI packages sentencepiece 0.2.3 and protobuf."""

import importlib.metadata
import io
import json
import pathlib
import random

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

assert importlib.metadata.version("sentencepiece") == "0.2.3"

HERE = pathlib.Path(__file__).parent
cases = json.loads((HERE / "pretokenize.json").read_text())["cases"]
texts = [c["text"] for c in cases if "\x00" not in c["text"] and "\ufeff" not in c["text"]]
SENTENCES = texts[:36] * 3 + ["the cat sat on the mat with the other cats", "aaaaaaaaaaaaaaaa abababababab"] * 6


model = io.BytesIO()
sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=iter(SENTENCES), model_writer=model, model_type="bpe", vocab_size=640, byte_fallback=True,
    normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=False, allow_whitespace_only_pieces=True,
    character_coverage=0.99, control_symbols=["<ctl>"], user_defined_symbols=["[UD]", "[UD][", "\n\n"], hard_vocab_limit=False,
    minloglevel=2,
)
plain = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
# The same with a space before each text.
proto = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
proto.normalizer_spec.add_dummy_prefix = True
prefixed = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())


def kind(p, i):
    """The type of a token by its number in GGUF."""
    if p.is_unknown(i):
        return 2
    if p.is_control(i):
        return 3
    if p.is_byte(i):
        return 6
    return 4 if p.id_to_piece(i) in ("[UD]", "[UD][", "\n\n") else 1


size = plain.get_piece_size()
pieces = [plain.id_to_piece(i) for i in range(size)]
rng = random.Random(2)
ALPHABET = list("  \n\tabcthe's[UD]<>ctl/") + list("▁é한😀\u00a0")
texts += ["", " ", "  ", "the cat", "a" * 200, "ab" * 100, "▁▁a", "<ctl>", "<s>", "</s>", "<unk>", "<0x41>", "[UD][UD][", "\n\n\n", "x\n\ny", "한글 😀", "\x00\x01"]
texts += ["".join(rng.choice(ALPHABET) for _ in range(rng.randint(1, 30))) for _ in range(150)]
rows = [{"text": t, "plain": plain.encode(t), "prefixed": prefixed.encode(t)} for t in texts]
head = {"tokens": pieces, "scores": [plain.get_score(i) for i in range(size)], "types": [kind(plain, i) for i in range(size)]}
lines = [" " + json.dumps(k) + ": " + json.dumps(v) for k, v in head.items()]
lines.append(' "cases": [\n' + ",\n".join("  " + json.dumps(r) for r in rows) + "\n ]")
(HERE / "spm.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
