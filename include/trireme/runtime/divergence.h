// Recognizes that a run ended because its loss, gradients or state became NaN or infinite.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trireme::runtime {

struct Divergence {
  std::int64_t step = 0;
  std::string what;  ///< what is not finite: "the loss", "a value of parameters/head/weight"
};

/// Reads the message of the error that ended a run, on this rank or as reported by another one;
/// nothing if it is not about divergence.
std::optional<Divergence> divergence_in(std::string_view words);

}  // namespace trireme::runtime
