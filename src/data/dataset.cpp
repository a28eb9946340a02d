// SPDX-License-Identifier: Apache-2.0
#include "trireme/data/dataset.h"

#include "kinds.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

namespace trireme::data {

std::unique_ptr<Dataset> open_dataset(const config::DataSpec& spec, const ExampleShape& shape,
                                      std::int64_t seed) {
  const bool takes_tokens = shape.input == "tokens";
  if (!takes_tokens && shape.input != "vectors")
    throw InputError(concat("the model's input is '", shape.input, "', must be tokens or vectors"));
  ensure(shape.inputs >= 1 && shape.classes >= 1, "the chain says what it takes");
  if (spec.kind == "synthetic")
    return takes_tokens ? make_synthetic_tokens(spec, shape, seed)
                        : make_synthetic_vectors(spec, shape, seed);
  const bool is_text = spec.kind == "text";
  if (!is_text && spec.kind != "tokens")
    throw InputError(concat("data.kind is '", spec.kind, "', must be text, tokens or synthetic"));
  if (!takes_tokens)
    throw InputError(concat("data.kind is ", spec.kind,
                            ", which gives tokens, but the model takes vectors: use synthetic"));
  auto source =
      is_text ? open_text(spec.files, shape.classes) : open_token_files(spec, shape.classes);
  return make_windows(std::move(source), shape, spec.validation_fraction, seed);
}

MicroBatch train_micro_batch(const Dataset& dataset, const BatchShape& shape, std::int64_t step,
                             std::int64_t index) {
  ensure(index >= 0 && (index + 1) * shape.micro_batch <= shape.batch,
         "the micro-batch is one of the step's");
  return dataset.train(step * shape.batch + index * shape.micro_batch, shape.micro_batch);
}

MicroBatch validation_micro_batch(const Dataset& dataset, std::int64_t examples, std::int64_t index,
                                  std::int64_t micro_batches) {
  return dataset.validation(index * examples, examples, micro_batches * examples);
}

}  // namespace trireme::data
