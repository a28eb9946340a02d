// SPDX-License-Identifier: Apache-2.0
#include "saved/weights_reader.h"

#include "saved/extra_tensors.h"
#include "state/built_buffers.h"
#include "state/tensor_types.h"

#include "trireme/checkpoint/tensor_file.h"
#include "trireme/config/adapters.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace trireme::runtime {

WeightsReader::WeightsReader(const std::filesystem::path& place, const config::ModelSpec& model,
                             bool are_adapters)
    : names_(model), are_adapters_(are_adapters), place_(place.string()) {
  checkpoint::TensorSet found = checkpoint::find_tensors(place);
  set_.folder = found.folder;
  for (auto& [name, entry] : found.tensors) {
    const std::string whole = are_adapters ? name : names_.with_head(name);
    if (whole != name) in_file_[whole] = name;
    if (!set_.tensors.emplace(whole, std::move(entry)).second)
      throw InputError(concat(place_, ": has tensor '", whole,
                              "' twice, with and without its prefix: remove one of "
                              "them"));
  }
}

WeightsReader::WeightsReader(const std::filesystem::path& place, const config::ModelSpec& model)
    : WeightsReader(place, model, false) {}

WeightsReader WeightsReader::of_adapters(const std::filesystem::path& folder,
                                         const config::ModelSpec& model) {
  return {folder / config::kAdaptersValues, model, true};
}

WeightsReader::Found WeightsReader::find(const std::string& layer, const std::string& name,
                                         at::IntArrayRef sizes) const {
  config::WeightPlace place = names_.of(layer, name);
  if (are_adapters_) place.name = config::adapter_name(place.name);
  const auto found = set_.tensors.find(place.name);
  if (found == set_.tensors.end())
    throw InputError(concat(place_, ": has no tensor '", place.name, "', which ", layer, '/', name,
                            " begins with: name weights of this model"));
  const checkpoint::Entry& entry = found->second;
  std::vector<std::int64_t> there = entry.sizes;
  if (place.is_transposed && there.size() == 2) std::swap(there[0], there[1]);
  if (sizes != there) {
    const bool has_other_rows = !place.rows_key.empty() && there.size() == sizes.size() &&
                                sizes.slice(1).equals(at::IntArrayRef(there).slice(1));
    throw InputError(concat(
        place_, ": tensor '", place.name, "' is ", shape_text(entry.type, entry.sizes),
        ", this job's ", layer, '/', name, " is ", shape_text("", sizes.vec()),
        place.is_transposed ? " (transposed)" : "", ": ",
        has_other_rows ? concat("say ", place.rows_key, ": ", there[0], " or name other weights")
                       : "name weights of this model"));
  }
  const std::string tensor = concat(place_, ": tensor '", place.name, "'");
  const at::ScalarType type = type_named(entry.type, tensor);
  if (!at::isFloatingType(type))
    throw InputError(
        concat(tensor, " is of an integer type (", entry.type,
               "), must be of a floating-point type: quantized weights are not supported"));
  return {.place = place, .entry = &entry, .type = type};
}

std::string WeightsReader::name_of(const std::string& layer, const std::string& name,
                                   at::IntArrayRef sizes) const {
  return find(layer, name, sizes).place.name;
}

std::string WeightsReader::read(const std::string& layer, const std::string& name,
                                const at::Tensor& value, bool is_constant) const {
  const at::NoGradGuard no_grad;
  const auto [place, found, type] = find(layer, name, value.sizes());
  checkpoint::Entry entry = *found;
  entry.is_constant = is_constant;
  std::vector<std::byte> bytes(static_cast<std::size_t>(entry.size.count()));
  checkpoint::read_tensor(set_.folder, place.name, entry, bytes);
  at::Tensor source = at::from_blob(bytes.data(), entry.sizes, type);
  if (place.is_transposed) source = source.t();
  if (!value.is_cpu()) source = source.to(value.scalar_type());
  value.copy_(source);
  if (!may_overflow(type, value.scalar_type())) return place.name;
  const std::string lost = no_number_in(value.is_cpu() ? value : source, is_constant);
  if (!lost.empty())
    throw InputError(concat(place_, ": tensor '", place.name, "' has ", lost,
                            " once it is rounded from ", entry.type, " to ",
                            type_name(value.scalar_type()), ": name weights that fit that type"));
  return place.name;
}

void WeightsReader::require_nothing_left(const std::set<std::string>& taken) const {
  std::vector<std::string> left;
  for (const auto& [name, entry] : set_.tensors)
    if (!taken.contains(name) && (are_adapters_ || names_.extra(name) == config::Extra::kNone))
      left.push_back(name);
  if (left.empty()) return;
  const auto in_file = in_file_.find(left.front());
  const std::string& first = in_file == in_file_.end() ? left.front() : in_file->second;
  throw InputError(concat(place_, ": has '", first, "'",
                          left.size() > 1 ? concat(" and ", left.size() - 1, " more tensors") : "",
                          " that this job's model does not have: name weights of this model"));
}

void WeightsReader::require_nothing_new(const config::ModelSpec& model) const {
  if (!are_adapters_) runtime::require_nothing_new(set_, model, place_);
}

}  // namespace trireme::runtime
