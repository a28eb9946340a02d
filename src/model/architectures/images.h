// Common parts of the image classification models.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/model/chain.h"

#include <string>
#include <utility>

namespace trireme::model {

/// An empty chain that takes square images; `spec` gives their sides, channels and classes.
template <class ImageSpec>
ChainModel image_chain(std::string name, const ImageSpec& spec) {
  const ImageShape image{
      .channels = spec.channels, .height = spec.image_size, .width = spec.image_size};
  return {.name = std::move(name),
          .layers = {},
          .input = InputKind::kImages,
          .input_size = image.size(),
          .classes = spec.classes,
          .image = image};
}

}  // namespace trireme::model
