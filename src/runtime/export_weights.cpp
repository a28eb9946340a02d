// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_reader.h"
#include "tensor_bytes.h"
#include "tensor_types.h"

#include "trireme/checkpoint/tensor_file.h"
#include "trireme/config/huggingface.h"
#include "trireme/runtime/weights.h"

#include <ATen/ATen.h>

#include <optional>
#include <string_view>
#include <utility>
#include <variant>

namespace trireme::runtime {
namespace {

/// A tensor of a checkpoint and what it is there.
struct Exported {
  std::string name;  ///< in the checkpoint
  config::WeightPlace place;
  checkpoint::Spec spec;
};

/// Where a tensor of a checkpoint goes; nothing for moments and losses.
std::optional<config::WeightPlace> place_of(std::string_view name,
                                            const config::WeightNames& names) {
  for (const std::string_view kind : {kParameters, kBuffers}) {
    if (!name.starts_with(kind)) continue;
    const std::string_view rest = name.substr(kind.size());
    const std::size_t slash = rest.find('/');
    return names.of(rest.substr(0, slash), rest.substr(slash + 1));
  }
  return std::nullopt;
}

at::ScalarType type_after(at::ScalarType before, at::ScalarType wanted) {
  return at::isFloatingType(before) ? wanted : before;
}

std::vector<Exported> exported(const checkpoint::Manifest& manifest,
                               const config::WeightNames& names, at::ScalarType type) {
  std::vector<Exported> all;
  for (const auto& [name, entry] : manifest.tensors) {
    const auto place = place_of(name, names);
    if (!place || config::is_adapter(name)) continue;
    const at::Tensor like =
        at::empty({0}, type_after(type_named(entry.type, name), type));  // for its type alone
    std::vector<std::int64_t> sizes = entry.sizes;
    if (place->is_transposed) std::swap(sizes.at(0), sizes.at(1));
    std::int64_t bytes = static_cast<std::int64_t>(like.element_size());
    for (const std::int64_t size : sizes) bytes *= size;
    all.push_back({name,
                   *place,
                   {.name = place->name,
                    .type = type_name(like.scalar_type()),
                    .sizes = std::move(sizes),
                    .size = Bytes(bytes)}});
  }
  return all;
}

double adapter_scale(const config::ModelSpec& model) {
  return std::visit(
      [](const auto& spec) {
        if constexpr (requires { spec.lora_rank; })
          return spec.lora_rank > 0 ? spec.lora_alpha / spec.lora_rank : 0.0;
        else
          return 0.0;
      },
      model);
}

/// Adds to a weight what the adapter beside it, if there is one, has learned.
void add_adapter(const CheckpointReader& source, const std::string& name, double scale,
                 at::Tensor& weight) {
  constexpr std::string_view kWeight = "weight";
  if (!name.ends_with(kWeight)) return;
  const std::string stem = name.substr(0, name.size() - kWeight.size());
  const auto matrix = [&](std::string_view which) {
    const std::string of_adapter = concat(stem, which);
    const auto entry = source.manifest().tensors.find(of_adapter);
    if (entry == source.manifest().tensors.end()) return at::Tensor();
    const at::Tensor values = at::empty(entry->second.sizes, at::kFloat);
    source.read_rounded(of_adapter, values);
    return values;
  };
  const at::Tensor a = matrix(config::kLoraA), b = matrix(config::kLoraB);
  if (a.defined() && b.defined()) weight = weight.to(at::kFloat).addmm_(b, a, 1, scale);
}

}  // namespace

Bytes export_weights(const std::filesystem::path& checkpoint, const config::ModelSpec& model,
                     at::ScalarType type, const std::filesystem::path& file) {
  const CheckpointReader source(checkpoint);
  const std::vector<Exported> tensors =
      exported(source.manifest(), config::WeightNames(model), type);
  std::vector<checkpoint::Spec> specs;
  Bytes all;
  for (const Exported& each : tensors) {
    specs.push_back(each.spec);
    all += each.spec.size;
  }
  checkpoint::TensorFile out(file, std::move(specs));
  const double scale = adapter_scale(model);
  for (const auto& [name, place, spec] : tensors) {
    const checkpoint::Entry& entry = source.manifest().tensors.at(name);
    at::Tensor value = at::empty(entry.sizes, type_named(entry.type, name));
    source.read(name, value);
    add_adapter(source, name, scale, value);
    if (place.is_transposed) value = value.t();
    value = value.to(type_after(value.scalar_type(), type)).contiguous();
    out.append(bytes_of(value));
  }
  out.finish();
  return all;
}

}  // namespace trireme::runtime
