#pragma once
#include <string>

#include "fiber.h"

namespace emu {

// An image that a program gave to the driver: a fatbin, a cubin or PTX text. What runs are the kernels that are compiled in;
// the image is checked against them as far as it can be read, so that one of other sources does not pass.
struct Image {
  std::string ptx;    // the text in it, if it can be read; "" if not
  bool runs = false;  // it has code for the device, or what it has is not known
};
// Returns false and says why in *wrong when it is none of the three, or damaged.
bool readImage(const void* image, int major, int minor, Image* out, std::string* wrong);
// What differs between the image's entry and the kernel, or "". *absent: the image has no such entry.
std::string compare(const Image&, const Kernel&, bool* absent);

}  // namespace emu
