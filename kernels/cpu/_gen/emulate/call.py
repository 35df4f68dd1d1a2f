"""Calls the VNNI matrix kernels on the emulated processor of Bochs and expects the bits
of their twins. run.sh does that.

The test binary is loaded at its own addresses and its functions are called with the
stack of Go's ABI0; no operating system runs.

    call.py TEST_BINARY VECTORS
"""

import base64
import json
import struct
import sys

import bochscpu
import bochscpu.cpu
import bochscpu.memory as memory

PAGE = 4096
TABLES, STACK, DATA, RETURN = 0x3000_0000, 0x3100_0000, 0x2000_0000, 0x3200_0000


class Machine:
    """One processor in 64-bit mode with 1 GiB of identity mapped memory."""

    def __init__(self):
        self.pages = set()
        self.write(TABLES, struct.pack("<Q", TABLES + PAGE | 3).ljust(PAGE, b"\0"))
        self.write(TABLES + PAGE, struct.pack("<Q", TABLES + 2 * PAGE | 3).ljust(PAGE, b"\0"))
        self.write(TABLES + 2 * PAGE, b"".join(struct.pack("<Q", i << 21 | 0x83) for i in range(512)))
        self.write(RETURN, b"\xf4")
        self.write(STACK - PAGE, bytes(2 * PAGE))
        self.emulator = bochscpu.Session()  # one for all calls: a second one crashes

    def write(self, address, data):
        for at, chunk in pieces(address, len(data), data):
            if at & -PAGE not in self.pages:
                self.pages.add(at & -PAGE)
                memory.page_insert(at & -PAGE, memory.allocate_host_page())
            memory.phy_write(at, list(chunk))

    def read(self, address, size):
        return b"".join(bytes(memory.phy_read(at, len(c))) for at, c in pieces(address, size, bytes(size)))

    def call(self, function, arguments):
        """Calls a function of ABI0 whose arguments are all 64-bit."""
        self.write(STACK, struct.pack(f"<{1 + len(arguments)}Q", RETURN, *arguments))
        state = bochscpu.State()
        bochscpu.cpu.set_long_mode(state)
        state.cr3 = TABLES
        state.cr4 |= 1 << 5 | 1 << 9 | 1 << 10 | 1 << 18  # PAE, SSE, SSE exceptions, XSAVE
        state.xcr0 = 0xE7  # x87, SSE, AVX, AVX-512
        state.mxcsr, state.mxcsr_mask = 0x1F80, 0xFFFF
        state.rflags, state.rip, state.rsp = 2, function, STACK
        for name, attributes in ("cs", 0x209B), ("ss", 0x4093), ("ds", 0x4093), ("es", 0x4093):
            segment = bochscpu.Segment()
            segment.present, segment.selector, segment.attr = True, 8 if name == "cs" else 16, attributes
            segment.base, segment.limit = 0, 0xFFFFFFFF
            setattr(state, name, segment)
        failures = []

        def step(emulator, cpu, instruction):
            if emulator.cpu.rip == RETURN:
                emulator.stop()

        def fault(emulator, cpu, vector, code):
            failures.append((vector, emulator.cpu.rip))
            emulator.stop()

        emulator = self.emulator
        emulator.missing_page_handler = lambda gpa: (failures.append(("page", hex(gpa))), emulator.stop())
        emulator.cpu.state = state
        hook = bochscpu.Hook()
        hook.before_execution, hook.exception = step, fault
        emulator.run([hook])
        if failures:
            raise SystemExit(f"function at {function:#x}: exception {failures}")


def pieces(address, size, data):
    at = 0
    while at < size:
        n = min(PAGE - (address + at) % PAGE, size - at)
        yield address + at, data[at : at + n]
        at += n


def load(machine, path):
    """Loads the segments of an ELF file and returns its functions."""
    elf = open(path, "rb").read()
    programs, sections = struct.unpack_from("<QQ", elf, 32)
    _, entry_size, count, section_size, section_count, _ = struct.unpack_from("<6H", elf, 52)
    for i in range(count):
        kind, _, offset, address, _, size = struct.unpack_from("<IIQQQQ", elf, programs + i * entry_size)
        if kind == 1:
            machine.write(address, elf[offset : offset + size])
    headers = [struct.unpack_from("<IIQQQQIIQQ", elf, sections + i * section_size) for i in range(section_count)]
    symbols = next(h for h in headers if h[1] == 2)
    strings = headers[symbols[6]][4]
    functions = {}
    for at in range(symbols[4], symbols[4] + symbols[5], 24):
        name, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", elf, at)
        text = elf[strings + name : elf.index(b"\0", strings + name)].decode()
        functions[text.rsplit("/cpu.", 1)[-1]] = value
    return functions


def main(binary, vectors):
    machine = Machine()
    functions = load(machine, binary)
    calls = json.load(open(vectors))
    # Products of 16-bit floats have no activations of 8 bits and no VNNI; AVX-512 alone takes
    # eight tokens at once.
    pairs = [(v, level) for v in calls for level in (("AVXVNNI", "AVX512") if v["Meta"] else ("AVX2", "AVX512"))
             if v["Tokens"] <= 4 or level == "AVX512"]
    for v, level in pairs:
        name = f"{v['Function']}{level}T{v['Tokens']}"
        out, place, addresses = bytes(4 * len(v["Want"])), DATA, []
        operands = [out, base64.b64decode(v["W"]), base64.b64decode(v["X"])]
        if v["Meta"]:
            operands.append(struct.pack(f"<{len(v['Meta'])}I", *v["Meta"]))
        for data in operands:
            machine.write(place, data)
            addresses.append(place)
            place += len(data) + 100  # odd alignment too
        machine.call(functions[name + ".abi0"], addresses + [v["Ldo"], v["Groups"], v["Blocks"]])
        got = struct.unpack(f"<{len(v['Want'])}I", machine.read(addresses[0], len(out)))
        for i, (g, w) in enumerate(zip(got, v["Want"])):
            if g != w:
                raise SystemExit(f"{name}, {v['Blocks']} blocks: element {i}: got {g:#010x}, want {w:#010x}")
        print(f"ok {name} groups={v['Groups']} blocks={v['Blocks']}: {len(got)} results equal", flush=True)
    print(f"PASS, {len(pairs)} calls")


main(*sys.argv[1:])
