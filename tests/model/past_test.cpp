// Texts run by pieces (KV cache) against the same texts whole.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/model/past.h"

#include "architectures/attention.h"
#include "built.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trireme::model {
namespace {

struct Case {
  std::string name;
  ChainModel model;
};

void PrintTo(const Case& each, std::ostream* out) {
  *out << each.name;
}

constexpr std::int64_t kContext = 24;

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::string grain : {"block", "half_block", "fine"}) {
    config::GptSpec gpt{.blocks = 2,
                        .width = 32,
                        .heads = 4,
                        .context = kContext,
                        .vocabulary = 40,
                        .dropout = 0.1,
                        .grain = grain};
    all.push_back({"gpt_" + grain, make_gpt(gpt)});
    gpt.tied_head = false;
    gpt.lora_rank = 2;
    all.push_back({"gpt_with_adapters_" + grain, make_gpt(gpt)});
    for (const int kv_heads : {1, 2, 4}) {
      config::LlamaSpec llama;
      llama.blocks = 2;
      llama.width = 32;
      llama.heads = 4;
      llama.kv_heads = kv_heads;
      llama.context = kContext;
      llama.vocabulary = 40;
      llama.qkv_bias = kv_heads == 2;
      llama.grain = grain;
      all.push_back({"llama_" + std::to_string(kv_heads) + "_" + grain, make_llama(llama)});
      llama.window = 6;
      llama.window_blocks = {1};
      llama.unrotated_blocks = {0};
      llama.attention_scale = 0.5;
      llama.fused_linears = true;
      llama.logits_divisor = 2;
      all.push_back({"windowed_" + std::to_string(kv_heads) + "_" + grain, make_llama(llama)});
      llama.attention_cap = 1;
      llama.logits_cap = 0.5;
      llama.qk_norm = "head";
      llama.norms = "both";
      all.push_back({"capped_" + std::to_string(kv_heads) + "_" + grain, make_llama(llama)});
    }
  }
  return all;
}

std::vector<Past> empty_pasts(const ChainModel& model) {
  std::vector<Past> pasts;
  for (const LayerRecipe& layer : model.layers) pasts.emplace_back(kContext, layer.window);
  return pasts;
}

/// Logits [V] after the last of `tokens_1T`, which continue the text in `pasts`.
at::Tensor pass_piece(Built& chain, const at::Tensor& tokens_1T, std::vector<Past>& pasts) {
  Values values{tokens_1T};
  for (std::size_t i = 0; i < chain.layers.size(); ++i)
    values = dynamic_cast<ForwardByPieces&>(*chain.layers[i])
                 .forward_piece(values, context(/*training=*/false), pasts[i]);
  EXPECT_EQ(values[0].sizes(), (std::vector<std::int64_t>{1, 1, chain.model.classes}));
  return values[0][0][0];
}

class ByPieces : public testing::TestWithParam<Case> {};

TEST_P(ByPieces, ATextHasTheLogitsThatItHasWhole) {
  const at::NoGradGuard no_grad;
  Built chain(GetParam().model);
  const at::Tensor text = Examples(chain.model, 1).input;
  Values values{text};
  for (const auto& layer : chain.layers) values = layer->forward(values, context(false));
  const at::Tensor whole_TV = values[0][0];

  for (const std::vector<std::int64_t>& sizes : std::vector<std::vector<std::int64_t>>{
           {24}, std::vector<std::int64_t>(24, 1), {5, 1, 1, 7, 1, 9}, {1, 22, 1}}) {
    std::vector<Past> pasts = empty_pasts(chain.model);
    std::int64_t end = 0;
    for (const std::int64_t size : sizes) {
      const at::Tensor logits = pass_piece(chain, text.narrow(1, end, size), pasts);
      end += size;
      EXPECT_LT((logits - whole_TV[end - 1]).abs().max().item<double>(), 2e-6) << end;
    }
    EXPECT_EQ(pasts.back().tokens(), kContext);
  }
}

TEST_P(ByPieces, ATextThatBeginsAnewIsAnother) {
  const at::NoGradGuard no_grad;
  Built chain(GetParam().model);
  const at::Tensor text = Examples(chain.model, 2).input;
  std::vector<Past> pasts = empty_pasts(chain.model), fresh = pasts;
  pass_piece(chain, text.narrow(0, 0, 1), pasts);
  for (Past& past : pasts) past.clear();
  const at::Tensor again = pass_piece(chain, text.narrow(0, 1, 1), pasts);
  EXPECT_TRUE(at::equal(again, pass_piece(chain, text.narrow(0, 1, 1), fresh)));
}

INSTANTIATE_TEST_SUITE_P(Chains, ByPieces, testing::ValuesIn(cases()),
                         [](const auto& each) { return each.param.name; });

/// softmax(q k^T / sqrt(D)) v, token by token and head by head, of the last `window` tokens.
at::Tensor attended_one_by_one(const at::Tensor& q_BTHD, const at::Tensor& k_BTGD,
                               const at::Tensor& v_BTGD, std::int64_t window) {
  const std::int64_t T = q_BTHD.size(1), H = q_BTHD.size(2), G = k_BTGD.size(2);
  at::Tensor all_BTHD = at::empty_like(q_BTHD);
  for (std::int64_t b = 0; b < q_BTHD.size(0); ++b)
    for (std::int64_t t = 0; t < T; ++t)
      for (std::int64_t h = 0; h < H; ++h) {
        const std::int64_t first = std::max<std::int64_t>(0, t + 1 - window), g = h / (H / G);
        const auto seen = [&](const at::Tensor& x) {
          return x[b].narrow(0, first, t + 1 - first).select(1, g);
        };
        const at::Tensor scores =
            at::mv(seen(k_BTGD), q_BTHD[b][t][h]) / std::sqrt(static_cast<double>(q_BTHD.size(3)));
        all_BTHD[b][t][h] = at::mv(seen(v_BTGD).t(), at::softmax(scores, 0));
      }
  return all_BTHD.flatten(2);
}

at::Tensor drawn(at::IntArrayRef sizes, at::Generator from) {
  return at::empty(sizes, at::kFloat).normal_(0, 1, std::move(from));
}

TEST(Window, IsSeenAndNoMoreWhateverThePieces) {
  constexpr std::int64_t kTokens = 50, kHead = 8;
  at::Generator from = at::detail::createCPUGenerator(11);
  for (const std::int64_t window : {1, 2, 5, 16, 49, 50, 80})
    for (const std::int64_t kv_heads : {1, 2, 4}) {
      const at::Tensor q = drawn({2, kTokens, 4, kHead}, from);
      const at::Tensor k = drawn({2, kTokens, kv_heads, kHead}, from);
      const at::Tensor v = drawn({2, kTokens, kv_heads, kHead}, from);
      const at::Tensor expected = attended_one_by_one(q, k, v, window);
      for (const std::vector<std::int64_t>& sizes : std::vector<std::vector<std::int64_t>>{
               {50}, std::vector<std::int64_t>(50, 1), {3, 1, 20, 1, 1, 9, 15}, {16, 16, 16, 2}}) {
        Past past(kTokens, window);
        const Context none = context(/*training=*/false);
        std::vector<at::Tensor> found;
        std::int64_t end = 0;
        for (const std::int64_t size : sizes) {
          const auto piece = [&](const at::Tensor& x) { return x.narrow(1, end, size); };
          found.push_back(causal_attention(piece(q), piece(k), piece(v), {none, &past}));
          past.advance(size);
          end += size;
        }
        EXPECT_LT((at::cat(found, 1) - expected).abs().max().item<double>(), 2e-6)
            << "window " << window << ", " << kv_heads << " heads of keys, " << sizes.size();
      }
    }
}

TEST(Window, TakesMemoryForItselfTwiceNotForTheText) {
  constexpr std::int64_t kWindow = 8;
  Past past(1'000'000, kWindow);
  const at::Tensor k = at::ones({1, 1, 2, 4});
  for (int token = 0; token < 100; ++token) {
    const Past::Seen seen = past.see(k, k);
    past.advance(1);
    EXPECT_LE(seen.k_BGSD.size(2), kWindow);
    EXPECT_LE(seen.k_BGSD.storage().nbytes(), 2 * kWindow * 2 * 4 * sizeof(float));
  }
}

TEST(Past, TakesItsMemoryOnce) {
  Past past(100);
  const void* begin = nullptr;
  for (int token = 0; token < 100; ++token) {
    const Past::Seen seen = past.see(at::ones({1, 1, 2, 4}), at::ones({1, 1, 2, 4}));
    past.advance(1);
    if (token == 0) begin = seen.k_BGSD.const_data_ptr();
    EXPECT_EQ(seen.k_BGSD.const_data_ptr(), begin);
  }
}

}  // namespace
}  // namespace trireme::model
