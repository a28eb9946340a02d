// Sharded optimizer: every number is updated once, and no bit depends on which replica did.
// SPDX-License-Identifier: Apache-2.0
#include "update/shards.h"

#include "small_runs.h"
#include "state/state_layout.h"
#include "support/temporary_folder.h"
#include "update/gradient_norm.h"
#include "update/optimizer.h"

#include "trireme/checkpoint/store.h"
#include "trireme/checkpoint/tensor_file.h"
#include "trireme/comm/local.h"
#include "trireme/core/text.h"
#include "trireme/io/node.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <mutex>
#include <numeric>

namespace trireme::runtime {
namespace {

using support::TemporaryFolder;

constexpr Bytes kAll{std::int64_t{1} << 40};

config::JobSpec job_of(config::ModelSpec model, const std::string& precision = "float32",
                       const std::string& optimizer = "adamw", double momentum = 0.9) {
  config::JobSpec job = small_job(std::move(model));
  job.train.precision = precision;
  job.train.clip_norm = 0.5;
  job.train.optimizer.kind = optimizer;
  job.train.optimizer.momentum = momentum;
  return job;
}

std::vector<int> all_layers(const model::ChainModel& model) {
  std::vector<int> layers(static_cast<std::size_t>(model.length()));
  std::iota(layers.begin(), layers.end(), 1);
  return layers;
}

/// Calls `look` on every member of `members` replicas of one rank, one after the other.
void with_members(int members, const config::ModelSpec& spec,
                  const std::function<void(int, Stage&, Shards&)>& look) {
  const model::ChainModel model = model::make_model(spec);
  std::mutex mutex;
  comm::run_local(members, {.timeout = Seconds(60), .stop_requested = {}},
                  [&](comm::Channel& channel) {
                    Stage stage(model, all_layers(model), 1);
                    Shards shards(channel, comm::everyone(channel), stage);
                    {
                      const std::lock_guard lock(mutex);
                      look(channel.rank(), stage, shards);
                    }
                    channel.close();
                  });
}

bool is_updated(const StageParameter& parameter) {
  return parameter.is_trained && !parameter.shares_value;
}

TEST(Shards, HaveEveryNumberThatIsUpdatedOnceAndEvenlyMany) {
  for (const config::ModelSpec& spec :
       {config::ModelSpec(small_gpt()), {with_adapters()}, {small_mlp()}}) {
    for (const int members : {1, 2, 3, 5, 16}) {
      SCOPED_TRACE(members);
      std::vector<std::vector<Row>> rows(static_cast<std::size_t>(members));
      std::vector<std::int64_t> sizes;
      with_members(members, spec, [&](int member, Stage& stage, Shards& shards) {
        rows[static_cast<std::size_t>(member)] = shards.mine();
        sizes.clear();
        for (const StageParameter& parameter : stage.parameters())
          sizes.push_back(is_updated(parameter) ? parameter.weight.numel() : 0);
      });
      const std::int64_t total = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
      std::vector<std::int64_t> ends(sizes.size());
      for (const std::vector<Row>& of_member : rows) {
        std::int64_t numbers = 0;
        for (std::size_t i = 0; i < sizes.size(); ++i) {
          numbers += of_member[i].count;
          if (of_member[i].count == 0) continue;
          EXPECT_EQ(of_member[i].begin, ends[i]);
          EXPECT_EQ(of_member[i].begin % Row::kAlignment, 0);
          ends[i] = of_member[i].end();
        }
        EXPECT_LE(numbers, total / members + 1 + Row::kAlignment);
      }
      EXPECT_EQ(ends, sizes);
    }
  }
}

/// A number that encodes the parameter, the index in it, and the member whose addend it is.
float addend(std::size_t parameter, std::int64_t number, int member) {
  return static_cast<float>(std::sin(double(parameter) * 1.7 + double(number) * 0.3 + member));
}

void fill_gradients(Stage& stage, int member) {
  for (std::size_t i = 0; i < stage.parameters().size(); ++i) {
    const StageParameter& parameter = stage.parameters()[i];
    if (!parameter.is_trained) continue;
    const at::Tensor row = parameter.gradient.view(-1);
    for (std::int64_t n = 0; n < row.numel(); ++n) row.data_ptr<float>()[n] = addend(i, n, member);
  }
}

/// The sum by number, in the members' order.
float ordered_sum(std::size_t parameter, std::int64_t number, int members) {
  float sum = addend(parameter, number, 0);
  for (int member = 1; member < members; ++member) sum += addend(parameter, number, member);
  return sum;
}

TEST(Shards, AddUpWhatEachOwnsAndHandRoundWhatEachHasUpdated) {
  const model::ChainModel model = model::make_model(small_gpt());
  for (const int members : {2, 3, 5, 11}) {
    comm::run_local(
        members, {.timeout = Seconds(60), .stop_requested = {}}, [&](comm::Channel& channel) {
          Stage stage(model, all_layers(model), 1, model::Precision::kBfloat16Weights);
          Shards shards(channel, comm::everyone(channel), stage);
          fill_gradients(stage, channel.rank());
          shards.sum(0);
          const std::vector<StageParameter>& all = stage.parameters();
          const at::NoGradGuard no_grad;
          for (std::size_t i = 0; i < all.size(); ++i) {
            const Row row = shards.mine()[i];
            for (std::int64_t n = row.begin; n < row.end(); ++n)
              ASSERT_EQ(all[i].gradient.view(-1).data_ptr<float>()[n], ordered_sum(i, n, members))
                  << all[i].name << ", " << n;
            if (row.count > 0)
              all[i]
                  .weight.detach()
                  .view(-1)
                  .narrow(0, row.begin, row.count)
                  .fill_(channel.rank() + 2);
          }
          shards.share(0);
          std::map<float, std::int64_t> found;
          for (const StageParameter& parameter : all) {
            if (!is_updated(parameter)) continue;
            const at::Tensor row = parameter.weight.detach().view(-1).to(at::kFloat).contiguous();
            for (std::int64_t n = 0; n < row.numel(); ++n) ++found[row.data_ptr<float>()[n]];
          }
          // Every member has the numbers of all, and none that was never written.
          std::int64_t mine = 0;
          for (const Row& row : shards.mine()) mine += row.count;
          EXPECT_EQ(found[static_cast<float>(channel.rank() + 2)], mine);
          EXPECT_EQ(found.size(), static_cast<std::size_t>(members));
          channel.close();
        });
  }
}

// Units that are cut get their numbers from all members that have some of them.
TEST(Shards, GiveTheOwnerOfAUnitAllOfItsNumbers) {
  const model::ChainModel model = model::make_model(small_gpt());
  for (const std::int64_t most : {100, 1000, 1 << 20}) {
    for (const int members : {2, 7}) {
      comm::run_local(members, {.timeout = Seconds(60), .stop_requested = {}},
                      [&](comm::Channel& channel) {
                        Stage stage(model, all_layers(model), 1);
                        Shards shards(channel, comm::everyone(channel), stage);
                        fill_gradients(stage, channel.rank());
                        shards.sum(0);
                        const std::vector<StageParameter>& all = stage.parameters();
                        std::vector<bool> counts;
                        for (const StageParameter& parameter : all)
                          counts.push_back(is_updated(parameter));
                        const std::vector<Shards::Unit> units = shards.units(0, counts, most);
                        shards.complete(0, units);
                        const comm::BufferRange mine = shards.owned(0, units)[shards.me()];
                        at::Tensor whose = at::zeros({std::ssize(units)}, at::kDouble);
                        for (std::size_t u = mine.begin; u < mine.begin + mine.size; ++u) {
                          whose[static_cast<std::int64_t>(u)] = channel.rank() + 1;
                          const auto& [i, row] = units[u];
                          for (std::int64_t n = row.begin; n < row.end(); ++n)
                            ASSERT_EQ(all[i].gradient.view(-1).data_ptr<float>()[n],
                                      ordered_sum(i, n, members));
                        }
                        shards.gather(0, units, whose);
                        EXPECT_GE(whose.min().item<double>(), 1);
                        EXPECT_TRUE(at::equal(whose, std::get<0>(whose.sort())));
                        channel.close();
                      });
    }
  }
}

void expect_same(const RunSummary& run, const RunSummary& reference) {
  EXPECT_EQ(run.parameters_digest, reference.parameters_digest);
  EXPECT_EQ(run.losses_digest, reference.losses_digest);
}

TEST(ShardedOptimizer, HasTheBitsOfOneThatEveryReplicaHas) {
  struct Kind {
    std::string precision, optimizer;
    double momentum;
  };
  for (const Kind& kind : {Kind{"float32", "adamw", 0}, Kind{"bfloat16", "adamw", 0},
                           Kind{"bfloat16_weights", "adamw", 0}, Kind{"float32", "sgd", 0.9},
                           Kind{"bfloat16_weights", "sgd", 0.9}, Kind{"bfloat16_weights", "sgd", 0},
                           Kind{"float32", "sgd", 0}}) {
    SCOPED_TRACE(concat(kind.precision, ", ", kind.optimizer, ", ", kind.momentum));
    for (const double clip : {0.0, 0.5}) {
      config::JobSpec job = job_of(small_gpt(), kind.precision, kind.optimizer, kind.momentum);
      job.train.clip_norm = clip;
      for (const int replicas : {2, 4}) {
        const RunSummary reference = run_small(job, {.replicas = replicas});
        expect_same(run_small(job, {.replicas = replicas, .shards = true}), reference);
        expect_same(run_small(job, {.cut = {3}, .replicas = replicas, .shards = true}), reference);
      }
    }
  }
}

TEST(ShardedOptimizer, HasTheseBitsForEveryModelAndSplit) {
  config::GptSpec untied = small_gpt();
  untied.tied_head = false;
  for (const config::ModelSpec& model :
       {config::ModelSpec(small_gpt()), {untied}, {with_adapters()}, {small_mlp()}}) {
    for (const char* const precision : {"float32", "bfloat16_weights"}) {
      const config::JobSpec job = job_of(model, precision);
      const RunSummary reference = run_small(job, {.replicas = 2});
      for (const std::vector<int>& cut : {std::vector<int>{}, {1}, {2, 4}}) {
        if (std::holds_alternative<config::MlpSpec>(model) && cut.size() > 1) continue;
        SCOPED_TRACE(concat(precision, ", ", cut.size() + 1, " stages"));
        for (const Bytes offloaded : {Bytes(0), Bytes(5'000), kAll})
          for (const bool streams : {false, true})
            expect_same(run_small(job, {.cut = cut,
                                        .recompute = streams,
                                        .replicas = 2,
                                        .offloaded = offloaded,
                                        .part = Bytes(3000),
                                        .streams = streams,
                                        .shards = true}),
                        reference);
      }
      const RunSummary shared =
          run_small(job, {.cut = {1, 2}, .replicas = 2, .ranks = {0, 1, 0}, .shards = true});
      EXPECT_EQ(shared.parameters_digest, reference.parameters_digest);
    }
  }
}

// No state is held twice, and sharding adds nothing to the peak.
TEST(ShardedOptimizer, IsOnEachDeviceInPart) {
  for (const char* const precision : {"float32", "bfloat16_weights"}) {
    const config::JobSpec job = job_of(small_gpt(), precision);
    const model::ChainModel model = model::make_model(job.model);
    const Stage stage(model, all_layers(model), 1, model::precision_of(precision));
    std::int64_t state = 0;
    for (const StageParameter& parameter : stage.parameters())
      if (is_updated(parameter))
        state += 4 * parameter.weight.numel() * state_kinds(job.train.optimizer, parameter).count();
    const RunSummary whole = run_small(job, {.replicas = 4}),
                     sharded = run_small(job, {.replicas = 4, .shards = true});
    Bytes held, peaks;
    for (std::size_t rank = 0; rank < 4; ++rank) {
      const Bytes saved = whole.ranks[rank].static_bytes - sharded.ranks[rank].static_bytes;
      EXPECT_GE(saved + chain::kShardSlack, Bytes(state - state / 4));
      held += Bytes(state) - saved;
      peaks += whole.ranks[rank].peak - sharded.ranks[rank].peak;
    }
    EXPECT_EQ(held, Bytes(state));
    EXPECT_EQ(peaks, Bytes(3 * state));
  }
}

Checkpointing every_three(const std::filesystem::path& folder) {
  Checkpointing checkpoints;
  checkpoints.folder = folder;
  checkpoints.every = 3;
  checkpoints.job = "train: {}\n";
  return checkpoints;
}

Checkpointing resumed_from(const std::filesystem::path& checkpoint) {
  Checkpointing resumed;
  resumed.resume = checkpoint;
  return resumed;
}

TEST(ShardedOptimizer, IsSavedInPartsAndTakenUpByAnyReplicas) {
  for (const char* const precision : {"float32", "bfloat16_weights"}) {
    SCOPED_TRACE(precision);
    config::JobSpec job = job_of(small_gpt(), precision);
    job.train.steps = 6;
    const TemporaryFolder whole, parts;
    const RunSummary reference =
        run_small(job, {.replicas = 2}, {}, device::cpu(), every_three(whole.path()));
    expect_same(run_small(job, {.cut = {3}, .replicas = 2, .streams = true, .shards = true}, {},
                          device::cpu(), every_three(parts.path())),
                reference);
    const checkpoint::Manifest saved = checkpoint::load_manifest(parts / "step-3");
    EXPECT_TRUE(std::any_of(saved.tensors.begin(), saved.tensors.end(),
                            [](const auto& one) { return one.second.part_of.has_value(); }));
    const auto tensors = checkpoint::joined(saved);
    const auto expected = checkpoint::joined(checkpoint::load_manifest(whole / "step-3"));
    ASSERT_EQ(tensors.size(), expected.size());
    for (const auto& [name, tensor] : expected) {
      EXPECT_EQ(tensors.at(name).sizes, tensor.sizes) << name;
      EXPECT_EQ(tensors.at(name).type, tensor.type) << name;
    }
    // Resumed with as many replicas, sharded or not, wherever the state is.
    for (const Split& after :
         {Split{.replicas = 2}, Split{.replicas = 2, .shards = true},
          Split{.cut = {2}, .replicas = 2, .offloaded = kAll, .shards = true},
          Split{.replicas = 2, .offloaded = Bytes(9000), .streams = true, .shards = true}})
      expect_same(run_small(job, after, {}, device::cpu(), resumed_from(parts / "step-3")),
                  reference);
    // Resumed with another number of replicas, whose sums have other bits: after the last step, so
    // that the digest is that of what was saved.
    for (const int replicas : {1, 4})
      EXPECT_EQ(run_small(job, {.replicas = replicas, .shards = true}, {}, device::cpu(),
                          resumed_from(parts / "step-6"))
                    .parameters_digest,
                reference.parameters_digest);
  }
}

TEST(ShardedOptimizer, BeginsWithWeightsAndIsExportedLikeAnyOther) {
  const auto bytes_of = [](const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  for (const char* const precision : {"float32", "bfloat16_weights"}) {
    const TemporaryFolder first, whole, parts;
    config::JobSpec job = job_of(small_gpt(), precision);
    job.weights = train_and_export(job, first).weights.string();
    const Trained expected = train_and_export(job, whole, {.replicas = 2});
    for (const bool streams : {false, true}) {
      const TemporaryFolder folder;
      const Trained found =
          train_and_export(job, folder, {.replicas = 2, .streams = streams, .shards = true});
      expect_same(found.summary, expected.summary);
      EXPECT_EQ(bytes_of(found.weights), bytes_of(expected.weights));
    }
  }
}

}  // namespace
}  // namespace trireme::runtime
