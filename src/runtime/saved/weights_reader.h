// Reads weights of other programs, in their names and types.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/checkpoint/tensor_set.h"
#include "trireme/config/huggingface.h"

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <set>
#include <string>

namespace trireme::runtime {

class WeightsReader {
 public:
  /// Finds the tensors of a file or folder. Throws InputError.
  WeightsReader(const std::filesystem::path& place, const config::ModelSpec& model);
  /// Finds those of a folder of adapters (config::kAdaptersValues).
  static WeightsReader of_adapters(const std::filesystem::path& folder,
                                   const config::ModelSpec& model);

  /// Name in the file of tensor `name` of layer `layer`, which has these sizes. Throws InputError
  /// if it is missing or of other sizes.
  std::string name_of(const std::string& layer, const std::string& name,
                      at::IntArrayRef sizes) const;
  /// Reads tensor `name` of layer `layer` into `value`, on whatever device, from whatever floating
  /// type it has in the file; returns its name there. Throws InputError if it is missing, of other
  /// sizes, or has values that are not finite; a constant (checkpoint::Entry) may have infinities.
  std::string read(const std::string& layer, const std::string& name, const at::Tensor& value,
                   bool is_constant = false) const;
  /// Throws InputError for a tensor of the file that is not in `taken`.
  void require_nothing_left(const std::set<std::string>& taken) const;
  /// Reads the tensors that are not parameters. Throws InputError for one that would change
  /// `model`, e.g. a tied head with values of its own (extra_tensors.h).
  void require_nothing_new(const config::ModelSpec& model) const;

 private:
  WeightsReader(const std::filesystem::path& place, const config::ModelSpec& model,
                bool are_adapters);

  struct Found {
    config::WeightPlace place;
    const checkpoint::Entry* entry = nullptr;
    at::ScalarType type{};
  };
  Found find(const std::string& layer, const std::string& name, at::IntArrayRef sizes) const;

  config::WeightNames names_;
  bool are_adapters_;
  std::string place_;
  checkpoint::TensorSet set_;
  std::map<std::string, std::string> in_file_;  ///< names in the file where they differ
};

}  // namespace trireme::runtime
