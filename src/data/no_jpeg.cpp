// Replaces decode_jpeg.cpp if libjpeg was not found.
// SPDX-License-Identifier: Apache-2.0
#include "picture.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

namespace trireme::data {

Picture decode_jpeg(std::span<const std::byte>, std::string_view name) {
  throw InputError(concat(name,
                          ": is a JPEG image, but this build has no libjpeg: install "
                          "libjpeg-dev and configure again"));
}

}  // namespace trireme::data
