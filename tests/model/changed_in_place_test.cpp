// Layers that change in place what their backward needs are refused if plain autograd refuses them,
// however their tapes are kept; all others get autograd's gradients.
// SPDX-License-Identifier: Apache-2.0
#include "built.h"

#include "trireme/core/error.h"
#include "trireme/model/functional.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <optional>
#include <ostream>

namespace trireme::model {
namespace {

/// A forward of its input, a weight [4, 4] and a buffer [4].
using Body = at::Tensor (*)(const at::Tensor& x, const at::Tensor& w, at::Tensor& buffer);

struct Kind {
  const char* name;
  bool is_refused;
  Body body;
};

std::ostream& operator<<(std::ostream& out, const Kind& kind) {
  return out << kind.name;
}

const Kind kKinds[] = {
    {"ResultOfAnOperator", true,
     [](const at::Tensor& x, const at::Tensor& w, at::Tensor&) {
       at::Tensor y = x.mm(w).exp();
       return y.add_(1);
     }},
    {"OperandOfAProduct", true,
     [](const at::Tensor& x, const at::Tensor& w, at::Tensor&) {
       at::Tensor h = x.mm(w), y = h.mm(w);
       h.mul_(2);
       return y;
     }},
    {"AViewOfIt", true,
     [](const at::Tensor& x, const at::Tensor& w, at::Tensor&) {
       at::Tensor h = x.mm(w), y = h * h;
       h.select(1, 0).zero_();
       return y;
     }},
    {"DetachedFromIt", true,
     [](const at::Tensor& x, const at::Tensor& w, at::Tensor&) {
       at::Tensor h = x.mm(w), y = h.pow(2);
       h.detach().zero_();
       return y;
     }},
    {"OneOfSeveral", true,
     [](const at::Tensor& x, const at::Tensor& w, at::Tensor&) {
       at::Tensor h = x.mm(w), other = x.mm(w).tanh(), y = at::cat({h, other}) * at::cat({h, h});
       other.mul_(2);
       return y + h.sigmoid().sum();
     }},
    {"ABufferThatWasUsed", true,
     [](const at::Tensor& x, const at::Tensor& w, at::Tensor& buffer) {
       at::Tensor y = x.mm(w) * buffer;
       buffer.mul_(0.5);
       return y;
     }},
    {"BeforeItIsUsed", false,
     [](const at::Tensor& x, const at::Tensor& w, at::Tensor&) {
       at::Tensor h = x.mm(w);
       h.select(1, 0).zero_();
       return h * h;
     }},
    {"WhatNoBackwardNeeds", false,
     [](const at::Tensor& x, const at::Tensor& w, at::Tensor&) {
       at::Tensor h = x.mm(w);
       h += x;
       return h.mul_(3).relu_();
     }},
    {"ACopy", false,
     [](const at::Tensor& x, const at::Tensor& w, at::Tensor&) {
       at::Tensor h = x.mm(w).exp(), y = h.clone();
       y.add_(1);
       return y;
     }},
    {"WhatLeadsNowhere", false,
     [](const at::Tensor& x, const at::Tensor& w, at::Tensor&) {
       at::Tensor h = x.mm(w), aside = h.exp();
       aside.add_(1);
       return h.tanh();
     }},
    {"ABufferThatIsNotUsed", false,
     [](const at::Tensor& x, const at::Tensor& w, at::Tensor& buffer) {
       at::Tensor y = x.mm(w).tanh();
       buffer.mul_(0.5).add_(y.detach().mean(0));
       return y;
     }},
    {"NumbersOfABatchNorm", false,
     [](const at::Tensor& x, const at::Tensor& w, at::Tensor& buffer) {
       return at::batch_norm(x.mm(w), {}, {}, buffer, buffer + 1, true, 0.1, 1e-5, false);
     }},
};

class Runs final : public Layer {
 public:
  explicit Runs(Body body) : body_(body) {}
  Values forward(const Values& input, const Context&) override {
    return {body_(input.at(0), weight, buffer)};
  }
  at::Tensor weight =
      add_parameter("weight", at::arange(16, at::kFloat).reshape({4, 4}) * 0.1 - 0.7);
  at::Tensor buffer = add_buffer("buffer", at::full({4}, 0.5));

 private:
  Body body_;
};

const at::Tensor& input() {
  static const at::Tensor x = at::arange(12, at::kFloat).reshape({3, 4}) * 0.2 - 1;
  return x;
}

/// Gradients of input and weight; nothing if refused.
using Gradients = std::optional<Values>;

Gradients by_autograd(Body body) {
  Runs layer(body);
  const at::Tensor x = input().clone().requires_grad_();
  at::Tensor buffer = layer.buffer.clone();
  const at::Tensor y = body(x, layer.weight, buffer);
  try {
    y.backward(at::ones_like(y));
  } catch (const c10::Error&) {
    return std::nullopt;
  }
  return Values{x.grad(), layer.weight.grad()};
}

using Taping = std::function<Tape(Layer& layer, const Values& input)>;

Gradients by_layer(Body body, const Taping& tape_of, std::string& error) {
  Runs layer(body);
  layer.weight.mutable_grad() = at::zeros_like(layer.weight);
  try {
    Tape tape = tape_of(layer, {input()});
    Values gradients =
        backward(std::move(tape), {at::ones_like(Runs(body).forward({input()}, context())[0])});
    gradients.push_back(layer.weight.grad());
    return gradients;
  } catch (const InputError& refused) {
    error = refused.what();
    return std::nullopt;
  }
}

std::map<std::string, Taping> tapings() {
  const auto taped = [](TapeUse use, bool is_lean) {
    return [=](Layer& layer, const Values& x) {
      Context run = context();
      run.lean_tapes = is_lean;
      return taped_forward(layer, x, run, Precision::kFloat32, InputGradient::kNeeded, use);
    };
  };
  return {{"stays", taped(TapeUse::kStays, false)},
          {"moves", taped(TapeUse::kMayMove, false)},
          {"lean", taped(TapeUse::kStays, true)},
          {"lean, moves", taped(TapeUse::kMayMove, true)},
          {"made again", [](Layer& layer, const Values& x) {
             Outlined first =
                 outlined_forward(layer, x, context(), Precision::kFloat32, InputGradient::kNeeded);
             static_cast<Runs&>(layer).buffer.variable_data().fill_(0.5);
             return retape(std::move(first.outline), layer, x, context(), Precision::kFloat32);
           }}};
}

class ChangedInPlace : public testing::TestWithParam<Kind> {};

TEST_P(ChangedInPlace, IsRefusedWhereAutogradRefusesIt) {
  const Gradients expected = by_autograd(GetParam().body);
  ASSERT_EQ(!expected, GetParam().is_refused) << "the oracle";
  for (const auto& [name, tape_of] : tapings()) {
    std::string error;
    const Gradients found = by_layer(GetParam().body, tape_of, error);
    ASSERT_EQ(found.has_value(), expected.has_value()) << name << ": " << error;
    if (!found) {
      EXPECT_THAT(error, testing::HasSubstr("changes it in place afterwards")) << name;
      EXPECT_THAT(error, testing::Not(testing::HasSubstr("anomaly"))) << name;
      continue;
    }
    for (std::size_t i = 0; i < expected->size(); ++i)
      EXPECT_TRUE(at::equal((*found)[i], (*expected)[i])) << name << ' ' << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, ChangedInPlace, testing::ValuesIn(kKinds),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace trireme::model
