// Finds NaN and infinities in tensors, which a run that has diverged leaves.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/error.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace trireme::checkpoint {

/// A value that is not finite.
struct NoNumber {
  std::int64_t place = 0;  ///< index in its tensor, row-major, from 0
  std::string value;       ///< "nan", "inf" or "-inf"

  bool is_infinite() const { return value != "nan"; }
  /// "nan at index 17".
  std::string text() const;
  bool operator==(const NoNumber&) const = default;
};

/// The first NaN of a tensor's bytes, or its first infinity if there is none; nothing if all values
/// are finite, which is found at the speed of memory. `type` is safetensors' name ("F32"); integers
/// and booleans are always finite.
std::optional<NoNumber> find_no_number(std::string_view type, std::span<const std::byte> values);

/// A tensor to be written has a value that is not finite.
class NoNumberError : public Error {
 public:
  NoNumberError(const std::string& file, std::string name, NoNumber value);

  std::string tensor;
  NoNumber found;
};

}  // namespace trireme::checkpoint
