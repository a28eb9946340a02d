// SPDX-License-Identifier: Apache-2.0
#include "architectures/language.h"

#include "architectures/transformer.h"
#include "device/linear_cross_entropy.h"

#include <ATen/ATen.h>

namespace trireme::model {
namespace {

constexpr const char* kTie = "token_embedding";

at::Tensor add_weight(const PartBuilder& build, const std::string& name, std::int64_t vocabulary,
                      std::int64_t width, bool is_tied) {
  if (is_tied) return build.tied(name, {vocabulary, width}, kDeviation, kTie);
  return build.normal(name, {vocabulary, width}, kDeviation);
}

}  // namespace

at::Tensor add_token_embedding(const PartBuilder& build, std::int64_t vocabulary,
                               std::int64_t width, bool is_tied) {
  return add_weight(build, "token.weight", vocabulary, width, is_tied);
}

at::Tensor add_output_weight(const PartBuilder& build, std::int64_t vocabulary, std::int64_t width,
                             bool is_tied) {
  return add_weight(build, "output.weight", vocabulary, width, is_tied);
}

at::Tensor tokens_for_head(const at::Tensor& x_BTC, const Surroundings& around) {
  return around.past == nullptr ? x_BTC : x_BTC.narrow(1, x_BTC.size(1) - 1, 1);
}

at::Tensor next_token_loss(const at::Tensor& normed_BTC, const at::Tensor& output_weight,
                           const Context& context, int chunks, const Logits& logits) {
  const at::Tensor x_BTC = logits.divisor == 1 ? normed_BTC : normed_BTC / logits.divisor;
  if (context.target.empty()) {
    const at::Tensor y_BTV = at::linear(x_BTC, output_weight);
    return logits.cap > 0 ? at::tanh(y_BTV / logits.cap) * logits.cap : y_BTV;
  }
  const Targets targets{.classes_N = context.target.at(0).reshape({-1}),
                        .share = context.target.size() > 1 ? context.target[1] : at::Tensor()};
  return linear_cross_entropy(x_BTC.flatten(0, 1), output_weight, targets, chunks, logits.cap);
}

}  // namespace trireme::model
