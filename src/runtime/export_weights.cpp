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
    if (!place) continue;
    const at::Tensor like =
        at::empty({0}, type_after(type_named(entry.type, name), type));  // for its type alone
    std::vector<std::int64_t> sizes = entry.sizes;
    if (place->is_transposed) std::swap(sizes.at(0), sizes.at(1));
    std::int64_t bytes = static_cast<std::int64_t>(like.element_size());
    for (const std::int64_t size : sizes) bytes *= size;
    all.push_back({name,
                   *place,
                   {.name = place->name,
                    .type = type_name(like),
                    .sizes = std::move(sizes),
                    .size = Bytes(bytes)}});
  }
  return all;
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
  for (const auto& [name, place, spec] : tensors) {
    const checkpoint::Entry& entry = source.manifest().tensors.at(name);
    at::Tensor value = at::empty(entry.sizes, type_named(entry.type, name));
    source.read(name, value);
    if (place.is_transposed) value = value.t();
    value = value.to(type_after(value.scalar_type(), type)).contiguous();
    out.append(bytes_of(value));
  }
  out.finish();
  return all;
}

}  // namespace trireme::runtime
