// Documents that share rows: each has the logits and gradients that it has alone, by a run of the
// same layers on its tokens and nothing else.
//
// Shapes: B rows of T tokens, C width.
// SPDX-License-Identifier: Apache-2.0
#include "built.h"

#include "trireme/model/functional.h"
#include "trireme/model/past.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <ostream>

namespace trireme::model {
namespace {

using config::GptSpec;
using config::LlamaSpec;

constexpr std::int64_t B = 2, T = 64, C = 32, V = 50;
/// Two rows; the last of each may be a row's rest, as nothing tells it from a document. LibTorch's
/// kernels give other last bits where a thread's share of a product has less than four rows, and to
/// values that are left over when an activation function takes 32 at a time: documents are longer,
/// widths of such functions multiples of 32, and one thread computes. On some processors products
/// of fewer than four columns have other last bits below 16 rows: adapters have rank 4.
const std::vector<std::int64_t> kDocuments{9, 31, 8, 16, 40, 24};

struct Case {
  std::string name;
  ChainModel model;
};

void PrintTo(const Case& each, std::ostream* out) {
  *out << each.name;
}

Case gpt(const std::string& name, const std::function<void(GptSpec&)>& change) {
  GptSpec spec{.blocks = 2, .width = C, .heads = 4, .context = T, .vocabulary = V};
  change(spec);
  return {name, make_gpt(spec)};
}

Case llama(const std::string& name, const std::function<void(LlamaSpec&)>& change) {
  LlamaSpec spec{.blocks = 2, .width = C, .heads = 4, .kv_heads = 2, .hidden = 64};
  spec.context = T;
  spec.vocabulary = V;
  spec.rope_base = 50;
  change(spec);
  return {name, make_llama(spec)};
}

std::vector<Case> cases() {
  return {gpt("gpt", [](GptSpec&) {}),
          gpt("gpt_fine", [](GptSpec& spec) { spec.grain = "fine"; }),
          gpt("gpt_adapters", [](GptSpec& spec) { spec.lora_rank = 4; }),
          llama("llama", [](LlamaSpec&) {}),
          llama("llama_ungrouped", [](LlamaSpec& spec) { spec.kv_heads = 4; }),
          llama("llama_window", [](LlamaSpec& spec) { spec.window = 12; }),
          llama("llama_cap", [](LlamaSpec& spec) { spec.attention_cap = 0.7; }),
          llama("llama_window_with_cap",
                [](LlamaSpec& spec) {
                  spec.window = 12;
                  spec.attention_cap = 0.7;
                  spec.attention_scale = 0.9;
                }),
          llama("llama_parts",
                [](LlamaSpec& spec) {
                  spec.head_width = 6;
                  spec.rope_fraction = 0.7;
                  spec.fused_linears = true;
                  spec.qk_norm = "head";
                  spec.unrotated_blocks = {1};
                }),
          llama("llama_yarn", [](LlamaSpec& spec) {
            spec.rope_scaling = "yarn";
            spec.rope_factor = 4;
            spec.rope_original_context = 16;
            spec.rope_attention_factor = 1.1;
          })};
}

/// Weights none of which is a zero or a one.
void add_noise(Built& chain) {
  at::Generator from = at::detail::createCPUGenerator(1);
  for (const Parameter& parameter : chain.parameters())
    parameter.value.detach().add_(at::empty(parameter.value.sizes()).normal_(0, 0.2, from));
}

void use_doubles(Built& chain) {
  for (const Parameter& parameter : chain.parameters())
    at::Tensor(parameter.value).set_data(parameter.value.detach().to(at::kDouble));
}

Context with(std::vector<std::int64_t> documents) {
  return context(/*training=*/true, /*target=*/{}, std::move(documents));
}

at::Tensor logits(Built& chain, const at::Tensor& tokens, const Context& context) {
  Values x{tokens};
  for (int i = 1; i <= chain.model.length(); ++i)
    x = untaped_forward(chain.layer(i), x, context, Precision::kFloat32);
  return x.at(0);
}

/// Calls body(of), where of(rows) is the part of `rows` [B, T, ...] that is a document, as one row
/// [1, tokens, ...].
template <class Body>
void for_each_document(const Body& body) {
  std::int64_t place = 0;
  for (const std::int64_t tokens : kDocuments) {
    body([place, tokens](const at::Tensor& rows) {
      return rows.narrow(0, place / T, 1).narrow(1, place % T, tokens).contiguous();
    });
    place += tokens;
  }
}

class Documents : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { at::set_num_threads(1); }
};

TEST_P(Documents, HaveTheSameBitsWhereverTheyAre) {
  Built chain(GetParam().model);
  add_noise(chain);
  const Examples examples(chain.model, B);
  const at::Tensor last = examples.input.narrow(1, 40, 24);
  const at::Tensor first = at::cat({last, examples.input.narrow(1, 0, 40)}, 1);
  for (const std::int64_t tokens : {1, 3, 11, 23}) {
    const auto in = [&](const at::Tensor& rows, std::int64_t begin) {
      std::vector<std::int64_t> documents;
      for (std::int64_t row = 0; row < B; ++row)
        for (const std::int64_t each : {begin, tokens, T - begin - tokens})
          if (each > 0) documents.push_back(each);
      return logits(chain, rows, with(documents)).narrow(1, begin, tokens);
    };
    EXPECT_TRUE(at::equal(in(first, 0), in(examples.input, 40))) << tokens;
  }
}

TEST_P(Documents, HaveTheLogitsAndTheLossThatTheyHaveAlone) {
  Built chain(GetParam().model);
  add_noise(chain);
  const Examples examples(chain.model, B);
  const at::Tensor packed = logits(chain, examples.input, with(kDocuments));
  const at::Tensor joined = logits(chain, examples.input, with({}));

  int changed = 0;
  for_each_document([&](const auto& of) {
    const at::Tensor alone = logits(chain, of(examples.input), with({}));
    EXPECT_TRUE(at::equal(of(packed), alone))
        << (of(packed) - alone).abs().max().template item<float>();
    changed += at::allclose(of(joined), alone, 1e-4, 1e-4) ? 0 : 1;
    const auto loss = [&](const at::Tensor& y) {
      return cross_entropy(y.flatten(0, 1), of(examples.target).flatten());
    };
    EXPECT_TRUE(at::equal(loss(of(packed)), loss(alone)));
  });
  EXPECT_EQ(changed, 4) << "all but the first of a row see others where rows are one text";
}

TEST_P(Documents, GiveEachTokenTheGradientThatItHasAlone) {
  Built chain(GetParam().model);
  add_noise(chain);
  at::Generator from = at::detail::createCPUGenerator(2);
  const at::Tensor dy = at::empty({B, T, C}).normal_(0, 1, from);
  const at::Tensor x = at::empty({B, T, C}).normal_(0, 1, from);
  const int last = chain.model.length() - 1;
  const auto gradient = [&](const at::Tensor& input, const at::Tensor& of_output,
                            const Context& context) {
    std::vector<Tape> tapes;
    Values through{input};
    for (int i = 2; i <= last; ++i) {
      tapes.push_back(taped_forward(chain.layer(i), through, context, Precision::kFloat32,
                                    InputGradient::kNeeded));
      through = tapes.back().outputs;
    }
    Values gradients{of_output};
    for (; !tapes.empty(); tapes.pop_back())
      gradients = backward(std::move(tapes.back()), gradients);
    return gradients.at(0);
  };
  const at::Tensor packed = gradient(x, dy, with(kDocuments));
  for_each_document([&](const auto& of) {
    EXPECT_TRUE(at::equal(of(packed), gradient(of(x), of(dy), with({}))));
  });
}

/// The gradients of all parameters, of the sum of the losses of these tokens.
std::vector<at::Tensor> weight_gradients(Built& chain, const at::Tensor& input,
                                         const at::Tensor& target, const Context& context) {
  for (const Parameter& parameter : chain.parameters())
    if (parameter.is_trained)
      at::Tensor(parameter.value).mutable_grad() = at::zeros_like(parameter.value.detach());
  std::vector<Tape> tapes;
  Values x{input};
  for (int i = 1; i <= chain.model.length(); ++i) {
    Context of = context;
    if (i == chain.model.length()) of.target = {target, at::ones({}, at::kFloat)};
    tapes.push_back(
        taped_forward(chain.layer(i), x, of, Precision::kFloat32, input_gradient(chain.model, i)));
    x = tapes.back().outputs;
  }
  Values gradients{at::ones_like(x.at(0))};
  for (; !tapes.empty(); tapes.pop_back()) gradients = backward(std::move(tapes.back()), gradients);
  std::vector<at::Tensor> of_weights;
  for (const Parameter& parameter : chain.parameters())
    if (parameter.is_trained) of_weights.push_back(parameter.value.grad().clone());
  return of_weights;
}

TEST_P(Documents, SumUpTheWeightGradientsThatTheyHaveAlone) {
  Built chain(GetParam().model);
  add_noise(chain);
  use_doubles(chain);
  const Examples examples(chain.model, B);
  const std::vector<at::Tensor> packed =
      weight_gradients(chain, examples.input, examples.target, with(kDocuments));
  std::vector<at::Tensor> sums;
  for_each_document([&](const auto& of) {
    const std::vector<at::Tensor> alone =
        weight_gradients(chain, of(examples.input), of(examples.target), with({}));
    for (std::size_t i = 0; i < alone.size(); ++i)
      sums.size() <= i ? sums.push_back(alone[i]) : void(sums[i].add_(alone[i]));
  });
  ASSERT_EQ(packed.size(), sums.size());
  ASSERT_FALSE(packed.empty());
  for (std::size_t i = 0; i < packed.size(); ++i)
    EXPECT_TRUE(at::allclose(packed[i], sums[i], 1e-9, 1e-10)) << i;
}

INSTANTIATE_TEST_SUITE_P(Of, Documents, testing::ValuesIn(cases()),
                         [](const auto& each) { return each.param.name; });

TEST(DocumentsOfAnyLength, AreCloseToThemselvesAlone) {
  Built chain(llama("llama", [](LlamaSpec&) {}).model);
  add_noise(chain);
  const Examples examples(chain.model, 1);
  const at::Tensor packed = logits(chain, examples.input, with({1, 2, 60, 1}));
  const auto alone = [&](std::int64_t begin, std::int64_t tokens) {
    return logits(chain, examples.input.narrow(1, begin, tokens), with({}));
  };
  EXPECT_TRUE(at::allclose(
      packed, at::cat({alone(0, 1), alone(1, 2), alone(3, 60), alone(63, 1)}, 1), 1e-4, 1e-5));
}

TEST(DocumentsThatDoNotFillTheirRows, AreADefect) {
  Built chain(llama("llama", [](LlamaSpec&) {}).model);
  const Examples examples(chain.model, 1);
  EXPECT_THROW(logits(chain, examples.input, with({10, 20})), std::exception);
}

}  // namespace
}  // namespace trireme::model
