// Optimizer state offload: where the state is changes no bit of the result.
// SPDX-License-Identifier: Apache-2.0
#include "small_runs.h"
#include "state/state_layout.h"
#include "support/temporary_folder.h"
#include "update/optimizer.h"

#include "trireme/checkpoint/store.h"
#include "trireme/core/text.h"
#include "trireme/runtime/copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace trireme::runtime {
namespace {

using support::TemporaryFolder;

constexpr Bytes kAll{std::int64_t{1} << 40};

config::JobSpec job_of(config::ModelSpec model, const std::string& precision,
                       const std::string& optimizer = "adamw", double momentum = 0.9) {
  config::JobSpec job = small_job(std::move(model));
  job.train.precision = precision;
  job.train.clip_norm = 0.5;
  job.train.optimizer.kind = optimizer;
  job.train.optimizer.momentum = momentum;
  return job;
}

Stage stage_of(const config::ModelSpec& spec, model::Precision precision) {
  const model::ChainModel model = model::make_model(spec);
  std::vector<int> layers;
  for (int i = 1; i <= model.length(); ++i) layers.push_back(i);
  return {model, layers, 1, precision};
}

std::int64_t state_of(const config::OptimizerSpec& spec, const StageParameter& parameter) {
  if (parameter.shares_value || !parameter.is_trained) return 0;
  return 4 * parameter.weight.numel() * state_kinds(spec, parameter).count();
}

TEST(StateLayout, HasEveryNumberOfWhatIsOffloadedOnceInPartsThatAreNoLargerThanAsked) {
  std::mt19937 random(3);
  const config::OptimizerSpec spec;
  for (const auto precision : {model::Precision::kFloat32, model::Precision::kBfloat16Weights}) {
    const Stage stage = stage_of(small_gpt(), precision);
    const std::vector<StageParameter>& parameters = stage.parameters();
    std::int64_t whole = 0;
    for (const StageParameter& parameter : parameters) whole += state_of(spec, parameter);
    for (int trial = 0; trial < 60; ++trial) {
      const Bytes offloaded(std::uniform_int_distribution<std::int64_t>(0, whole)(random));
      const Bytes part(std::uniform_int_distribution<std::int64_t>(1000, 40'000)(random));
      SCOPED_TRACE(concat(offloaded.count(), " in parts of ", part.count()));
      const StateLayout layout = lay_out_state(spec, parameters, offloaded, part);

      std::map<std::size_t, std::int64_t> next;  // number by parameter
      for (std::size_t i = 0; i < parameters.size(); ++i)
        if (layout.offloaded[i].count > 0) next[i] = layout.offloaded[i].begin;
      for (const StatePart& one : layout.parts) {
        EXPECT_LE(one.numbers * 4, part.count());
        std::int64_t end = 0;
        for (const StateSlice& slice : one.slices) {
          EXPECT_EQ(slice.begin, next[slice.parameter]);
          EXPECT_EQ(slice.begin % Row::kAlignment, 0);
          EXPECT_EQ(slice.offset, end);
          next[slice.parameter] += slice.count;
          end += slice.count * state_kinds(spec, parameters[slice.parameter]).count();
        }
        EXPECT_EQ(end, one.numbers);
      }
      std::int64_t found = 0;
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        EXPECT_EQ(layout.held(i).end(),
                  layout.offloaded[i].count > 0 ? layout.offloaded[i].begin : layout.rows[i].end());
        if (layout.offloaded[i].count == 0) continue;
        EXPECT_EQ(next[i], parameters[i].weight.numel());
        found += 4 * layout.offloaded[i].count * state_kinds(spec, parameters[i]).count();
      }
      EXPECT_EQ(layout.room(), Bytes(found));
      EXPECT_GE(found, offloaded.count());
      EXPECT_LT(found - offloaded.count(), Row::kAlignment * 4 * 3);
    }
  }
}

TEST(StateLayout, IsEmptyWhereTheOptimizerHoldsNothing) {
  const Stage stage = stage_of(small_gpt(), model::Precision::kFloat32);
  config::OptimizerSpec spec;
  spec.kind = "sgd";
  spec.momentum = 0;
  EXPECT_TRUE(lay_out_state(spec, stage.parameters(), kAll, Bytes(4096)).parts.empty());
}

// Also with parts so small that three of them hold less than a row of a weight.
TEST(MovedState, GivesTheBitsOfStateOnTheDevice) {
  struct Kind {
    std::string precision, optimizer;
    double momentum;
  };
  for (const Kind& kind :
       {Kind{"float32", "adamw", 0}, Kind{"bfloat16", "adamw", 0},
        Kind{"bfloat16_weights", "adamw", 0}, Kind{"float32", "sgd", 0.9},
        Kind{"bfloat16_weights", "sgd", 0.9}, Kind{"bfloat16_weights", "sgd", 0}}) {
    SCOPED_TRACE(concat(kind.precision, ", ", kind.optimizer, ", ", kind.momentum));
    const config::JobSpec job = job_of(small_gpt(), kind.precision, kind.optimizer, kind.momentum);
    const RunSummary reference = run_small(job, {});
    for (const Bytes offloaded : {kAll, Bytes(60'000), Bytes(9'999), Bytes(1)}) {
      for (const Bytes part : {Bytes(1000), Bytes(7777), Bytes(1 << 20)}) {
        for (const bool to_file : {false, true}) {
          const RunSummary run =
              run_small(job, {.offloaded = offloaded, .part = part, .to_file = to_file});
          EXPECT_GT(run.ranks[0].offloaded_optimizer, Bytes(0));
          EXPECT_EQ(run.parameters_digest, reference.parameters_digest);
          EXPECT_EQ(run.losses_digest, reference.losses_digest);
        }
      }
    }
  }
}

TEST(MovedState, GivesTheBitsForEverySplit) {
  for (const char* const precision : {"float32", "bfloat16_weights"}) {
    const config::JobSpec job = job_of(small_gpt(), precision);
    const RunSummary reference = run_small(job, {}), of_two = run_small(job, {.replicas = 2});
    for (const std::vector<int>& cut : {std::vector<int>{1}, {3}, {1, 4}, {2, 5}}) {
      const RunSummary run = run_small(job, {.cut = cut, .recompute = true, .offloaded = kAll});
      EXPECT_EQ(run.parameters_digest, reference.parameters_digest);
      EXPECT_EQ(run.losses_digest, reference.losses_digest);
      const RunSummary twice = run_small(job, {.cut = cut, .replicas = 2, .offloaded = kAll});
      EXPECT_EQ(twice.parameters_digest, of_two.parameters_digest);
    }
    const RunSummary shared =
        run_small(job, {.cut = {2, 4}, .ranks = {0, 1, 0}, .offloaded = Bytes(20'000)});
    EXPECT_EQ(shared.parameters_digest, reference.parameters_digest);
  }
  // Batch norm's buffers, and adapters of frozen weights.
  for (const config::ModelSpec& model : {config::ModelSpec(small_mlp()), {with_adapters()}}) {
    const config::JobSpec job = job_of(model, "bfloat16_weights");
    EXPECT_EQ(run_small(job, {.cut = {2}, .offloaded = kAll}).parameters_digest,
              run_small(job, {.cut = {2}}).parameters_digest);
  }
}

TEST(MovedState, IsNotOnTheDeviceBetweenUpdates) {
  for (const char* const precision : {"float32", "bfloat16_weights"}) {
    const config::JobSpec job = job_of(small_gpt(), precision);
    const RunSummary held = run_small(job, {});
    const RunSummary moved = run_small(job, {.offloaded = kAll});
    const Stage stage = stage_of(small_gpt(), model::precision_of(precision));
    std::int64_t state = 0;
    for (const StageParameter& parameter : stage.parameters())
      state += state_of(job.train.optimizer, parameter);
    EXPECT_EQ(moved.ranks[0].offloaded_optimizer, Bytes(state));
    EXPECT_EQ(held.ranks[0].static_bytes - moved.ranks[0].static_bytes, Bytes(state));
    EXPECT_EQ(held.ranks[0].peak - moved.ranks[0].peak, Bytes(state));
    EXPECT_EQ(held.ranks[0].offloaded_optimizer, Bytes(0));
  }
}

/// Six steps, with checkpoints after three and at the end.
config::JobSpec long_job(const std::string& precision) {
  config::JobSpec job = job_of(small_gpt(), precision);
  job.train.steps = 6;
  return job;
}

Checkpointing every_three(const std::filesystem::path& folder) {
  Checkpointing checkpoints;
  checkpoints.folder = folder;
  checkpoints.every = 3;
  checkpoints.job = "train: {}\n";
  return checkpoints;
}

TEST(MovedState, IsSavedAndTakenUpLikeAnyOther) {
  for (const char* const precision : {"float32", "bfloat16_weights"}) {
    SCOPED_TRACE(precision);
    const config::JobSpec job = long_job(precision);
    const TemporaryFolder held, moved;
    const RunSummary reference = run_small(job, {}, {}, device::cpu(), every_three(held.path()));
    run_small(job, {.cut = {3}, .offloaded = kAll}, {}, device::cpu(), every_three(moved.path()));
    for (const char* const step : {"step-3", "step-6"}) {
      const checkpoint::Manifest of_held = checkpoint::load_manifest(held / step),
                                 of_moved = checkpoint::load_manifest(moved / step);
      ASSERT_EQ(of_held.tensors.size(), of_moved.tensors.size());
      for (const auto& [name, entry] : of_held.tensors)
        EXPECT_EQ(of_moved.tensors.at(name).digest, entry.digest) << name;
    }
    for (const Split& after :
         {Split{.cut = {2}, .offloaded = kAll, .to_file = true}, Split{.cut = {4}},
          Split{.offloaded = Bytes(50'000), .part = Bytes(900)}}) {
      Checkpointing resumed;
      resumed.resume = moved / "step-3";
      const RunSummary run = run_small(job, after, {}, device::cpu(), resumed);
      EXPECT_EQ(run.parameters_digest, reference.parameters_digest);
      EXPECT_EQ(run.losses_digest, reference.losses_digest);
    }
  }
}

TEST(MovedState, BeginsWithWeightsLikeAnyOther) {
  for (const char* const precision : {"float32", "bfloat16_weights"}) {
    const TemporaryFolder folder;
    config::JobSpec job = job_of(small_gpt(), precision);
    job.weights = train_and_export(job, folder).weights.string();
    EXPECT_EQ(run_small(job, {.cut = {3}, .offloaded = kAll}).parameters_digest,
              run_small(job, {}).parameters_digest);
  }
}

}  // namespace
}  // namespace trireme::runtime
