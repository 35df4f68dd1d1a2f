#include "module.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <vector>

namespace emu {

// A fatbin's header and those of its entries, as fatbinary of CUDA 13.0 writes them and cuobjdump --dump-resource-usage
// shows them; NVIDIA documents neither.
struct FatbinHeader {
  uint32_t magic;
  uint16_t version, headerBytes;
  uint64_t bytes;  // of all entries
};
struct EntryHeader {
  uint16_t kind, version;  // 1: PTX, 2: cubin
  uint32_t headerBytes;
  uint64_t bytes;
  uint32_t compressedBytes, optionsOffset;
  uint16_t minor, major;
  uint32_t architecture;  // 80 for sm_80
  uint32_t nameOffset, nameBytes;
  uint64_t flags, zero, unpackedBytes;
};
constexpr uint32_t fatbinMagic = 0xba55ed50, zstdMagic = 0xfd2fb528;
constexpr size_t maxText = 256 << 20;

// Unpacks zstd by the library that Debian's package tools bring. Without it PTX that is packed is not looked at.
static std::string unpack(const char* data, size_t bytes, size_t unpacked) {
  typedef size_t Decompress(void*, size_t, const void*, size_t);
  static auto decompress = [] {
    void* library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
    return library ? (Decompress*)dlsym(library, "ZSTD_decompress") : nullptr;
  }();
  if (!decompress || unpacked > maxText) return "";
  std::string text(unpacked, 0);
  return decompress(text.data(), unpacked, data, bytes) == unpacked ? text : "";
}

bool readImage(const void* image, int major, int minor, Image* out, std::string* wrong) {
  FatbinHeader h;
  memcpy(&h.magic, image, 4);
  if (!memcmp(image, "\x7f" "ELF", 4)) return out->runs = true;
  if (h.magic != fatbinMagic) {
    const char* text = (const char*)image;
    if (!strstr(text, ".version") || !strstr(text, ".target")) return *wrong = "the image is neither a fatbin nor a cubin nor PTX", false;
    out->ptx = text;
    return out->runs = true;
  }
  memcpy(&h, image, sizeof h);
  const char *at = (const char*)image + h.headerBytes, *end = at + h.bytes;
  out->runs = at == end;
  while (at < end) {
    EntryHeader e;
    if ((size_t)(end - at) < sizeof e) return *wrong = "the fatbin is damaged: an entry begins at its end", false;
    memcpy(&e, at, sizeof e);
    if (e.headerBytes < sizeof e || e.headerBytes > (size_t)(end - at) || e.bytes > (size_t)(end - at) - e.headerBytes || e.compressedBytes > e.bytes)
      return *wrong = "the fatbin is damaged: an entry ends behind it", false;
    const char* data = at + e.headerBytes;
    unsigned device = (unsigned)(major * 10 + minor);
    // A cubin runs on later devices of its major capability; PTX on all later ones.
    out->runs |= e.architecture <= device && (e.kind == 1 || e.architecture / 10 == (unsigned)major);
    if (e.kind == 1) {
      uint32_t magic = 0;
      if (e.bytes >= 4) memcpy(&magic, data, 4);
      out->ptx = magic == zstdMagic ? unpack(data, e.compressedBytes, e.unpackedBytes) : e.compressedBytes ? "" : std::string(data, e.bytes);
    }
    at = data + e.bytes;
  }
  return true;
}

// The bytes of the parameters of an entry, of "(.param .u64 a, .param .align 4 .b8 b[12])" for example.
static std::vector<unsigned> parameters(const std::string& list) {
  std::vector<unsigned> sizes;
  for (size_t i = 0; (i = list.find(".param", i)) != std::string::npos; i++) {
    size_t end = list.find(".param", i + 1);
    std::string one = list.substr(i + 6, end == std::string::npos ? std::string::npos : end - i - 6);
    unsigned bytes = 0, elements = 1;
    for (size_t dot = one.find('.'); dot != std::string::npos && !bytes; dot = one.find('.', dot + 1))
      if (strchr("usbf", one[dot + 1]) && one[dot + 2] >= '0' && one[dot + 2] <= '9') bytes = (unsigned)atoi(one.c_str() + dot + 2) / 8;
    if (size_t bracket = one.find('['); bracket != std::string::npos) elements = (unsigned)atoi(one.c_str() + bracket + 1);
    sizes.push_back(bytes * elements);
  }
  return sizes;
}

std::string compare(const Image& image, const Kernel& k, bool* absent) {
  *absent = false;
  if (image.ptx.empty()) return "";
  size_t at = image.ptx.find(std::string(".entry ") + k.name + "(");
  if (at == std::string::npos) return *absent = true, "the image has no such entry: it is of other sources";
  std::vector<unsigned> sizes = parameters(image.ptx.substr(at, image.ptx.find(')', at) - at));
  bool same = (int)sizes.size() == k.numParameters;
  std::string have, want;
  for (unsigned s : sizes) have += " " + std::to_string(s);
  for (int i = 0; i < k.numParameters; i++) {
    want += " " + std::to_string(k.sizes[i]);
    same = same && sizes[i] == k.sizes[i];
  }
  return same ? "" : "the image's entry has parameters of" + have + " bytes, and the source of" + want + ": it is of other sources";
}

}  // namespace emu
