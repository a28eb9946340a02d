// Data made up from the seed, example by example, so that nothing is stored however many there are.
// SPDX-License-Identifier: Apache-2.0
#include "kinds.h"
#include "stream.h"

#include "trireme/core/digest.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/data/sampler.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme::data {
namespace {

enum Purpose : std::uint64_t { kRule = 1, kExample = 2 };

/// What vectors and tokens share: numbered examples, the last of them for validation.
class Synthetic : public Dataset {
 public:
  Synthetic(const config::DataSpec& spec, ExampleShape shape, std::int64_t seed)
      : shape_(std::move(shape)),
        seed_(static_cast<std::uint64_t>(seed)),
        validation_(validation_size(spec.examples, spec.validation_fraction)),
        train_(spec.examples - validation_),
        sampler_(train_, seed) {}

  std::int64_t train_examples() const override { return train_; }
  std::int64_t validation_examples() const override { return validation_; }

  MicroBatch train(std::int64_t first, std::int64_t count) const override {
    return make(count, [&](std::int64_t row) { return sampler_.draw(first + row).index; });
  }

  MicroBatch validation(std::int64_t first, std::int64_t count, std::int64_t total) const override {
    ensure(validation_ > 0, "there is a validation part");
    return make(count, [&](std::int64_t row) {
      return train_ + evenly_spaced(first + row, total, validation_);
    });
  }

  std::optional<UnigramLoss> unigram_loss() const override { return std::nullopt; }

  std::string digest() const override {
    return trireme::digest(concat("synthetic ", shape_.input, ' ', train_, ' ', validation_, ' ',
                                  shape_.inputs, ' ', shape_.classes, ' ', seed_));
  }

  std::string describe() const override {
    return concat("synthetic ", shape_.input, ": ", train_, " examples to train on, ", validation_,
                  " for validation");
  }

 protected:
  virtual MicroBatch empty(std::int64_t examples) const = 0;
  virtual void fill(std::int64_t example, std::int64_t row, MicroBatch& batch) const = 0;

  Stream rule_stream() const { return Stream(mix(seed_, kRule)); }
  Stream example_stream(std::int64_t example) const {
    return Stream(mix(seed_, kExample, static_cast<std::uint64_t>(example)));
  }

  ExampleShape shape_;
  std::uint64_t seed_;

 private:
  template <class ExampleOf>
  MicroBatch make(std::int64_t count, const ExampleOf& example_of) const {
    ensure(count >= 1, "a micro-batch has at least one example");
    MicroBatch batch = empty(count);
    for (std::int64_t row = 0; row < count; ++row) fill(example_of(row), row, batch);
    return batch;
  }

  std::int64_t validation_;
  std::int64_t train_;
  Sampler sampler_;
};

/// class = argmax over c of (sum over j < kRuleInputs of w[c][j] x[j]) + noise, in whole numbers so
/// that no rounding decides.
class SyntheticVectors final : public Synthetic {
 public:
  SyntheticVectors(const config::DataSpec& spec, const ExampleShape& shape, std::int64_t seed);

 protected:
  MicroBatch empty(std::int64_t examples) const override {
    return {.input = at::empty({examples, shape_.inputs}, at::kFloat),
            .target = at::empty({examples}, at::kLong)};
  }
  void fill(std::int64_t example, std::int64_t row, MicroBatch& batch) const override;

 private:
  static constexpr std::int64_t kRuleInputs = 64;  ///< bounds the cost of a label
  static constexpr double kNoise = 0.1;            ///< of a form's standard deviation

  std::int64_t rule_inputs_;
  std::int64_t noise_;
  std::vector<std::int64_t> weights_;  ///< [classes, rule_inputs_]
};

/// Every token has four successors, and each of the four maps permutes the vocabulary: all tokens
/// are equally frequent, and the entropy of the next token is ln 4 (where the four differ).
class SyntheticTokens final : public Synthetic {
 public:
  SyntheticTokens(const config::DataSpec& spec, const ExampleShape& shape, std::int64_t seed);

 protected:
  MicroBatch empty(std::int64_t examples) const override {
    return empty_tokens(examples, shape_.inputs);
  }
  void fill(std::int64_t example, std::int64_t row, MicroBatch& batch) const override;

 private:
  std::vector<std::array<std::int64_t, 4>> successors_;  ///< by token
};

void require_examples(const config::DataSpec& spec);

}  // namespace

std::unique_ptr<Dataset> make_synthetic_vectors(const config::DataSpec& spec,
                                                const ExampleShape& shape, std::int64_t seed) {
  require_examples(spec);
  return std::make_unique<SyntheticVectors>(spec, shape, seed);
}

std::unique_ptr<Dataset> make_synthetic_tokens(const config::DataSpec& spec,
                                               const ExampleShape& shape, std::int64_t seed) {
  require_examples(spec);
  return std::make_unique<SyntheticTokens>(spec, shape, seed);
}

namespace {

SyntheticVectors::SyntheticVectors(const config::DataSpec& spec, const ExampleShape& shape,
                                   std::int64_t seed)
    : Synthetic(spec, shape, seed),
      rule_inputs_(std::min(shape.inputs, kRuleInputs)),
      noise_(std::llround(kNoise * Stream::kBellDeviation *
                          std::sqrt(static_cast<double>(rule_inputs_)))) {
  Stream stream = rule_stream();
  weights_.resize(static_cast<std::size_t>(shape.classes * rule_inputs_));
  std::generate(weights_.begin(), weights_.end(), [&] { return stream.bell(); });
}

void SyntheticVectors::fill(std::int64_t example, std::int64_t row, MicroBatch& batch) const {
  Stream stream = example_stream(example);
  std::array<std::int64_t, kRuleInputs> seen{};
  float* x = batch.input.data_ptr<float>() + row * shape_.inputs;
  for (std::int64_t j = 0; j < shape_.inputs; ++j) {
    const std::int64_t value = stream.bell();
    if (j < rule_inputs_) seen[static_cast<std::size_t>(j)] = value;
    x[j] = static_cast<float>(static_cast<double>(value) / Stream::kBellDeviation);
  }
  std::int64_t best_score = std::numeric_limits<std::int64_t>::min();
  std::int64_t best = 0;
  const std::int64_t* weights = weights_.data();
  for (std::int64_t c = 0; c < shape_.classes; ++c, weights += rule_inputs_) {
    std::int64_t score = noise_ * stream.bell();
    for (std::int64_t j = 0; j < rule_inputs_; ++j)
      score += weights[j] * seen[static_cast<std::size_t>(j)];
    if (score > best_score) best = c;
    best_score = std::max(best_score, score);
  }
  batch.target.data_ptr<std::int64_t>()[row] = best;
}

SyntheticTokens::SyntheticTokens(const config::DataSpec& spec, const ExampleShape& shape,
                                 std::int64_t seed)
    : Synthetic(spec, shape, seed), successors_(static_cast<std::size_t>(shape.classes)) {
  Stream stream = rule_stream();
  for (std::size_t choice = 0; choice < 4; ++choice) {
    const Permutation next(successors_.size(), stream.next());
    for (std::size_t token = 0; token < successors_.size(); ++token)
      successors_[token][choice] = static_cast<std::int64_t>(next(token));
  }
}

void SyntheticTokens::fill(std::int64_t example, std::int64_t row, MicroBatch& batch) const {
  Stream stream = example_stream(example);
  std::int64_t* input = batch.input.data_ptr<std::int64_t>() + row * shape_.inputs;
  std::int64_t* target = batch.target.data_ptr<std::int64_t>() + row * shape_.inputs;
  auto token = static_cast<std::int64_t>(stream.next() % successors_.size());
  for (std::int64_t t = 0; t < shape_.inputs; ++t) {
    input[t] = token;
    token = successors_[static_cast<std::size_t>(token)][stream.next() >> 62];
    target[t] = token;
  }
}

void require_examples(const config::DataSpec& spec) {
  if (spec.examples - validation_size(spec.examples, spec.validation_fraction) >= 1) return;
  throw InputError(concat("data.examples is ", spec.examples,
                          ", must leave at least 1 to train on (data.validation_fraction = ",
                          to_text(spec.validation_fraction), ")"));
}

}  // namespace
}  // namespace trireme::data
