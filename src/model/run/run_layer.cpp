// SPDX-License-Identifier: Apache-2.0
#include "run/run_layer.h"

#include "run/saved_tensors.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/model/default_generator.h"
#include "trireme/model/foreign.h"
#include "trireme/model/given.h"
#include "trireme/model/taped.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <cstdint>
#include <optional>

namespace trireme::model {
namespace {

/// Runs the backward; errors of another language come out as ours.
void execute(const BackwardRun& run);
/// Converts the input of a layer whose weights are bfloat16.
Values lowered(Values input, Precision precision);

}  // namespace

Values run_layer(Layer& layer, const Values& input, const Context& context, Precision precision) {
  const AutocastScope autocast(precision, device_of(input));
  std::optional<RemakingScope> remaking;
  if (context.lean_tapes && at::GradMode::is_enabled()) remaking.emplace();
  std::vector<std::int64_t> versions;
  for (const at::Tensor& value : input) versions.push_back(value._version());
  Values output = layer.forward(lowered(input, precision), context);
  for (std::size_t i = 0; i < input.size(); ++i) {
    if (input[i]._version() != versions[i]) {
      throw InputError(concat("forward changed member ", i,
                              " of its input in place; others still need it: write the result to "
                              "a new tensor"));
    }
  }
  require_output(output, context);
  const Values held = held_by(layer, context);
  for (at::Tensor& value : output) {
    const bool is_shared = shares_storage(value, input) || shares_storage(value, held);
    value = is_shared ? value.clone(at::MemoryFormat::Contiguous) : value.contiguous();
  }
  return output;
}

c10::DeviceType device_of(const Values& input) {
  return input.empty() ? c10::DeviceType::CPU : input.front().device().type();
}

Values held_by(const Layer& layer, const Context& context) {
  Values held = context.target;
  for (const Parameter& parameter : layer.parameters()) held.push_back(parameter.value);
  for (const Buffer& buffer : layer.buffers()) held.push_back(buffer.value);
  return held;
}

bool shares_storage(const at::Tensor& value, const Values& with) {
  return std::any_of(with.begin(), with.end(), [&](const at::Tensor& other) {
    return value.storage().is_alias_of(other.storage());
  });
}

void let_go_of_memory(const at::Tensor& leaf) {
  at::TensorImpl& impl = *leaf.unsafeGetTensorImpl();
  impl.set_allow_tensor_metadata_change(true);
  impl.set_storage_keep_dtype(c10::Storage(c10::Storage::use_byte_size_t(), 0,
                                           at::DataPtr(nullptr, leaf.device()), nullptr,
                                           /*resizable=*/false));
}

void run_backward(const BackwardRun& run) {
  try {
    execute(run);
  } catch (const c10::Error& error) {
    if (const std::string told = told_change(error.what_without_backtrace()); !told.empty())
      throw InputError(told);
    throw;
  }
}

namespace {

void execute(const BackwardRun& run) {
  const ForeignBackwards* const language = foreign_backwards();
  std::optional<DefaultGenerator> alone;
  if (language != nullptr) alone.emplace();
  try {
    torch::autograd::Engine::get_default_engine().execute(run.roots, run.gradients, run.keeps_graph,
                                                          /*create_graph=*/false,
                                                          /*accumulate_grad=*/true, run.only_to);
  } catch (...) {
    if (language != nullptr) language->convert_error();
    throw;
  }
}

Values lowered(Values input, Precision precision) {
  if (precision != Precision::kBfloat16Weights) return input;
  for (at::Tensor& value : input) {
    if (value.is_floating_point()) value = value.to(at::kBFloat16);
  }
  return input;
}

}  // namespace
}  // namespace trireme::model
