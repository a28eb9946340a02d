// SPDX-License-Identifier: Apache-2.0
#include "job/job_data.h"

#include "trireme/core/digest.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/data/own_examples.h"
#include "trireme/profile/measure.h"
#include "trireme/ranks/signals.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

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
                           .takes_masks = model.takes_masked_targets,
                           .isolates_documents = model.isolates_documents};
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

/// Examples that are not read any more once a stop was requested: each runs the program's code.
class UntilStopped final : public data::OwnExamples {
 public:
  explicit UntilStopped(std::unique_ptr<data::OwnExamples> examples)
      : examples_(std::move(examples)) {}

  std::int64_t size() const override { return examples_->size(); }
  std::string name() const override { return examples_->name(); }
  data::Example example(std::int64_t number) const override {
    if (ranks::stop_requested())
      throw Interrupted(concat("stopped on request before example ", number, " was read"));
    return examples_->example(number);
  }

 private:
  std::unique_ptr<data::OwnExamples> examples_;
};

void require_no_fraction(const config::JobSpec& job) {
  const auto section = job.document.find("data");
  if (section && section->find("validation_fraction"))
    job.fail("data.validation_fraction",
             "is of the examples to train on, but the program has a validation set of its own: "
             "leave it out");
}

/// Micro-batches per replica of one validation: at most one pass over the validation part.
int validation_micro_batches(const config::JobSpec& job, const data::Dataset& dataset) {
  const std::int64_t examples = dataset.validation_examples();
  const std::int64_t per_round =
      std::int64_t{job.train.micro_batch.value()} * job.pipeline.replicas.value();
  if (examples == 0) return 0;
  return static_cast<int>(
      std::clamp<std::int64_t>(examples / per_round, 1, job.train.validation_batches));
}

}  // namespace

std::unique_ptr<data::Dataset> open_data(const config::JobSpec& job, const model::ChainModel& model,
                                         const GivenJob& given) {
  const bool is_own = job.data.kind == "own";
  if (is_own && !given.examples)
    job.fail("data.kind",
             "is own, which is for programs that hand their data over (docs/python.md)");
  if (!is_own && given.examples)
    job.fail("data.kind",
             concat("is ", job.data.kind, ", but the program hands its data over: must be own"));
  if (is_own) {
    data::ExampleShape shape = shape_of(model);
    shape.takes_masks = profile::may_be_masked(job, model);
    auto examples = std::make_unique<UntilStopped>(given.examples());
    if (!given.validation)
      return data::make_own(std::move(examples), shape, job.data.validation_fraction,
                            job.train.seed);
    require_no_fraction(job);
    return data::make_own(std::move(examples), std::make_unique<UntilStopped>(given.validation()),
                          shape, job.train.seed);
  }
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

std::string content_digest(const model::ChainModel& model, const std::string& data) {
  return model.code.empty() ? data : digest(concat(data, model.code));
}

runtime::DataSource source_of(const config::JobSpec& job, const model::ChainModel& model,
                              const data::Dataset& dataset) {
  const data::BatchShape shape{.batch = job.train.batch,
                               .micro_batch = job.train.micro_batch.value()};
  const int per_replica = validation_micro_batches(job, dataset);
  const int total = per_replica * job.pipeline.replicas.value();
  const auto input = [&dataset, shape](std::int64_t step, int m) {
    return model::Values{data::train_micro_batch(dataset, shape, step, m).input};
  };
  const auto target = [&dataset, shape](std::int64_t step, int m) {
    return data::train_target(dataset, shape, step, m);
  };
  const std::int64_t examples = shape.micro_batch;
  const auto validation_input = [&dataset, examples, total](int m) {
    return model::Values{data::validation_micro_batch(dataset, examples, m, total).input};
  };
  const auto validation_target = [&dataset, examples, total](int m) {
    return data::validation_target(dataset, examples, m, total);
  };
  return {.input = input,
          .target = target,
          .validation_input = validation_input,
          .validation_target = validation_target,
          .documents = [&dataset, shape](
                           std::int64_t step,
                           int m) { return data::train_documents(dataset, shape, step, m); },
          .validation_documents =
              [&dataset, examples, total](int m) {
                return data::validation_documents(dataset, examples, m, total);
              },
          .validation_micro_batches = per_replica,
          .tokens =
              [&dataset, batch = shape.batch,
               full = shape.batch * model.tokens_per_example()](std::int64_t step) {
                return dataset.train_tokens(step * batch, batch).value_or(full);
              }};
}

}  // namespace trireme::app
