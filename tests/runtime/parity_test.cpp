// Parity with plain LibTorch: one graph per micro-batch, Tensor::backward, no Trireme runtime.
// SPDX-License-Identifier: Apache-2.0
#include "small_runs.h"
#include "state/stage.h"
#include "step/executor.h"
#include "update/optimizer.h"
#include "update/reducer.h"

#include "trireme/comm/local.h"
#include "trireme/runtime/boundary.h"
#include "trireme/runtime/position.h"
#include "trireme/tier/memory.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <mutex>

namespace trireme::runtime {
namespace {

using Gradients = std::map<std::string, at::Tensor>;

/// Gradients of one step's loss, by parameter name, from the layers called one after the other in
/// one autograd graph.
Gradients plain_gradients(const model::ChainModel& model, const config::JobSpec& job,
                          const DataSource& data) {
  std::vector<std::unique_ptr<model::Layer>> layers;
  for (int i = 1; i <= model.length(); ++i) {
    layers.push_back(
        model.layers[static_cast<std::size_t>(i - 1)].build(model::Seeds(job.train.seed, i)));
  }
  const int micro_batches = config::micro_batches(job);
  for (int m = 0; m < micro_batches; ++m) {
    model::Values x = data.input(0, m);
    const model::Context context{.generator = {}, .training = true, .target = data.target(0, m)};
    for (const auto& layer : layers) x = layer->forward(x, context);
    (x[0] * (1.0 / micro_batches)).backward();
  }
  Gradients gradients;
  for (int i = 1; i <= model.length(); ++i) {
    for (const model::Parameter& parameter :
         layers[static_cast<std::size_t>(i - 1)]->parameters()) {
      gradients[model.layers[static_cast<std::size_t>(i - 1)].name + "/" + parameter.name] =
          parameter.value.grad();
    }
  }
  return gradients;
}

/// The same by Trireme, ranks as threads.
Gradients our_gradients(const model::ChainModel& model, const config::JobSpec& job,
                        const DataSource& data, const Split& split) {
  tier::install_cpu_allocator();
  const plan::Plan plan = plan_of(model, job, split);
  program::Program program = plan::compile(plan);
  for (auto& actions : program.ranks) {
    std::erase_if(actions, [](const program::Action& a) {
      return a.op == program::Op::kReduceGradients || a.op == program::Op::kClip ||
             a.op == program::Op::kStep;
    });
  }
  Gradients gradients;
  std::mutex mutex;
  comm::run_local(
      static_cast<int>(plan.stages.size()), {.timeout = Seconds(30), .stop_requested = {}},
      [&](comm::Channel& channel) {
        at::set_num_threads(1);
        const Position position = Position::of(channel.rank(), 1, channel.size());
        std::vector<int> layers;
        for (int i = 1; i <= model.length(); ++i) {
          if (program.rank_of_layer[static_cast<std::size_t>(i)] == channel.rank())
            layers.push_back(i);
        }
        Stage stage(model, layers, job.train.seed);
        Boundary boundary(channel, position.pipeline_group(), program.rank_of_layer);
        Reducer reducer(channel, position, stage);
        Optimizer optimizer(job.train.optimizer, stage);
        Executor executor({stage, boundary, reducer, optimizer},
                          {.seed = job.train.seed, .loss_scale = 1.0 / config::micro_batches(job)});
        const Feed feed{[&](int m) { return data.input(0, m); },
                        [&](int m) { return data.target(0, m); }};
        executor.train(program.ranks[static_cast<std::size_t>(channel.rank())], feed, 0, 0);
        boundary.flush();
        const std::lock_guard lock(mutex);
        for (const StageParameter& parameter : stage.parameters())
          gradients[parameter.name] = parameter.gradient.clone();
      });
  return gradients;
}

class Parity : public testing::TestWithParam<std::tuple<std::vector<int>, bool>> {};

/// Gradients of Trireme, for the test's cut and policy, and of a plain loop.
void expect_plain_gradients(const config::ModelSpec& spec, const Split& split) {
  const config::JobSpec job = small_job(spec);
  const model::ChainModel model = model::make_model(job.model);
  const DataSource data = random_data(model, job);
  at::set_num_threads(1);

  const Gradients plain = plain_gradients(model, job, data);
  const Gradients ours = our_gradients(model, job, data, split);

  ASSERT_EQ(ours.size(), plain.size());
  for (const auto& [name, gradient] : plain)
    EXPECT_TRUE(at::equal(gradient, ours.at(name))) << name;
}

TEST_P(Parity, GradientsOfAGptEqualAPlainLoopBitForBit) {
  const auto& [cut, recompute] = GetParam();
  config::GptSpec gpt = small_gpt();
  gpt.dropout = 0;
  expect_plain_gradients(gpt, {.cut = cut, .recompute = recompute});
}

TEST_P(Parity, GradientsOfAnMlpWithBatchNormEqualAPlainLoopBitForBit) {
  const auto& [cut, recompute] = GetParam();
  config::MlpSpec mlp = small_mlp();
  mlp.dropout = 0;
  mlp.widths = {16, 16, 16, 16, 16};
  expect_plain_gradients(mlp, {.cut = cut, .recompute = recompute});
}

TEST_P(Parity, GradientsOfAResnetEqualAPlainLoopBitForBit) {
  const auto& [cut, recompute] = GetParam();
  const config::ResnetSpec resnet{
      .depth = 18, .image_size = 8, .channels = 3, .classes = 5, .width = 4};
  expect_plain_gradients(resnet, {.cut = cut, .recompute = recompute});
}

INSTANTIATE_TEST_SUITE_P(Splits, Parity,
                         testing::Combine(testing::Values(std::vector<int>{}, std::vector{3},
                                                          std::vector{1, 4}),
                                          testing::Bool()));

/// One AdamW update as in Loshchilov and Hutter 2019, algorithm 2, in double.
double adamw_once(double value, double gradient, const config::OptimizerSpec& spec, double decay) {
  const double m = (1 - spec.beta1) * gradient / (1 - spec.beta1);
  const double v = (1 - spec.beta2) * gradient * gradient / (1 - spec.beta2);
  return value * (1 - spec.learning_rate * decay) -
         spec.learning_rate * m / (std::sqrt(v) + spec.epsilon);
}

TEST(AdamW, FirstStepFollowsThePaper) {
  config::JobSpec job = small_job(config::MlpSpec{.inputs = 4, .widths = {3}, .classes = 2});
  const model::ChainModel model = model::make_model(job.model);
  Stage stage(model, {1, 2}, 5);
  Optimizer optimizer(job.train.optimizer, stage);
  std::vector<at::Tensor> before;
  for (const StageParameter& parameter : stage.parameters()) {
    before.push_back(parameter.value.detach().clone());
    parameter.gradient.normal_();
  }

  optimizer.step(job.train.optimizer.learning_rate);

  for (std::size_t p = 0; p < before.size(); ++p) {
    const StageParameter& parameter = stage.parameters()[p];
    const double decay = parameter.value.dim() >= 2 ? job.train.optimizer.weight_decay : 0;
    for (std::int64_t i = 0; i < before[p].numel(); ++i) {
      const double expected =
          adamw_once(before[p].flatten()[i].item<float>(),
                     parameter.gradient.flatten()[i].item<float>(), job.train.optimizer, decay);
      EXPECT_NEAR(parameter.value.detach().flatten()[i].item<float>(), expected, 1e-6)
          << parameter.name;
    }
  }
}

TEST(LearningRate, WarmsUpThenFallsAlongACosine) {
  config::TrainSpec train;
  train.steps = 101;
  train.optimizer.learning_rate = 1;
  train.schedule = {.kind = "cosine", .warmup_steps = 10, .least_fraction = 0.1};

  EXPECT_DOUBLE_EQ(learning_rate(train, 0), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(train, 9), 1);
  EXPECT_DOUBLE_EQ(learning_rate(train, 10), 1);
  EXPECT_NEAR(learning_rate(train, 55), 0.55, 1e-12);
  EXPECT_NEAR(learning_rate(train, 100), 0.1, 1e-12);
}

TEST(Clipping, ScalesTheGradientToTheNorm) {
  config::JobSpec job = small_job(small_gpt());
  job.train.clip_norm = 1e-3;
  job.train.optimizer = {.kind = "sgd", .learning_rate = 1, .weight_decay = 0, .momentum = 0};
  job.train.schedule.warmup_steps = 0;
  job.train.steps = 1;
  const model::ChainModel model = model::make_model(job.model);
  double moved = 0;
  std::mutex mutex;
  run_small(job, {.cut = {2, 4}}, [&](int rank, Trainer& trainer) {
    for (const StageParameter& parameter : trainer.stage().parameters()) {
      if (!parameter.tie.empty() && rank != 0) continue;  // counted where it is used first
      const auto fresh = model.layers[static_cast<std::size_t>(parameter.layer - 1)].build(
          model::Seeds(job.train.seed, parameter.layer));
      const at::Tensor before =
          fresh->parameters()[static_cast<std::size_t>(parameter.index)].value.detach();
      const std::lock_guard lock(mutex);
      moved += (parameter.value.detach() - before).to(at::kDouble).square().sum().item<double>();
    }
  });

  EXPECT_NEAR(std::sqrt(moved), 1e-3, 1e-6);
}

}  // namespace
}  // namespace trireme::runtime
