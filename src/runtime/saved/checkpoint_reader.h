// Reads the tensors of a checkpoint.
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

/// Prefixes of the names of parameters, and of buffers of the first replica, in a checkpoint;
/// "LAYER/NAME" follows.
inline constexpr std::string_view kParameters = "parameters/", kBuffers = "buffers/";

/// A tensor that views `numbers`.
at::Tensor view_of(const std::vector<float>& numbers);
at::Tensor view_of(const std::vector<double>& numbers);

class CheckpointReader {
 public:
  /// Throws InputError where the manifest is missing or damaged.
  explicit CheckpointReader(std::filesystem::path folder);

  const checkpoint::Manifest& manifest() const { return manifest_; }
  /// Tensors by name; several ranks may have written one in parts.
  const std::map<std::string, checkpoint::Joined>& tensors() const { return tensors_; }
  /// Reads a tensor into `value`, on whatever device. Throws InputError where the tensor is
  /// missing, of another type or other sizes, or damaged.
  void read(const std::string& name, const at::Tensor& value) const;
  /// The same for a tensor of any type, rounded to the type of `value`.
  void read_rounded(const std::string& name, const at::Tensor& value) const;
  /// Whether the tensor `name` was written with the bytes of `value`, which is in host memory.
  bool has_written(const std::string& name, const at::Tensor& value) const;
  /// Reads a list of numbers.
  template <class Number>
  std::vector<Number> numbers(const std::string& name) const {
    std::vector<Number> numbers(static_cast<std::size_t>(tensor(name).sizes.at(0)));
    read(name, view_of(numbers));
    return numbers;
  }
  /// Throws InputError if the manifest has another number of steps.
  void require_steps(std::size_t steps) const;
  /// Throws InputError for a parameter of the checkpoint that is not in `taken`.
  void require_nothing_left(const std::set<std::string>& taken) const;

 private:
  const checkpoint::Joined& tensor(const std::string& name) const;
  void read(const std::string& name, std::span<std::byte> into) const;

  std::filesystem::path folder_;
  checkpoint::Manifest manifest_;
  std::map<std::string, checkpoint::Joined> tensors_;
};

}  // namespace trireme::runtime
