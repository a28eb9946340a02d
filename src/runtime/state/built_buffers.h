// Tells buffers that are built with infinities, such as an attention mask, from buffers whose
// values become infinite.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "state/stage.h"

#include "trireme/model/layer.h"

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <utility>

namespace trireme::runtime {

/// "nan at index 17" if a value, on whatever device, is not finite; empty if all are. Infinities
/// are ignored with `is_constant`.
std::string no_number_in(const at::Tensor& value, bool is_constant = false);

class BuiltBuffers {
 public:
  /// `stage` has just been built.
  explicit BuiltBuffers(Stage& stage);

  /// Whether it has infinities and still the values that it was built with.
  bool is_constant(int layer, const model::Buffer& buffer) const;
  /// The first buffer of the stage with a value that is neither finite nor was built so: its name
  /// in the chain and no_number_in() of it; empty if there is none.
  std::pair<std::string, std::string> first_lost(Stage& stage) const;

 private:
  using Key = std::pair<int, std::string>;  // layer, name
  std::map<Key, std::string> digests_;      ///< digests of buffers built with infinities
};

}  // namespace trireme::runtime
