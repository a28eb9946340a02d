// Synthetic data, generated from the seed example by example, so that nothing is stored.
// SPDX-License-Identifier: Apache-2.0
#include "synthetic.h"

#include "kinds.h"

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

/// class = argmax over c of (sum over j < kRuleInputs of w[c][j] x[j]) + noise, in integers, so
/// that rounding does not matter.
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
  static constexpr double kNoise = 0.1;            ///< as a fraction of a form's standard deviation

  std::int64_t rule_inputs_;
  std::int64_t noise_;
  std::vector<std::int64_t> weights_;  ///< [classes, rule_inputs_]
};

/// Every token has four successors, and each of the four maps permutes the vocabulary: all tokens
/// are equally frequent, and the entropy of the next token is ln 4 (if the four differ).
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

}  // namespace

void require_examples(const config::DataSpec& spec) {
  if (spec.examples - validation_size(spec.examples, spec.validation_fraction) >= 1) return;
  throw InputError(concat("data.examples is ", spec.examples,
                          ", must leave at least 1 to train on (data.validation_fraction = ",
                          to_text(spec.validation_fraction), ")"));
}

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

}  // namespace
}  // namespace trireme::data
