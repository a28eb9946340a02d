// SPDX-License-Identifier: Apache-2.0
#include "made_up.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/profile/measure.h"

#include <ATen/ATen.h>

#include <utility>

namespace trireme::profile {

at::Tensor made_up_input(const model::ChainModel& model, std::int64_t examples,
                         at::Generator from) {
  std::vector<std::int64_t> sizes = model.example_sizes();
  sizes.insert(sizes.begin(), examples);
  switch (model.input) {
    case model::InputKind::kTokens:
      return at::empty(sizes, at::kLong).random_(0, model.classes, std::move(from));
    case model::InputKind::kVectors:
    case model::InputKind::kImages:
      return at::empty(sizes, at::kFloat).normal_(0, 1, std::move(from));
  }
  throw LogicError("an input of no kind");
}

model::Values made_up_target(const model::ChainModel& model, const config::JobSpec& job,
                             at::Generator from) {
  std::vector<std::int64_t> sizes{job.train.micro_batch.value()};
  if (model.input == model::InputKind::kTokens) sizes.push_back(model.input_size);
  const at::Tensor classes = at::empty(sizes, at::kLong).random_(0, model.classes, std::move(from));
  if (!may_be_masked(job, model)) return {classes};
  return {classes, at::full({}, 1.0 / static_cast<double>(classes.numel()), at::kFloat)};
}

std::vector<std::int64_t> made_up_documents(const model::ChainModel& model,
                                            const config::JobSpec& job) {
  if (!job.data.isolates_documents()) return {};
  return std::vector<std::int64_t>(static_cast<std::size_t>(job.train.micro_batch.value()),
                                   model.input_size);
}

bool may_be_masked(const config::JobSpec& job, const model::ChainModel& model) {
  return job.data.kind == "documents" || (!model.code.empty() && model.takes_masked_targets);
}

model::Values without_values(const model::Values& values) {
  model::Values shapes;
  for (const at::Tensor& value : values) {
    shapes.push_back(
        at::empty_strided(value.sizes(), value.strides(), value.options().device(at::kMeta)));
  }
  return shapes;
}

void make_up_values(model::Values& values, c10::Device device, const at::Generator& from) {
  for (at::Tensor& value : values) {
    if (!value.is_meta()) continue;
    value = at::empty_strided(value.sizes(), value.strides(), value.options().device(device));
    if (value.is_floating_point()) {
      value.normal_(0, 1, from);
    } else {
      value.zero_();
    }
  }
}

std::string shape_text(const model::Values& values) {
  std::string text;
  for (const at::Tensor& value : values)
    text += concat(value.scalar_type(), value.sizes(), value.strides(), ';');
  return text;
}

}  // namespace trireme::profile
