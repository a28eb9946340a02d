// A run whose numbers were lost.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trireme::runtime {

struct Divergence {
  std::int64_t step = 0;
  std::string what;  ///< that is no number: "the loss", "a value of parameters/head/weight"
};

/// What the words of an error say that has ended a run for it, on this rank or as heard from
/// another one; nothing where the error is another.
std::optional<Divergence> divergence_in(std::string_view words);

}  // namespace trireme::runtime
