"""Makes quants.gguf; see README.md. Needs the PyPI package gguf 0.19.0."""

import importlib.metadata
import pathlib

import gguf
import numpy as np

assert importlib.metadata.version("gguf") == "0.19.0"

# Offset of each f16 scale within a block.
SCALES = {
    "Q4_0": [0],
    "Q4_1": [0, 2],
    "Q5_0": [0],
    "Q5_1": [0, 2],
    "Q8_0": [0],
    "Q4_K": [0, 2],
    "Q5_K": [0, 2],
    "Q6_K": [208],
}
# Plain, zeros of both signs, the smallest subnormal, the largest subnormal, the smallest normal, the largest, infinities, NaN.
EXTREME = [0x3C00, 0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00]

rng = np.random.default_rng(1)


def blocks(name):
    """Two rows of random blocks: the first with ordinary scales, the second with extreme ones."""
    kind = gguf.GGMLQuantizationType[name]
    length, size = gguf.GGML_QUANT_SIZES[kind]
    per_row = max(len(EXTREME), 64 // length)
    data = rng.integers(0, 256, (2, per_row, size), dtype=np.uint8)
    for offset in SCALES.get(name, []):
        plain = (rng.standard_normal(per_row) * 0.05).astype(np.float16)
        extreme = np.resize(np.roll(np.array(EXTREME, np.uint16), offset), per_row)
        data[0, :, offset : offset + 2] = plain.view(np.uint8).reshape(per_row, 2)
        data[1, :, offset : offset + 2] = extreme.view(np.uint8).reshape(per_row, 2)
    return data.reshape(2, per_row * size), kind


writer = gguf.GGUFWriter(pathlib.Path(__file__).with_name("quants.gguf"), "test")
writer.add_uint8("uint8", 200)
writer.add_int8("int8", -100)
writer.add_uint16("uint16", 60000)
writer.add_int16("int16", -30000)
writer.add_uint32("uint32", 4000000000)
writer.add_int32("int32", -2000000000)
writer.add_uint64("uint64", 2**64 - 1)
writer.add_int64("int64", -(2**63))
writer.add_float32("float32", 0.1)
writer.add_float64("float64", 0.1)
writer.add_bool("bool", True)
writer.add_string("string", "여우 🦊")
writer.add_array("strings", ["", "a", "여우"])
writer.add_array("ints", [1, -2, 3])
writer.add_array("floats", [0.5, -0.25])
for kind, sizes in gguf.GGML_QUANT_SIZES.items():
    writer.add_array("blocks." + kind.name, list(sizes))

with np.errstate(all="ignore"):
    for name in ["F32", "F16", "BF16", *SCALES]:
        data, kind = blocks(name)
        values = gguf.quants.dequantize(data if name != "F32" else data.view(np.float32), kind)
        writer.add_tensor(name, data, raw_dtype=kind)
        writer.add_tensor(name + ".f32", values.astype(np.float32))

writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
