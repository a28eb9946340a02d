// SPDX-License-Identifier: Apache-2.0
#include "trireme/data/dataset.h"

#include "kinds.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <ATen/ATen.h>

#include <utility>

namespace trireme::data {

namespace {

std::unique_ptr<Dataset> make_synthetic(const config::DataSpec& spec, const ExampleShape& shape,
                                        std::int64_t seed);
/// The model input that a data kind provides; empty for an unknown kind.
std::string input_of(const std::string& kind);

/// The target `classes`, of which `counted` are unmasked in all micro-batches together.
Target with_weight(at::Tensor classes, std::optional<std::int64_t> counted,
                   std::int64_t micro_batches);

/// The number of a micro-batch's first example.
std::int64_t first_of(const BatchShape& shape, std::int64_t step, std::int64_t index);

}  // namespace

std::unique_ptr<Dataset> open_dataset(const config::DataSpec& spec, const ExampleShape& shape,
                                      std::int64_t seed) {
  if (shape.input != "tokens" && shape.input != "vectors" && shape.input != "images")
    throw InputError(
        concat("the model's input is '", shape.input, "', must be tokens, vectors or images"));
  ensure(shape.inputs >= 1 && shape.classes >= 1, "the chain says what it takes");
  if (spec.kind == "synthetic") return make_synthetic(spec, shape, seed);
  const std::string input = input_of(spec.kind);
  if (input.empty())
    throw InputError(concat("data.kind is '", spec.kind,
                            "', must be text, tokens, documents, images or synthetic"));
  if (input != shape.input)
    throw InputError(concat("data.kind is ", spec.kind, ", which gives ", input,
                            ", but the model takes ", shape.input, ": use synthetic"));
  if (spec.kind == "images") return make_images(spec, shape, seed);
  if (spec.kind == "documents") return make_documents(spec, shape, seed);
  auto source = spec.kind == "text" ? open_text(spec.files, shape.classes)
                                    : open_token_files(spec, shape.classes);
  return make_windows(std::move(source), shape, spec.validation_fraction, seed);
}

MicroBatch train_micro_batch(const Dataset& dataset, const BatchShape& shape, std::int64_t step,
                             std::int64_t index) {
  return dataset.train(first_of(shape, step, index), shape.micro_batch);
}

Target train_target(const Dataset& dataset, const BatchShape& shape, std::int64_t step,
                    std::int64_t index) {
  return with_weight(dataset.train_target(first_of(shape, step, index), shape.micro_batch),
                     dataset.train_counted(first_of(shape, step, 0), shape.batch),
                     shape.batch / shape.micro_batch);
}

DocumentLengths train_documents(const Dataset& dataset, const BatchShape& shape, std::int64_t step,
                                std::int64_t index) {
  return dataset.train_documents(first_of(shape, step, index), shape.micro_batch);
}

MicroBatch validation_micro_batch(const Dataset& dataset, std::int64_t examples, std::int64_t index,
                                  std::int64_t micro_batches) {
  return dataset.validation(index * examples, examples, micro_batches * examples);
}

Target validation_target(const Dataset& dataset, std::int64_t examples, std::int64_t index,
                         std::int64_t micro_batches) {
  const std::int64_t total = micro_batches * examples;
  return with_weight(dataset.validation_target(index * examples, examples, total),
                     dataset.validation_counted(0, total, total), micro_batches);
}

DocumentLengths validation_documents(const Dataset& dataset, std::int64_t examples,
                                     std::int64_t index, std::int64_t micro_batches) {
  return dataset.validation_documents(index * examples, examples, micro_batches * examples);
}

namespace {

Target with_weight(at::Tensor classes, std::optional<std::int64_t> counted,
                   std::int64_t micro_batches) {
  if (!counted) return {std::move(classes)};
  const double weight = static_cast<double>(micro_batches) / static_cast<double>(*counted);
  return {std::move(classes), at::full({}, weight, at::kFloat)};
}

std::int64_t first_of(const BatchShape& shape, std::int64_t step, std::int64_t index) {
  ensure(index >= 0 && (index + 1) * shape.micro_batch <= shape.batch,
         "the micro-batch is one of the step's");
  return step * shape.batch + index * shape.micro_batch;
}

std::unique_ptr<Dataset> make_synthetic(const config::DataSpec& spec, const ExampleShape& shape,
                                        std::int64_t seed) {
  if (shape.input == "tokens") return make_synthetic_tokens(spec, shape, seed);
  if (shape.input == "images") return make_synthetic_images(spec, shape, seed);
  return make_synthetic_vectors(spec, shape, seed);
}

std::string input_of(const std::string& kind) {
  if (kind == "text" || kind == "tokens" || kind == "documents") return "tokens";
  return kind == "images" ? "images" : "";
}

}  // namespace
}  // namespace trireme::data
