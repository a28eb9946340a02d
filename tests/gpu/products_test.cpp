// Linear layers with Trireme's own GPU kernels: results, gradients, accumulation, and what is
// recomputed.
// SPDX-License-Identifier: Apache-2.0
#include "../model/built.h"
#include "device/device_functions.h"
#include "device/device_products.h"
#include "device/linear_cross_entropy.h"
#include "kernels.h"

#include "trireme/model/gradient_sums.h"

#include <ATen/record_function.h>

#include <atomic>
#include <string_view>
#include <tuple>

namespace trireme::model {
namespace {

/// Counts an operator's calls while it lives, on all threads.
class Calls {
 public:
  explicit Calls(const char* name)
      : handle_(at::addGlobalCallback(
            at::RecordFunctionCallback(count).scopes({at::RecordScope::FUNCTION}))) {
    counted = name;
    calls = 0;
  }
  ~Calls() { at::removeCallback(handle_); }
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  static int take() { return calls.exchange(0); }

 private:
  static std::unique_ptr<at::ObserverContext> count(const at::RecordFunction& function) {
    if (std::string_view(function.name()) == counted) ++calls;
    return nullptr;
  }

  static inline std::string_view counted;
  static inline std::atomic<int> calls{0};
  at::CallbackHandle handle_;
};

using GpuProducts = GpuKernels;

TEST_F(GpuProducts, TheBackwardOfALinearLayerIsLibTorchs) {
  for (const auto& [count, in, out] :
       {std::tuple{rows(8192), 64, 1600}, {rows(8192), 64, 6400}, {rows(1000), 128, 264}}) {
    SCOPED_TRACE(out);
    for (const bool has_bias : {true, false}) {
      const at::Tensor x = leaf({4, count / 4, in}), weight = leaf({out, in});
      const at::Tensor bias = has_bias ? leaf({out}) : at::Tensor();
      const at::Tensor dy = drawn({4, count / 4, out});
      std::vector<at::Tensor> all{x, weight}, wide_all{wide_leaf(x), wide_leaf(weight)};
      if (has_bias) {
        all.push_back(bias);
        wide_all.push_back(wide_leaf(bias));
      }
      const auto found = gradients(linear(x, weight, bias), dy, all);
      const auto expected =
          gradients(at::linear(wide_all[0], wide_all[1], has_bias ? wide_all[2] : at::Tensor()),
                    wide(dy), wide_all);
      for (std::size_t i = 0; i < found.size(); ++i) expect_near(found[i], expected[i]);
    }
  }
}

/// Layers after a norm, with and without a bias; the norm's result is kept or recomputed: the same
/// bits.
TEST_F(GpuProducts, OfNormsAreLibTorchs) {
  for (const auto& [width, count, is_centred] :
       {std::tuple{1600, 1, true}, {768, 2, true}, {2048, 3, false}, {4096, 2, false}}) {
    SCOPED_TRACE(width);
    const at::Tensor x = leaf({2, rows(700), width});
    std::vector<at::Tensor> leaves{x, leaf({width})};
    if (is_centred) leaves.push_back(leaf({width}));
    const NormWeights norm{leaves[1], is_centred ? leaves[2] : at::Tensor(), 1e-5};
    std::vector<LinearWeights> linears;
    for (int i = 0; i < count; ++i) {
      linears.push_back({leaf({264 + 8 * i, width}), i == 1 ? at::Tensor() : leaf({264 + 8 * i})});
      leaves.push_back(linears.back().weight_OI);
      if (linears.back().bias_O.defined()) leaves.push_back(linears.back().bias_O);
    }
    ASSERT_TRUE(has_own_norm_linears(x, norm, linears));

    std::vector<at::Tensor> wide_leaves;
    for (const at::Tensor& one : leaves) wide_leaves.push_back(wide_leaf(one));
    std::size_t next = 1;
    const at::Tensor wide_weight = wide_leaves[next++];
    const at::Tensor wide_bias = is_centred ? wide_leaves[next++] : at::Tensor();
    const at::Tensor wide_y =
        is_centred ? at::layer_norm(wide_leaves[0], {width}, wide_weight, wide_bias, 1e-5)
                   : at::rms_norm(wide_leaves[0], {width}, wide_weight, 1e-5);
    // The loss: the sum of all results times dy, x among them.
    const at::Tensor of_x = drawn(x.sizes());
    std::vector<at::Tensor> of_results;
    at::Tensor expected_loss = (wide_leaves[0] * wide(of_x)).sum();
    std::vector<at::Tensor> expected_results;
    for (const LinearWeights& one : linears) {
      of_results.push_back(drawn({2, rows(700), one.weight_OI.size(0)}));
      const at::Tensor weight = wide_leaves[next++];
      const at::Tensor bias = one.bias_O.defined() ? wide_leaves[next++] : at::Tensor();
      expected_results.push_back(at::linear(wide_y, weight, bias));
      expected_loss = expected_loss + (expected_results.back() * wide(of_results.back())).sum();
    }
    of_results.push_back(of_x);
    const auto expected = gradients(expected_loss, at::ones_like(expected_loss), wide_leaves);

    std::vector<at::Tensor> kept;
    for (const bool keeps_result : {true, false}) {
      const std::vector<at::Tensor> results = own_norm_linears(x, norm, linears, keeps_result);
      ASSERT_EQ(results.size(), of_results.size());
      std::vector<at::Tensor> found = gradients_of_all(results, of_results, leaves);
      for (std::size_t i = 0; i < found.size(); ++i) expect_near(found[i], expected[i], 6e-3);
      for (std::size_t i = 0; i < expected_results.size(); ++i)
        expect_near(results[i], wide(expected_results[i]));
      EXPECT_TRUE(at::equal(results.back(), x));
      for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_TRUE(at::equal(kept[i], found[i])) << i;
      kept = found;
    }
  }
}

/// The layers below and the norm are frozen.
TEST_F(GpuProducts, OfAFrozenNormMakeItsResultAgainForTheirWeights) {
  const at::Tensor x = drawn({rows(700), 768}), weight = leaf({264, 768}), bias = leaf({264});
  const NormWeights norm{drawn({768}), drawn({768}), 1e-5};
  const at::Tensor dy = drawn({rows(700), 264});
  std::vector<at::Tensor> kept;
  for (const bool keeps_result : {true, false}) {
    const auto results = own_norm_linears(x, norm, {{weight, bias}}, keeps_result);
    const auto found = gradients(results[0], dy, {weight, bias});
    const at::Tensor y =
        at::layer_norm(wide(x), {768}, wide(norm.weight_C), wide(norm.bias_C), 1e-5);
    expect_near(found[0], at::mm(wide(dy).t(), y));
    for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_TRUE(at::equal(kept[i], found[i])) << i;
    kept = found;
  }
}

/// gelu(h) is kept or recomputed: the same bits.
TEST_F(GpuProducts, OfGelusAreLibTorchs) {
  const at::Tensor h = leaf({2, rows(2048), 6400}), weight = leaf({264, 6400}), bias = leaf({264});
  const at::Tensor dy = drawn({2, rows(2048), 264});
  ASSERT_TRUE(has_own_gelu_linear(h, weight, bias));
  for (const bool is_tanh : {true, false}) {
    SCOPED_TRACE(is_tanh);
    const at::Tensor wide_h = wide_leaf(h), wide_weight = wide_leaf(weight),
                     wide_bias = wide_leaf(bias);
    const at::Tensor wide_y =
        at::linear(at::gelu(wide_h, is_tanh ? "tanh" : "none"), wide_weight, wide_bias);
    const auto expected = gradients(wide_y, wide(dy), {wide_h, wide_weight, wide_bias});
    std::vector<at::Tensor> kept;
    for (const bool keeps_result : {true, false}) {
      const at::Tensor y = own_gelu_linear(h, weight, bias, {is_tanh, keeps_result});
      auto found = gradients(y, dy, {h, weight, bias});
      for (std::size_t i = 0; i < found.size(); ++i) expect_near(found[i], expected[i]);
      expect_near(y, wide(wide_y));
      found.push_back(y.detach());
      for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_TRUE(at::equal(kept[i], found[i])) << i;
      kept = found;
    }
  }
}

/// A norm, two linear layers, a GELU between them.
struct Mlp {
  at::Tensor x, weight_C, bias_C, up, up_bias, down, down_bias;

  std::vector<at::Tensor> weights() const {
    return {weight_C, bias_C, up, up_bias, down, down_bias};
  }
  at::Tensor hidden(bool keeps_result) const {
    return own_norm_linears(x, {weight_C, bias_C, 1e-5}, {{up, up_bias}}, keeps_result)[0];
  }
  at::Tensor result(const at::Tensor& h, bool keeps_result) const {
    return own_gelu_linear(h, down, down_bias, {.is_tanh = true, .keeps_result = keeps_result});
  }
  /// Gradients of the weights; the loss is the sum of dy y.
  std::vector<at::Tensor> wide_gradients(const at::Tensor& dy) const {
    std::vector<at::Tensor> all;
    for (const at::Tensor& one : weights()) all.push_back(wide_leaf(one));
    const at::Tensor normed = at::layer_norm(wide(x), {x.size(-1)}, all[0], all[1], 1e-5);
    const at::Tensor hidden = at::gelu(at::linear(normed, all[2], all[3]), "tanh");
    return gradients(at::linear(hidden, all[4], all[5]), wide(dy), all);
  }
};

void run_backward_of_all(const std::vector<at::Tensor>& results,
                         const std::vector<at::Tensor>& of_results) {
  std::vector<torch::autograd::Edge> roots;
  for (const at::Tensor& one : results) roots.push_back(torch::autograd::impl::gradient_edge(one));
  torch::autograd::Engine::get_default_engine().execute(roots, of_results, /*keep_graph=*/false,
                                                        /*create_graph=*/false,
                                                        /*accumulate_grad=*/true);
}

void run_backward(const at::Tensor& y, const at::Tensor& dy) {
  run_backward_of_all({y}, {dy});
}

/// In one graph, where the GELU's backward computes the sums for the layer below; or in two graphs.
TEST_F(GpuProducts, GradientsGoStraightToWhereTheyAddUp) {
  const Mlp mlp{leaf({rows(2048), 264}), leaf({264}), leaf({264}), leaf({1056, 264}), leaf({1056}),
                leaf({264, 1056}),       leaf({264})};
  const at::Tensor dy = drawn({rows(2048), 264});
  const std::vector<at::Tensor> expected = mlp.wide_gradients(dy);
  const Calls column_sums("trireme::column_parts");
  std::vector<at::Tensor> first;
  for (const auto& [is_cut, keeps_result] :
       {std::tuple{false, true}, {false, false}, {true, false}}) {
    const GradientSums sums(mlp.weights());
    for (const int times : {1, 2}) {
      const at::Tensor h = mlp.hidden(keeps_result);
      const at::Tensor from = is_cut ? h.detach().set_requires_grad(true) : h;
      run_backward(mlp.result(from, keeps_result), dy);
      if (is_cut) run_backward(h, from.grad());
      EXPECT_EQ(Calls::take(),
                (is_cut ? 2 : 1) * (is_emulated() ? 2 : 1));  // emulated: the CPU calls it, too
      for (std::size_t i = 0; i < expected.size(); ++i) {
        SCOPED_TRACE(i);
        expect_near(sums.of(i), times * expected[i], 8e-3);
        EXPECT_FALSE(mlp.weights()[i].grad().defined());
      }
    }
    std::vector<at::Tensor> found;
    for (std::size_t i = 0; i < expected.size(); ++i) found.push_back(sums.of(i).clone());
    for (std::size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(at::equal(first[i], found[i])) << i;
    first = found;
  }
}

/// Accumulated gradients are not rounded to bfloat16 before they are added.
TEST_F(GpuProducts, AreAddedInFloat32) {
  const at::Tensor x = leaf({rows(4096), 264}), weight = leaf({128, 264}), bias = leaf({128});
  const at::Tensor dy = drawn({rows(4096), 128});
  GradientSums sums({weight, bias});
  for (int times = 0; times < 3; ++times) {
    if (times == 1) sums.begin_anew();
    run_backward(linear(x, weight, bias), dy);
  }
  expect_near(sums.of(0), 2 * at::mm(wide(dy).t(), wide(x)), 1e-5);
  expect_near(sums.of(1), 2 * wide(dy).sum(0), 1e-5);
}

/// Gradients of a norm's weight and bias, and of the biases of its linear layers. For a bias that
/// two of these share, the second gradient is added to the first.
TEST_F(GpuProducts, OfANodeAddUpTheirPartsInOneLaunch) {
  const at::Tensor x = leaf({rows(2048), 264}), of_result = drawn({rows(2048), 128});
  const std::vector<at::Tensor> leaves{leaf({264}), leaf({264}), leaf({128}), leaf({128})};
  std::vector<at::Tensor> products(3);
  for (at::Tensor& one : products) one = leaf({128, 264});
  const Calls launches("trireme::sum_parts_");
  for (const bool is_shared : {false, true}) {
    SCOPED_TRACE(is_shared);
    std::vector<LinearWeights> linears;
    for (int i = 0; i < 3; ++i)
      linears.push_back({products[i], i < 2 ? leaves[2 + i] : at::Tensor()});
    if (is_shared) linears[2].bias_O = leaves[2];
    GradientSums sums(leaves);
    sums.begin_anew();
    auto results = own_norm_linears(x, {leaves[0], leaves[1], 1e-5}, linears, true);
    results.pop_back();
    run_backward_of_all(results, {of_result, 2 * of_result, 4 * of_result});
    EXPECT_EQ(Calls::take(), (is_shared ? 2 : 1) * (is_emulated() ? 2 : 1));
    expect_near(sums.of(2), (is_shared ? 5 : 1) * wide(of_result).sum(0), 1e-5);
    expect_near(sums.of(3), 2 * wide(of_result).sum(0), 1e-5);
  }
}

/// Queries, keys and values: the same bits as LibTorch's views, whose gradient takes one more read.
TEST_F(GpuProducts, OfPartsByHeadsAreThoseOfOneTensor) {
  constexpr std::int64_t kHeads = 4, kWidth = 128;
  const at::Tensor x = leaf({2, rows(1024), 64}), of_each = drawn({3, 2, rows(1024), kWidth});
  const std::vector<at::Tensor> leaves{leaf({64}), leaf({64}), leaf({3 * kWidth, 64}),
                                       leaf({3 * kWidth})};
  const Calls reads("trireme::column_parts");
  const auto found = [&](bool are_own, bool has_last) {
    const at::Tensor qkv = own_norm_linears(x, {leaves[0], leaves[1], 1e-5},
                                            {{leaves[2], leaves[3]}}, /*keeps_result=*/true)[0];
    const auto each = are_own ? queries_keys_values(qkv, kHeads)
                              : qkv.unflatten(2, at::IntArrayRef{3, kHeads, -1}).unbind(2);
    at::Tensor all = (each[0].flatten(2) * of_each[0] + each[1].flatten(2) * of_each[1]);
    if (has_last) all = all + each[2].flatten(2) * of_each[2];
    return gradients(all, at::ones_like(all), {x, leaves[0], leaves[1], leaves[2], leaves[3]});
  };
  for (const bool has_last : {true, false}) {
    const auto expected = found(false, has_last);
    EXPECT_EQ(Calls::take(), is_emulated() ? 2 : 1);
    const auto ours = found(true, has_last);
    EXPECT_EQ(Calls::take(), 0);
    for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_TRUE(at::equal(ours[i], expected[i])) << i;
  }
}

TEST_F(GpuProducts, TheGradientOfTheHeadGoesStraightToItsSum) {
  // Logits of about 1: rounding them to bfloat16 changes probabilities little.
  const at::Tensor x = drawn({rows(2048), 264}, 0.06).set_requires_grad(true);
  const at::Tensor weight = leaf({1000, 264});
  const at::Tensor target =
      at::randint(1000, {rows(2048)}, at::TensorOptions(at::kLong).device(on_gpu()));
  const GradientSums sums({weight});
  const Calls accumulations("trireme::accumulate_");
  run_backward(linear_cross_entropy(x, weight, {target, {}}, /*chunks=*/1),
               at::ones({}, at::TensorOptions(at::kFloat).device(on_gpu())));
  EXPECT_EQ(Calls::take(), 0);
  const at::Tensor wide_weight = wide_leaf(weight);
  const at::Tensor loss = at::cross_entropy_loss(at::linear(wide(x), wide_weight), target);
  expect_near(sums.of(0), gradients(loss, at::ones_like(loss), {wide_weight})[0], 1e-2);

  GradientSums of_masked({weight});
  const at::Tensor few = target.masked_fill(target.remainder(3) == 0, kMasked);
  const at::Tensor share = at::full({}, 1e-3, at::TensorOptions(at::kFloat).device(on_gpu()));
  run_backward(linear_cross_entropy(x, weight, {few, share}, /*chunks=*/1), at::ones_like(share));
  const at::Tensor of_few = at::cross_entropy_loss(at::linear(wide(x), wide_weight), few, {},
                                                   at::Reduction::Sum, kMasked) *
                            1e-3;
  expect_near(of_masked.of(0), gradients(of_few, at::ones_like(of_few), {wide_weight})[0], 1e-2);
}

/// All that the backward needs is saved before the last product.
TEST_F(GpuProducts, ABlockThatIsRunAgainLeavesItsLastOneOut) {
  const ChainModel model = make_gpt(
      {.blocks = 1, .width = 64, .heads = 4, .context = 32, .vocabulary = 104, .grain = "block"});
  Built built(model, Precision::kBfloat16Weights, on_gpu());
  const Values x{drawn({2, 32, 64})};
  const Calls products("aten::linear");
  for (const bool lean : {false, true}) {
    SCOPED_TRACE(lean);
    Context around = context();
    around.lean_tapes = lean;
    Calls::take();
    Outlined outlined = outlined_forward(built.layer(2), x, around, Precision::kBfloat16Weights,
                                         InputGradient::kNeeded);
    EXPECT_EQ(Calls::take(), 4);
    const Tape tape =
        retape(std::move(outlined.outline), built.layer(2), x, around, Precision::kBfloat16Weights);
    EXPECT_EQ(Calls::take(), 3);
  }
}

}  // namespace
}  // namespace trireme::model
