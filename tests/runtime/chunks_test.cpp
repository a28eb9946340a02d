// Several chunks on every rank: the bits of one process, whatever placement and order.
// SPDX-License-Identifier: Apache-2.0
#include "simulate/random_programs.h"
#include "small_runs.h"

#include "trireme/schedule/named.h"
#include "trireme/schedule/search.h"
#include "trireme/simulate/validate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

namespace trireme::runtime {
namespace {

void expect_same_run(const RunSummary& run, const RunSummary& reference) {
  EXPECT_EQ(run.parameters_digest, reference.parameters_digest);
  EXPECT_EQ(run.losses_digest, reference.losses_digest);
  EXPECT_EQ(run.validation_loss, reference.validation_loss);
}

/// Sixteen layers, dropout, and a head whose weights are the embedding's.
config::JobSpec job_of(int micro_batches) {
  config::GptSpec model = small_gpt();
  model.blocks = 7;
  model.width = 16;
  config::JobSpec job = small_job(model);
  job.train.steps = 2;
  job.train.batch = 2 * micro_batches;
  return job;
}

/// Layers as evenly as possible over that many chunks.
std::vector<int> even_cut(int layers, int chunks) {
  std::vector<int> ends;
  for (int chunk = 1; chunk < chunks; ++chunk) ends.push_back(chunk * layers / chunks);
  return ends;
}

std::vector<std::string> texts(const schedule::Order& order) {
  std::vector<std::string> texts;
  for (const std::vector<schedule::Pass>& passes : order)
    texts.push_back(schedule::to_text(passes));
  return texts;
}

/// An order for chunks that all take as long, with room for two thirds of what fills the ranks.
schedule::Order searched(const schedule::Placement& placement, int micro_batches, bool splits) {
  const schedule::ChunkCosts costs{.forward = Seconds(1),
                                   .backward = Seconds(splits ? 1 : 2),
                                   .weights = Seconds(splits ? 1 : 0),
                                   .kept = Bytes(1),
                                   .pending = Bytes(splits ? 1 : 0)};
  const auto room = static_cast<std::int64_t>(placement.size()) * 2 / 3 + 1;
  const auto found = schedule::search(
      {.placement = placement,
       .micro_batches = micro_batches,
       .chunks = std::vector(placement.size(), costs),
       .messages = std::vector(placement.size() - 1, Seconds(0.1)),
       .room = std::vector(static_cast<std::size_t>(schedule::ranks_of(placement)), Bytes(room))},
      {.rules = 200, .moves_per_pass = 0});
  return found.value().order;
}

using Shape = std::tuple<int, int, int, bool, bool>;

class Chunks : public testing::TestWithParam<Shape> {};

TEST_P(Chunks, GiveTheBitsOfOneStage) {
  const auto [ranks, per_rank, micro_batches, is_v_shaped, splits] = GetParam();
  const config::JobSpec job = job_of(micro_batches);
  const schedule::Placement placement =
      is_v_shaped ? schedule::v_shaped(ranks, per_rank) : schedule::round_robin(ranks, per_rank);
  const int layers = model::make_model(job.model).length();

  const RunSummary run =
      run_small(job, {.cut = even_cut(layers, static_cast<int>(placement.size())),
                      .schedule = "searched",
                      .ranks = placement,
                      .order = texts(searched(placement, micro_batches, splits))});

  expect_same_run(run, run_small(job, {}));
}

INSTANTIATE_TEST_SUITE_P(Gpt, Chunks,
                         testing::Combine(testing::Values(2, 3, 4), testing::Values(2, 4),
                                          testing::Values(1, 3, 8), testing::Bool(),
                                          testing::Bool()));

class NamedSchedules : public testing::TestWithParam<std::string> {};

TEST_P(NamedSchedules, GiveTheBitsOfOneStage) {
  const schedule::NamedSchedule& named = *schedule::find_schedule(GetParam());
  const config::JobSpec job = job_of(5);
  const int ranks = 2, layers = model::make_model(job.model).length();
  const schedule::Placement placement = schedule::placement_of(named, ranks, 2);

  const RunSummary run =
      run_small(job, {.cut = even_cut(layers, static_cast<int>(placement.size())),
                      .schedule = std::string(named.name),
                      .ranks = placement,
                      .order = texts(schedule::order_of(named, ranks, 2, 5))});

  expect_same_run(run, run_small(job, {}));
}

INSTANTIATE_TEST_SUITE_P(Published, NamedSchedules, testing::ValuesIn(schedule::schedule_names()),
                         [](const auto& name) {
                           std::string text = name.param;
                           std::replace(text.begin(), text.end(), '-', '_');
                           return text;
                         });

// Replicas with all of the optimizer and with a share each, recomputation, batch norm.
TEST(ChunksOfReplicas, GiveTheBitsOfReplicasOfOneStage) {
  const config::JobSpec job = job_of(4);
  const schedule::Placement placement = schedule::v_shaped(2, 2);
  const int layers = model::make_model(job.model).length();
  const RunSummary reference = run_small(job, {.replicas = 2});
  for (const bool shards : {false, true}) {
    for (const bool recompute : {false, true}) {
      expect_same_run(run_small(job, {.cut = even_cut(layers, 4),
                                      .schedule = "searched",
                                      .recompute = recompute,
                                      .replicas = 2,
                                      .ranks = placement,
                                      .order = texts(searched(placement, 2, true)),
                                      .shards = shards}),
                      reference);
    }
  }
}

TEST(ChunksOfOtherModels, GiveTheBitsOfOneStage) {
  const schedule::Placement placement = schedule::v_shaped(2, 2);
  for (const config::ModelSpec& model :
       std::vector<config::ModelSpec>{small_mlp(), with_adapters()}) {
    const config::JobSpec job = small_job(model);
    const int layers = model::make_model(job.model).length();
    expect_same_run(run_small(job, {.cut = even_cut(layers, 4),
                                    .schedule = "searched",
                                    .ranks = placement,
                                    .order = texts(searched(placement, 4, true))}),
                    run_small(job, {}));
  }
}

TEST(ChunksOfASpecialRank, GiveTheBitsOfOneStage) {
  const config::JobSpec job = job_of(5);
  const int layers = model::make_model(job.model).length();
  const RunSummary reference = run_small(job, {});
  for (const schedule::Placement& placement :
       std::vector<schedule::Placement>{{0, 1, 2, 0}, {1, 0, 2, 0}, {0, 1, 0}, {0, 1, 0, 2, 0}}) {
    for (const bool splits : {false, true})
      expect_same_run(run_small(job, {.cut = even_cut(layers, static_cast<int>(placement.size())),
                                      .schedule = "searched",
                                      .ranks = placement,
                                      .order = texts(searched(placement, 5, splits))}),
                      reference);
  }
}

// Whatever the order: any that the validator allows.
TEST(ChunksInAnyOrder, GiveTheBitsOfOneStage) {
  const config::JobSpec job = job_of(3);
  const int layers = model::make_model(job.model).length();
  const RunSummary reference = run_small(job, {});
  int ran = 0;
  for (unsigned seed = 0; seed < 40 && ran < 8; ++seed) {
    simulate::Dice dice(seed);
    const schedule::Placement placement = schedule::v_shaped(dice.roll(2, 3), 2);
    Split split{.cut = even_cut(layers, static_cast<int>(placement.size())),
                .schedule = "searched",
                .ranks = placement,
                .order = texts(simulate::any_order(dice, placement, 3, true))};
    const model::ChainModel model = model::make_model(job.model);
    chain::Chain chain;
    chain.layers.resize(static_cast<std::size_t>(model.length()));
    const chain::Platform platform =
        chain::uniform_platform(schedule::ranks_of(placement), Bytes(0));
    const simulate::Setting setting{.chain = &chain, .platform = &platform, .static_bytes = {}};
    if (simulate::validate(plan::compile(plan_of(model, job, split)), setting)) continue;
    expect_same_run(run_small(job, split), reference);
    ++ran;
  }
  EXPECT_GE(ran, 5);
}

}  // namespace
}  // namespace trireme::runtime
