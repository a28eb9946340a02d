// SPDX-License-Identifier: Apache-2.0
#include "saved/checkpoint_reader.h"
#include "state/tensor_bytes.h"
#include "state/tensor_types.h"

#include "trireme/checkpoint/numbers.h"
#include "trireme/checkpoint/tensor_file.h"
#include "trireme/config/adapters.h"
#include "trireme/config/huggingface.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/runtime/weights.h"

#include <ATen/ATen.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace trireme::runtime {
namespace {

using Tensors = std::map<std::string, checkpoint::Joined>;

/// A tensor of a checkpoint and its form in the exported file.
struct Exported {
  std::string name;  ///< in the checkpoint
  bool is_transposed = false;
  checkpoint::Spec spec;
};

/// Layer and name in it of a checkpoint's parameter or buffer.
struct Owner {
  std::string layer, name;
};

/// Nothing for moments and losses.
std::optional<Owner> owner_of(std::string_view tensor) {
  for (const std::string_view kind : {kParameters, kBuffers}) {
    if (!tensor.starts_with(kind)) continue;
    const std::string_view rest = tensor.substr(kind.size());
    const std::size_t slash = rest.find('/');
    return Owner{.layer = std::string(rest.substr(0, slash)),
                 .name = std::string(rest.substr(slash + 1))};
  }
  return std::nullopt;
}

at::ScalarType type_after(at::ScalarType before, at::ScalarType wanted) {
  return at::isFloatingType(before) ? wanted : before;
}

/// A tensor of the checkpoint as it is exported to `place`.
Exported exported(const std::string& name, const checkpoint::Joined& saved,
                  const config::WeightPlace& place, at::ScalarType type) {
  const at::Tensor like =
      at::empty({0}, type_after(type_named(saved.type, name), type));  // for its type only
  std::vector<std::int64_t> sizes = saved.sizes;
  if (place.is_transposed) std::swap(sizes.at(0), sizes.at(1));
  std::int64_t bytes = static_cast<std::int64_t>(like.element_size());
  for (const std::int64_t size : sizes) bytes *= size;
  return {.name = name,
          .is_transposed = place.is_transposed,
          .spec = {.name = place.name,
                   .type = type_name(like.scalar_type()),
                   .sizes = std::move(sizes),
                   .size = Bytes(bytes),
                   .is_constant = saved.is_constant}};
}

std::vector<Exported> weights_of(const Tensors& tensors, const config::WeightNames& names,
                                 at::ScalarType type) {
  std::vector<Exported> all;
  for (const auto& [name, saved] : tensors) {
    const auto owner = owner_of(name);
    if (owner && !config::is_adapter(name))
      all.push_back(exported(name, saved, names.of(owner->layer, owner->name), type));
  }
  return all;
}

std::vector<Exported> adapters_in(const Tensors& tensors, const config::ModelSpec& model,
                                  at::ScalarType type) {
  const config::WeightNames names(model);
  const std::vector<std::string> trained = config::trained_patterns(model);
  std::vector<Exported> all;
  for (const auto& [name, saved] : tensors) {
    const auto owner = owner_of(name);
    if (!owner) continue;
    if (config::is_adapter(name)) {
      const std::string there = names.of(owner->layer, owner->name).name;
      all.push_back(exported(name, saved, {.name = config::adapter_name(there)}, type));
      continue;
    }
    const std::string place = names.place_of(owner->layer, owner->name);
    if (config::matches_one(place, trained))
      throw InputError(concat("the run has trained ", place,
                              " in addition to its adapters, which an adapter file cannot hold: "
                              "export the whole model"));
  }
  return all;
}

double adapter_scale(const config::ModelSpec& model) {
  const auto adapters = config::adapters_of(model);
  return adapters ? adapters->alpha / adapters->rank : 0.0;
}

/// Adds to a weight the product of its adapter, if it has one.
void add_adapter(const CheckpointReader& source, const std::string& name, double scale,
                 at::Tensor& weight) {
  constexpr std::string_view kWeight = "weight";
  if (!name.ends_with(kWeight)) return;
  const std::string stem = name.substr(0, name.size() - kWeight.size());
  const auto matrix = [&](std::string_view which) {
    const std::string of_adapter = concat(stem, which);
    const auto saved = source.tensors().find(of_adapter);
    if (saved == source.tensors().end()) return at::Tensor();
    const at::Tensor values = at::empty(saved->second.sizes, at::kFloat);
    source.read_rounded(of_adapter, values);
    return values;
  };
  const at::Tensor a = matrix(config::kLoraA), b = matrix(config::kLoraB);
  if (a.defined() && b.defined()) weight = weight.to(at::kFloat).addmm_(b, a, 1, scale);
}

/// Writes tensors, changed by `change`, into a new file; returns their bytes.
Bytes write(const CheckpointReader& source, const std::vector<Exported>& tensors,
            at::ScalarType type, const std::filesystem::path& file,
            const std::function<bool()>& stop_requested,
            const std::function<void(const std::string&, at::Tensor&)>& change) {
  std::vector<checkpoint::Spec> specs;
  Bytes all;
  for (const Exported& each : tensors) {
    specs.push_back(each.spec);
    all += each.spec.size;
  }
  checkpoint::TensorFile out(file, std::move(specs));
  for (const auto& [name, is_transposed, spec] : tensors) {
    if (stop_requested && stop_requested()) throw Interrupted("stopped on request");
    const checkpoint::Joined& saved = source.tensors().at(name);
    at::Tensor value = at::empty(saved.sizes, type_named(saved.type, name));
    source.read(name, value);
    change(name, value);
    if (is_transposed) value = value.t();
    value = value.to(type_after(value.scalar_type(), type)).contiguous();
    try {
      out.append(bytes_of(value));
    } catch (const checkpoint::NoNumberError& error) {
      throw InputError(concat(name, ": has ", error.found.text(), " once it is ", spec.type,
                              ", whose range is too small: export it as another type, "
                              "--type float32"));
    }
  }
  out.finish();
  return all;
}

}  // namespace

Bytes export_weights(const std::filesystem::path& checkpoint, const config::ModelSpec& model,
                     at::ScalarType type, const std::filesystem::path& file,
                     const std::function<bool()>& stop_requested) {
  const CheckpointReader source(checkpoint);
  const double scale = adapter_scale(model);
  return write(source, weights_of(source.tensors(), config::WeightNames(model), type), type, file,
               stop_requested, [&](const std::string& name, at::Tensor& value) {
                 add_adapter(source, name, scale, value);
               });
}

Bytes export_adapters(const std::filesystem::path& checkpoint, const config::ModelSpec& model,
                      at::ScalarType type, const std::filesystem::path& file,
                      const std::function<bool()>& stop_requested) {
  const CheckpointReader source(checkpoint);
  return write(source, adapters_in(source.tensors(), model, type), type, file, stop_requested,
               [](const std::string& /*name*/, at::Tensor& /*value*/) {});
}

}  // namespace trireme::runtime
