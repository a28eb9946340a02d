// Tensors of a checkpoint that is there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/checkpoint/manifest.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::runtime {

/// What every name of a parameter, and of a buffer of the first replica, begins with in a
/// checkpoint; "LAYER/NAME" follows.
inline constexpr std::string_view kParameters = "parameters/", kBuffers = "buffers/";

/// A tensor without memory of its own.
at::Tensor view_of(const std::vector<float>& numbers);
at::Tensor view_of(const std::vector<double>& numbers);

class CheckpointReader {
 public:
  /// Throws InputError where the manifest is missing or damaged.
  explicit CheckpointReader(std::filesystem::path folder);

  const checkpoint::Manifest& manifest() const { return manifest_; }
  /// By name; several ranks may have written one in parts.
  const std::map<std::string, checkpoint::Joined>& tensors() const { return tensors_; }
  /// Into `value`, on whatever device. Throws InputError where the tensor is missing, of another
  /// type or other sizes, or damaged.
  void read(const std::string& name, const at::Tensor& value) const;
  /// The same for a tensor of whatever type: `value` is its rounding.
  void read_rounded(const std::string& name, const at::Tensor& value) const;
  /// Whether the tensor `name` had the bytes of `value`, which is in host memory, when it was
  /// written.
  bool has_written(const std::string& name, const at::Tensor& value) const;
  /// All of a list of numbers.
  template <class Number>
  std::vector<Number> numbers(const std::string& name) const {
    std::vector<Number> numbers(static_cast<std::size_t>(tensor(name).sizes.at(0)));
    read(name, view_of(numbers));
    return numbers;
  }
  /// Throws InputError where the manifest says another number of steps.
  void require_steps(std::size_t steps) const;
  /// Throws InputError for a parameter that nobody took up.
  void require_nothing_left(const std::set<std::string>& taken) const;

 private:
  const checkpoint::Joined& tensor(const std::string& name) const;
  void read(const std::string& name, std::span<std::byte> into) const;

  std::filesystem::path folder_;
  checkpoint::Manifest manifest_;
  std::map<std::string, checkpoint::Joined> tensors_;
};

}  // namespace trireme::runtime
