// Split backwards: weight gradients may be deferred, with the bits of whole backwards.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/model/pending_products.h"

#include "built.h"
#include "device/device_products.h"
#include "device/node_pointer.h"
#include "small_chains.h"

#include "trireme/core/error.h"
#include "trireme/model/gradient_sums.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include <functional>
#include <limits>
#include <memory>
#include <optional>

namespace trireme::model {
namespace {

constexpr int kCount = 3;  // micro-batches

enum class Taping { kWhole, kLean, kAgain };
/// When pending products are added: after each layer's backward, each micro-batch's, or all of
/// them.
enum class Order { kLayers, kMicroBatches, kEnd };

struct Chain {
  std::string name;
  ChainModel model;
  Precision precision = Precision::kFloat32;
};

void PrintTo(const Chain& each, std::ostream* out) {
  *out << each.name;
}

/// A chain whose layers share one GradientSums, or have one each.
class Trained {
 public:
  Trained(const Chain& chain, bool is_streamed)
      : built_(chain.model, chain.precision), precision_(chain.precision) {
    std::vector<at::Tensor> all;
    for (const auto& layer : built_.layers) {
      std::vector<at::Tensor> own;
      for (const Parameter& parameter : layer->parameters())
        if (parameter.is_trained) (is_streamed ? own : all).push_back(parameter.value);
      add_sums(own);
    }
    add_sums(all);
  }

  Tape tape(int number, const Values& x, const Context& context, Taping taping) {
    Layer& layer = built_.layer(number);
    const InputGradient wanted = input_gradient(built_.model, number);
    if (taping != Taping::kAgain) return taped_forward(layer, x, context, precision_, wanted);
    Outlined first = outlined_forward(layer, x, context, precision_, wanted);
    Tape again = retape(std::move(first.outline), layer, x, context, precision_);
    again.outputs = std::move(first.outputs);
    return again;
  }

  /// Runs all micro-batches; without an order by whole backwards. Returns the gradients of all
  /// layers' inputs.
  Values run(Taping taping, std::optional<Order> order) {
    Values found;
    std::vector<PendingProducts> pending;
    const auto add = [&] {
      for (PendingProducts& each : pending) each.add();
      pending.clear();
    };
    for (std::uint64_t micro_batch = 0; micro_batch < kCount; ++micro_batch) {
      const Examples examples(built_.model, 3, micro_batch);
      std::vector<Tape> tapes;
      Values x{examples.input};
      for (int i = 1; i <= built_.model.length(); ++i) {
        const bool is_last = i == built_.model.length();
        Context around = context(true, is_last ? Values{examples.target} : Values{});
        around.lean_tapes = taping == Taping::kLean;
        tapes.push_back(tape(i, x, around, taping));
        x = tapes.back().outputs;
      }
      Values gradients{at::full_like(x.at(0), 0.25)};
      for (; !tapes.empty(); tapes.pop_back()) {
        if (order) {
          SplitBackward split =
              backward_input(std::move(tapes.back()), gradients, sums_of(tapes.size()));
          gradients = std::move(split.input_gradients);
          ++(split.pending.empty() ? empty_ : waiting_);
          pending.push_back(std::move(split.pending));
          if (order == Order::kLayers) add();
        } else {
          gradients = backward(std::move(tapes.back()), gradients);
        }
        found.insert(found.end(), gradients.begin(), gradients.end());
      }
      if (order == Order::kMicroBatches) add();
    }
    add();
    for (const auto& each : sums_) {
      each->complete();
      found.push_back(each->flat());
    }
    return found;
  }

  int waiting() const { return waiting_; }
  int empty() const { return empty_; }

 private:
  void add_sums(const std::vector<at::Tensor>& weights) {
    GradientSums& sums = *sums_.emplace_back(std::make_unique<GradientSums>(weights));
    // Adding where it should overwrite leaves NaN.
    for (std::size_t i = 0; i < weights.size(); ++i)
      at::Tensor(sums.of(i)).fill_(std::numeric_limits<float>::quiet_NaN());
    sums.begin_anew();
  }
  std::vector<GradientSums*> sums_of(std::size_t layer) const {
    return {sums_[layer - 1].get(), sums_.back().get()};
  }

  Built built_;
  Precision precision_;
  std::vector<std::unique_ptr<GradientSums>> sums_;
  int waiting_ = 0, empty_ = 0;  ///< split backwards that deferred something, or nothing
};

void expect_equal(const Values& found, const Values& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(at::equal(found[i], expected[i])) << i;
    EXPECT_TRUE(found[i].isfinite().all().item<bool>()) << i;
  }
}

config::GptSpec lora_spec() {
  config::GptSpec spec{.blocks = 1, .width = 12, .heads = 3, .context = 5, .vocabulary = 11};
  spec.lora_rank = 2;
  return spec;
}

ChainModel tied_gpt(int loss_chunks) {
  config::GptSpec spec{.blocks = 1, .width = 12, .heads = 3, .context = 5, .vocabulary = 11};
  spec.tied_head = true;
  spec.loss_chunks = loss_chunks;
  return make_gpt(spec);
}

ChainModel small_mlp(bool batch_norm) {
  return make_mlp(
      {.inputs = 30, .widths = {24, 16}, .classes = 5, .batch_norm = batch_norm, .dropout = 0.1});
}

class SplitOf : public testing::TestWithParam<Chain> {};

TEST_P(SplitOf, GivesTheBitsOfWholeBackwards) {
  for (const Taping taping : {Taping::kWhole, Taping::kLean, Taping::kAgain}) {
    for (const bool is_streamed : {false, true}) {
      const Values expected = Trained(GetParam(), is_streamed).run(taping, std::nullopt);
      for (const Order order : {Order::kLayers, Order::kMicroBatches, Order::kEnd}) {
        SCOPED_TRACE(testing::Message()
                     << static_cast<int>(taping) << is_streamed << static_cast<int>(order));
        Trained split(GetParam(), is_streamed);
        expect_equal(split.run(taping, order), expected);
        // Autocast casts weights: their products cannot reach a sum.
        EXPECT_EQ(split.waiting() > 0, GetParam().precision != Precision::kBfloat16);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Chains, SplitOf,
    testing::Values(
        Chain{"gpt", small_gpt("block")}, Chain{"gpt_half", small_gpt("half_block")},
        Chain{"gpt_fine", small_gpt("fine")}, Chain{"gpt_tied", tied_gpt(1)},
        Chain{"gpt_tied_chunks", tied_gpt(2)}, Chain{"gpt_lora", make_gpt(lora_spec())},
        Chain{"gpt_bfloat16", small_gpt("block"), Precision::kBfloat16},
        Chain{"gpt_bfloat16_weights", small_gpt("block"), Precision::kBfloat16Weights},
        Chain{"gpt_lora_bfloat16_weights", make_gpt(lora_spec()), Precision::kBfloat16Weights},
        Chain{"llama", small_llama("block")}, Chain{"llama_fine", small_llama("fine")},
        Chain{"decoder", small_decoder("block")}, Chain{"decoder_fine", small_decoder("fine")},
        Chain{"windowed_decoder", small_windowed_decoder("half_block")},
        Chain{"llama_bfloat16_weights", small_llama("block"), Precision::kBfloat16Weights},
        Chain{"vit", small_vit()}, Chain{"vgg", small_vgg()}, Chain{"resnet18", small_resnet18()},
        Chain{"mlp", small_mlp(false)}, Chain{"mlp_batch_norm", small_mlp(true)},
        Chain{"mlp_batch_norm_bfloat16_weights", small_mlp(true), Precision::kBfloat16Weights}),
    [](const auto& each) { return each.param.name; });

TEST(Split, LeavesTheProductsOfTrainedWeightsAlone) {
  for (const Precision precision : {Precision::kFloat32, Precision::kBfloat16Weights}) {
    Trained whole({"", small_gpt("block"), precision}, false);
    whole.run(Taping::kWhole, Order::kEnd);
    EXPECT_EQ(whole.waiting(), kCount) << "the block's; embedding and head leave none";
    EXPECT_EQ(whole.empty(), 2 * kCount);
  }

  config::GptSpec spec{.blocks = 1, .width = 12, .heads = 3, .context = 5, .vocabulary = 11};
  spec.trained = {"*norm*", "*bias", "embedding.*", "head.*"};
  Trained frozen({"", make_gpt(spec)}, false);
  frozen.run(Taping::kWhole, Order::kEnd);
  EXPECT_EQ(frozen.waiting(), 0);
}

/// second(first(x)), each a product with a weight.
class Two final : public Layer {
 public:
  Values forward(const Values& input, const Context&) override {
    at::Tensor h = model::linear(input[0], first, {});
    if (between) h = between(h);
    return {model::linear(h, second, {})};
  }
  at::Tensor first = add_parameter("first", at::eye(4)),
             second = add_parameter("second", at::eye(4));
  std::function<at::Tensor(const at::Tensor&)> between;
};

Tape tape_of(Two& layer, const at::Tensor& x) {
  return taped_forward(layer, {x}, context(), Precision::kFloat32, InputGradient::kNeeded);
}

SplitBackward split_of(Two& layer, const at::Tensor& x, const at::Tensor& dy, GradientSums& sums) {
  return backward_input(tape_of(layer, x), {dy}, {&sums});
}

TEST(Split, MakesProductsAtOnceForSumsThatAreNotNamed) {
  Two layer;
  const GradientSums own({layer.first});
  GradientSums other({layer.second});
  SplitBackward split = split_of(layer, at::ones({3, 4}), at::ones({3, 4}), other);
  EXPECT_TRUE(at::equal(own.of(0), at::full({4, 4}, 3.0)));
  EXPECT_TRUE(at::equal(other.of(0), at::zeros({4, 4})));
  split.pending.add();
  EXPECT_TRUE(at::equal(other.of(0), at::full({4, 4}, 3.0)));
  EXPECT_TRUE(at::equal(own.of(0), at::full({4, 4}, 3.0)));
}

TEST(PendingProducts, HoldTheirFactorsUntilTheyAreAddedOrDropped) {
  Two layer;
  GradientSums sums({layer.first, layer.second});
  const at::Tensor x = at::ones({3, 4}), dy = at::ones({3, 4});
  const auto holders = [&] { return x.storage().use_count() * 100 + dy.storage().use_count(); };
  ASSERT_EQ(holders(), 101);
  {
    SplitBackward split = split_of(layer, x, dy, sums);
    split.input_gradients.clear();
    EXPECT_EQ(holders(), 202);
    EXPECT_FALSE(split.pending.empty());
    split.pending.add();
    EXPECT_EQ(holders(), 101);
    EXPECT_TRUE(split.pending.empty());
    split.pending.add();
    EXPECT_TRUE(at::equal(sums.of(0), at::full({4, 4}, 3.0))) << "once";
  }
  { const SplitBackward dropped = split_of(layer, x, dy, sums); }
  EXPECT_EQ(holders(), 101);
  EXPECT_TRUE(at::equal(sums.of(0), at::full({4, 4}, 3.0))) << "what is dropped is never added";
}

TEST(PendingProducts, LetGoOfEachPairBeforeTheNext) {
  Two layer;
  GradientSums of_first({layer.first}), of_second({layer.second});
  std::vector<float> bytes(12, 1.0F);
  std::optional<float> of_first_then;  // set when the second product's factor, used first, is freed
  at::Tensor dy = at::from_blob(
      bytes.data(), {3, 4}, [&](void*) { of_first_then = of_first.of(0).sum().item<float>(); },
      at::kFloat);
  Tape tape = tape_of(layer, at::ones({3, 4}));
  SplitBackward split =
      backward_input(std::move(tape), {std::exchange(dy, {})}, {&of_first, &of_second});
  EXPECT_FALSE(of_first_then.has_value());
  split.pending.add();
  ASSERT_TRUE(of_first_then.has_value());
  EXPECT_EQ(*of_first_then, 0);
  EXPECT_EQ(of_first.of(0).sum().item<float>(), 48);
}

template <class Pointer>
auto weak(const Pointer& node) {
  if constexpr (kSharesNodes)
    return std::weak_ptr(node);
  else
    return c10::weak_intrusive_ptr(node);
}

TEST(PendingProducts, HoldNoGraph) {
  Two layer;
  GradientSums sums({layer.first, layer.second});
  std::function<bool()> is_gone;  // the node of the first product, the second's factor
  layer.between = [&](const at::Tensor& h) {
    is_gone = [below = weak(h.grad_fn())] { return below.expired(); };
    return h;
  };
  const SplitBackward split = split_of(layer, at::ones({3, 4}), at::ones({3, 4}), sums);
  EXPECT_FALSE(split.pending.empty());
  EXPECT_TRUE(is_gone());
}

TEST(PendingProducts, RefuseFactorsThatWereChanged) {
  Two layer;
  GradientSums sums({layer.first, layer.second});
  const at::Tensor dy = at::ones({3, 4});
  SplitBackward split = split_of(layer, at::ones({3, 4}), dy, sums);
  dy.add_(1);
  EXPECT_THROW(split.pending.add(), c10::Error);
}

TEST(PendingProducts, RefuseSumsThatAreGone) {
  Two layer;
  std::optional<GradientSums> sums(std::in_place, std::vector{layer.first, layer.second});
  SplitBackward split = split_of(layer, at::ones({3, 4}), at::ones({3, 4}), *sums);
  sums.reset();
  EXPECT_THROW(split.pending.add(), Error);
}

struct Throws : torch::autograd::Function<Throws> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list&) {
    throw std::runtime_error("on purpose");
  }
};

TEST(Split, ThatThrowsLeavesLaterBackwardsWhole) {
  Two layer;
  GradientSums sums({layer.first, layer.second});
  layer.between = [](const at::Tensor& h) { return Throws::apply(h); };
  EXPECT_THROW(split_of(layer, at::ones({3, 4}), at::ones({3, 4}), sums), std::runtime_error);
  layer.between = nullptr;
  EXPECT_TRUE(at::equal(sums.of(1), at::zeros({4, 4})));
  backward(tape_of(layer, at::ones({3, 4})), {at::ones({3, 4})});
  EXPECT_TRUE(at::equal(sums.of(0), at::full({4, 4}, 3.0)));
  EXPECT_TRUE(at::equal(sums.of(1), at::full({4, 4}, 3.0)));
}

TEST(Split, BeginsSumsAnewWhenItsProductsComeFirst) {
  Two layer;
  GradientSums sums({layer.first, layer.second});
  backward(tape_of(layer, at::ones({3, 4})), {at::full({3, 4}, 9.0)});
  sums.begin_anew();
  SplitBackward split = split_of(layer, at::ones({3, 4}), at::ones({3, 4}), sums);
  EXPECT_EQ(sums.of(0)[0][0].item<float>(), 27) << "nothing is written before its time";
  split.pending.add();
  sums.complete();
  EXPECT_TRUE(at::equal(sums.of(0), at::full({4, 4}, 3.0)));
  EXPECT_TRUE(at::equal(sums.of(1), at::full({4, 4}, 3.0)));
}

}  // namespace
}  // namespace trireme::model
