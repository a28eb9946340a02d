// Replaces decode_png.cpp if libpng was not found.
// SPDX-License-Identifier: Apache-2.0
#include "picture.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

namespace trireme::data {

Picture decode_png(std::span<const std::byte>, std::string_view name) {
  throw InputError(concat(name,
                          ": is a PNG image, but this build has no libpng: install libpng-dev "
                          "and configure again"));
}

}  // namespace trireme::data
