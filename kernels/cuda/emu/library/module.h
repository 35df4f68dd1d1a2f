#pragma once
#include <string>

#include "fiber.h"

namespace emu {

// An image that a program gave to the driver: a fatbin, a cubin or PTX text. What runs are the kernels that are compiled in;
// the image is checked against them as far as it can be read.
struct Image {
  std::string ptx;        // the PTX in it, if it can be read; "" if not
  bool code = false;      // it has code that the device can run
};
// Returns false and says why in *wrong when it is none of the three.
bool readImage(const void* image, int major, int minor, Image* out, std::string* wrong);
// Returns what differs between the image's entry and the kernel, or "".
std::string compare(const Image&, const Kernel&);

}  // namespace emu
