"""Encodes the frame of TestFrameBytes from the layout in ABI.md, independently
of the Go code, and prints it as hex: python3 frame.py > frame.hex"""
import struct

strings = ["request-1", "attempt-2", "client-3", "smollm2", "acme", "key-6", "", "default", "user-9",
           "idem-10", '{"team":"ü"}', "chain-12", "carry-13", '{"num_spec_steps":4}']
choices = [(0, 0, 1, 11, 4, 5, 1, 5, 100, 200, 300, 400, 500, 6, 7, 8, 0),
           (1, 0, 2, 11, 4, 9, 0, 8, 101, 201, 301, 401, 501, 16, 17, 18, 0)]
events = [(1, 1, 0, 0, 0, 0), (2500, 2, 3, 0, 0, 0), (45_000_000_000, 4, 0, 1, 17, 9876)]
document = b'{"a":1}'

choice_off = 256
event_off = choice_off + 88 * len(choices)
str_off = event_off + 24 * len(events)
text_off = str_off + 8 * len(strings)
texts = [s.encode() for s in strings]
pairs, at = b"", text_off
for text in texts:
    pairs += struct.pack("<II", at if text else 0, len(text))
    at += len(text)
doc_off = at

header = b"WMF1" + struct.pack("<HH", 256, 0)
header += struct.pack("<IBBBB", 0x441, 3, 4, 2, 0)                    # flags, endpoint, hook, outcome
header += struct.pack("<HHHH", 2, 1, 200, 3)                          # n, prompts, status, tool calls
header += struct.pack("<Q", 1_700_000_000_123_456_789)                # arrival
header += struct.pack("<13I", *range(101, 114))                        # prompt … max tokens
header += struct.pack("<iIII", -7, 115, 116, 117) + struct.pack("<I", 0)
header += struct.pack("<7Q", 118, 119, 120, 121, 122, 123, 124)       # five stamps, device, sequence
header += struct.pack("<IIHHIIIIII", event_off, len(events), 24, 88, choice_off, len(choices),
                      str_off, len(strings), doc_off, len(document))
assert len(header) == 196, len(header)
header += bytes(60)

frame = header
for c in choices:
    frame += struct.pack("<8I5Q4I", *c)
for e in events:
    frame += struct.pack("<QHHIII", *e)
frame += pairs + b"".join(texts) + document
for i in range(0, len(frame), 32):
    print(frame[i:i + 32].hex())
