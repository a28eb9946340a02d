// SPDX-License-Identifier: Apache-2.0
#include "trireme/profile/measure.h"

#include "small_jobs.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include <vector>

namespace trireme::profile {
namespace {

using model::Context;
using model::Values;

constexpr std::int64_t kBallast = 10'000;  // bytes
constexpr int kMicroBatch = 4;
constexpr std::int64_t kWidth = 25;
constexpr Bytes kRow{kMicroBatch * kWidth * 4};

at::Tensor ballast(std::int64_t times = 1) {
  return at::empty({times * kBallast}, at::kByte);
}

/// A copy of x, whose backward allocates three times the ballast in addition to the new gradient.
struct Heavy : torch::autograd::Function<Heavy> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list& gradients) {
    const at::Tensor heavy = ballast(3);
    return {gradients[0].clone()};
  }
};

/// Allocates the ballast in its forward and three times as much in its backward.
class Weighted final : public model::Layer {
 public:
  Weighted() { weight_ = add_parameter("weight", at::ones({1})); }
  Values forward(const Values& input, const Context&) override {
    const at::Tensor light = ballast();
    return {Heavy::apply(input[0])};
  }

 private:
  at::Tensor weight_;
};

/// A copy of x, whose graph keeps the ballast beside the tensors that autograd saves.
struct Keeping : torch::autograd::Function<Keeping> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->saved_data["ballast"] = ballast();
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list& gradients) {
    return {gradients[0].clone()};
  }
};

class Keeper final : public model::Layer {
 public:
  Values forward(const Values& input, const Context&) override {
    return {Keeping::apply(input[0]).sigmoid()};
  }
};

/// Passes its input on unchanged.
class Same final : public model::Layer {
 public:
  Values forward(const Values& input, const Context&) override { return input; }
};

/// One number for the loss.
class Loss final : public model::Layer {
 public:
  Loss() { weight_ = add_parameter("weight", at::ones({1})); }
  Values forward(const Values& input, const Context&) override {
    return {(input[0] * weight_).mean()};
  }

 private:
  at::Tensor weight_;
};

/// x + weight; counts how many were built and how many are alive.
class Counted final : public model::Layer {
 public:
  struct Count {
    int built = 0, alive = 0, most_alive = 0;
  };
  explicit Counted(Count& count) : count_(count) {
    weight_ = add_parameter("weight", at::ones({1}));
    ++count_.built;
    count_.most_alive = std::max(count_.most_alive, ++count_.alive);
  }
  ~Counted() override { --count_.alive; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  Values forward(const Values& input, const Context&) override { return {input[0] + weight_}; }

 private:
  Count& count_;
  at::Tensor weight_;
};

model::ChainModel chain_of(std::vector<model::LayerRecipe> layers) {
  return {.name = "chain",
          .layers = std::move(layers),
          .input = model::InputKind::kVectors,
          .input_size = kWidth,
          .classes = 2};
}

template <class L>
model::LayerRecipe recipe(const std::string& name) {
  return {.name = name, .build = [](const model::Seeds&) { return std::make_unique<L>(); }};
}

model::LayerRecipe counted(Counted::Count& count, const std::string& name,
                           const std::string& kind) {
  return {.name = name,
          .build = [&count](const model::Seeds&) { return std::make_unique<Counted>(count); },
          .kind = kind};
}

config::JobSpec some_job() {
  return job_of(config::MlpSpec{}, kMicroBatch);
}

TEST(Transients, AreWhatAPassTakesForAMoment) {
  Counted::Count count;
  const chain::Chain chain = measure(
      chain_of({counted(count, "first", ""), recipe<Weighted>("weighted"), recipe<Loss>("loss")}),
      some_job(), quick());

  const chain::LayerCost& cost = chain.layer(2);
  EXPECT_EQ(cost.output, kRow);
  EXPECT_EQ(cost.tape, kRow);
  EXPECT_EQ(cost.forward_transient, Bytes(kBallast));
  EXPECT_EQ(cost.tape_transient, Bytes(kBallast));
  // The output is freed when the backward begins; the new gradient is as large.
  EXPECT_EQ(cost.backward_transient, Bytes(3 * kBallast));
}

TEST(Tape, IsToldFromWhatOfItStaysWhereItMoves) {
  Counted::Count count;
  const chain::Chain chain = measure(
      chain_of({counted(count, "first", ""), recipe<Keeper>("keeper"), recipe<Loss>("loss")}),
      some_job(), quick());

  EXPECT_EQ(chain.layer(1).tape_stays, Bytes(0));
  const chain::LayerCost& cost = chain.layer(2);
  EXPECT_EQ(cost.tape, kRow + Bytes(kBallast));
  EXPECT_EQ(cost.tape_stays, Bytes(kBallast));
}

TEST(Output, ThatIsHandedThroughIsACopyOfItsInput) {
  Counted::Count count;
  const chain::Chain chain =
      measure(chain_of({counted(count, "first", ""), recipe<Same>("same"), recipe<Loss>("loss")}),
              some_job(), quick());

  EXPECT_EQ(chain.layer(2).output, kRow);
  EXPECT_EQ(chain.layer(2).tape, kRow);
  EXPECT_EQ(chain.layer(2).forward_transient, Bytes(0));
}

TEST(EqualLayers, AreMeasuredOnce) {
  Counted::Count count;
  std::vector<model::LayerRecipe> layers;
  for (int i = 0; i < 6; ++i) layers.push_back(counted(count, concat("l", i), "counted"));
  layers.push_back(recipe<Loss>("loss"));
  std::vector<int> measured_layers;
  MeasureOptions options = quick();
  options.progress = [&](int number, const chain::LayerCost&, bool measured) {
    if (measured) measured_layers.push_back(number);
  };

  const chain::Chain chain = measure(chain_of(std::move(layers)), some_job(), options);

  // Layer 1 computes no input gradient, so it is equal to no other.
  EXPECT_EQ(measured_layers, (std::vector{1, 2, 7}));
  EXPECT_EQ(count.built, 2);
  for (int i = 3; i <= 6; ++i) {
    chain::LayerCost cost = chain.layer(i);
    EXPECT_EQ(cost.name, concat("l", i - 1));
    cost.name = chain.layer(2).name;
    EXPECT_EQ(cost, chain.layer(2)) << i;
  }
}

TEST(EqualLayers, AreMeasuredOnceWhateverTheyHandOn) {
  config::GptSpec spec{.blocks = 3, .width = 8, .heads = 2, .context = 4, .vocabulary = 10};
  spec.grain = "fine";
  config::JobSpec job = job_of(spec, 2);
  std::vector<int> measured_layers;
  MeasureOptions options = quick();
  options.progress = [&](int number, const chain::LayerCost&, bool measured) {
    if (measured) measured_layers.push_back(number);
  };

  const chain::Chain chain = measure(model::make_model(job.model), job, options);

  EXPECT_EQ(measured_layers, (std::vector{1, 2, 3, 4, 5, 6, 17}));  // one block and both ends
  // Consecutive blocks: the bytes are those of a chain of one block.
  spec.blocks = 1;
  job.model = spec;
  const chain::Chain one = measured(job);
  for (int i = 2; i <= 6; ++i) {
    EXPECT_EQ(chain.layer(i + 10).tape, one.layer(i).tape);
    EXPECT_EQ(chain.layer(i + 10).output, one.layer(i).output);
    EXPECT_EQ(chain.layer(i + 10).backward_transient, one.layer(i).backward_transient);
  }
  EXPECT_EQ(chain.layer(17).tape, one.layer(7).tape);
}

TEST(EqualLayers, WithoutAKindAreNotKnownToBeEqual) {
  Counted::Count count;
  const model::ChainModel model = chain_of({counted(count, "a", ""), counted(count, "b", ""),
                                            counted(count, "c", ""), recipe<Loss>("loss")});

  measure(model, some_job(), quick());

  EXPECT_EQ(count.built, 3);
}

TEST(Measuring, HoldsOneLayerAtATime) {
  Counted::Count count;
  const model::ChainModel model = chain_of({counted(count, "a", ""), counted(count, "b", ""),
                                            counted(count, "c", ""), recipe<Loss>("loss")});

  measure(model, some_job(), quick());

  EXPECT_EQ(count.most_alive, 1);
}

TEST(Measuring, IsTheSameInBytesEveryTime) {
  const config::JobSpec job = job_of(
      config::GptSpec{
          .blocks = 2, .width = 32, .heads = 2, .context = 16, .vocabulary = 40, .dropout = 0.1},
      4);
  chain::Chain first = measured(job), second = measured(job);

  for (chain::Chain* chain : {&first, &second}) {
    for (chain::LayerCost& layer : chain->layers) {
      EXPECT_GT(layer.forward.count(), 0) << layer.name;
      EXPECT_GT(layer.backward.count(), 0) << layer.name;
      EXPECT_GT(layer.update.count(), 0) << layer.name;
      ASSERT_TRUE(layer.retape) << layer.name;
      EXPECT_GT(layer.retape->time.count(), 0) << layer.name;
      layer.forward = layer.backward = layer.update = layer.retape->time = Seconds(0);
      if (!layer.split) continue;
      EXPECT_GT(layer.split->weights.count(), 0) << layer.name;
      layer.split->weights = Seconds(0);
    }
  }
  EXPECT_EQ(first, second);
}

TEST(Measuring, TimesEveryLayerOnceWhereSharesMeasureTogether) {
  const config::JobSpec job =
      job_of(config::MlpSpec{.inputs = 8, .widths = {4, 5, 6, 7}, .classes = 2}, 2);
  const model::ChainModel model = model::make_model(job.model);
  const chain::Chain whole = measured(job);
  std::vector<chain::Chain> shares;
  for (int share = 0; share < 3; ++share) {
    MeasureOptions options = quick();
    options.share = share;
    options.shares = 3;
    shares.push_back(measure(model, job, options));
  }
  for (std::size_t i = 0; i < whole.layers.size(); ++i) {
    int timed = 0;
    for (chain::Chain& share : shares) {
      chain::LayerCost cost = share.layers[i];
      timed += cost.forward > Seconds(0) && cost.backward > Seconds(0) ? 1 : 0;
      cost.forward = whole.layers[i].forward;
      cost.backward = whole.layers[i].backward;
      cost.update = whole.layers[i].update;
      cost.retape->time = whole.layers[i].retape->time;
      cost.split->weights = whole.layers[i].split->weights;
      EXPECT_EQ(cost, whole.layers[i]);
    }
    EXPECT_EQ(timed, 1) << i;
  }
}

TEST(Measuring, EndsWhenAskedTo) {
  MeasureOptions options = quick();
  int asked = 0;
  options.stop_requested = [&] { return ++asked > 3; };
  const config::JobSpec job =
      job_of(config::MlpSpec{.inputs = 4, .widths = {4, 5, 6}, .classes = 2}, 2);

  EXPECT_THROW(measure(model::make_model(job.model), job, options), Interrupted);
}

TEST(Measuring, RepeatsUntilTheSampleIsLongEnough) {
  int between = 0;
  MeasureOptions options = quick();
  options.least_runs = 7;
  options.stop_requested = [&] {
    ++between;
    return false;
  };
  const config::JobSpec job = job_of(config::MlpSpec{.inputs = 4, .widths = {}, .classes = 2}, 2);

  measure(model::make_model(job.model), job, options);

  EXPECT_EQ(between, 1 + 7);  // before the layer, before every run
}

}  // namespace
}  // namespace trireme::profile
