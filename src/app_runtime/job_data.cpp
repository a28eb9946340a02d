// SPDX-License-Identifier: Apache-2.0
#include "job_data.h"

#include "trireme/core/digest.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <string>

namespace trireme::app {
namespace {

static_assert(data::kMasked == model::kMasked, "what the data masks the model passes over");

data::ExampleShape shape_of(const model::ChainModel& model) {
  data::ExampleShape shape{.input = {},
                           .inputs = model.input_size,
                           .classes = model.classes,
                           .channels = model.image.channels,
                           .height = model.image.height,
                           .width = model.image.width,
                           .takes_masks = model.takes_masked_targets};
  switch (model.input) {
    case model::InputKind::kTokens:
      shape.input = "tokens";
      break;
    case model::InputKind::kVectors:
      shape.input = "vectors";
      break;
    case model::InputKind::kImages:
      shape.input = "images";
      break;
  }
  return shape;
}

}  // namespace

std::unique_ptr<data::Dataset> open_data(const config::JobSpec& job,
                                         const model::ChainModel& model) {
  try {
    return data::open_dataset(job.data, shape_of(model), job.train.seed);
  } catch (const InputError& error) {
    const std::string key = "data.files";
    const std::string message = error.what();
    const auto section = job.document.find("data");
    const auto files = section ? section->find("files") : std::nullopt;
    if (!files || message.rfind(key, 0) != 0) throw;
    throw InputError(files->where() + message.substr(key.size()));
  }
}

std::string content_digest(const config::JobSpec& job, const data::Dataset& dataset) {
  const std::string files = model::files_digest(job.model);
  return files.empty() ? dataset.digest() : digest(concat(dataset.digest(), files));
}

}  // namespace trireme::app
