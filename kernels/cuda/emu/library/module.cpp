#include "module.h"

#include <string.h>

namespace emu {

bool readImage(const void* image, int major, int minor, Image* out, std::string* wrong) {
  uint32_t magic;
  memcpy(&magic, image, 4);
  if (magic == 0xba55ed50) { out->code = true; return true; }
  if (!memcmp(image, "\x7f" "ELF", 4)) { out->code = true; return true; }
  const char* text = (const char*)image;
  if (strstr(text, ".version") && strstr(text, ".target")) { out->ptx = text; out->code = true; return true; }
  *wrong = "the image is neither a fatbin nor a cubin nor PTX";
  return false;
}
std::string compare(const Image& image, const Kernel& k) {
  return "";
}

}  // namespace emu
