// Graphs that are trained by schedules: the bits of keep_all, and the predicted peak, whatever the
// schedule.
// SPDX-License-Identifier: Apache-2.0
#include "small_runs.h"
#include "step/executor.h"

#include "trireme/chain/platform.h"
#include "trireme/comm/local.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/graph/lower.h"
#include "trireme/graph/problem.h"
#include "trireme/poet/solve.h"
#include "trireme/profile/measure_graph.h"
#include "trireme/runtime/copies.h"
#include "trireme/tier/memory.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <variant>

namespace trireme::runtime {
namespace {

config::JobSpec resnet_job(const char* grain, int depth = 18, const char* stem = "3x3") {
  config::JobSpec job = small_job(config::ResnetSpec{
      .depth = depth, .image_size = 16, .width = 8, .stem = stem, .grain = grain});
  job.train.batch = 8;
  job.train.micro_batch = 4;
  job.train.optimizer = {.kind = "sgd", .learning_rate = 1e-2, .momentum = 0.9};
  return job;
}

/// The state after two steps.
struct Numbers {
  std::vector<float> losses;
  std::vector<at::Tensor> parameters, buffers;
  Bytes peak;
};

class Subject {
 public:
  explicit Subject(config::JobSpec job)
      : job_(std::move(job)),
        model_(model::make_model(job_.model)),
        data_(random_data(model_, job_)),
        costs_(profile::measure_graph(model_, job_,
                                      {.threads = 1, .least_time = Seconds(0), .least_runs = 2})) {}
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;

  const graph::Graph& graph() const { return costs_.graph; }
  Bytes fixed() const { return costs_.fixed + costs_.kept; }
  /// Predictions count for every forward what a later one takes, which holds copies of buffers, and
  /// has what the first one saves only while it runs: at most this more.
  Bytes slack() const { return costs_.kept; }

  /// Copies take about as long as computations.
  graph::Problem problem(Bytes memory = {}) const {
    chain::RankSpec rank;
    rank.memory = memory;
    rank.host = Bytes(std::int64_t{1} << 30);
    Seconds time;
    Bytes bytes;
    for (const graph::Node& node : costs_.graph.nodes) {
      time += node.time.value_or(Seconds(0));
      bytes += node.bytes;
    }
    rank.out = rank.in = BytesPerSecond(static_cast<double>(bytes.count()) / time.count());
    return graph::problem_of(costs_.graph, rank, graph::Lanes::kBeside);
  }

  /// The most that a step holds, as predicted.
  Bytes peak_of(const graph::Schedule& schedule) const {
    return fixed() + replay(problem(), schedule).outcome.peak;
  }

  /// Two steps, held to the predicted peak; what is offloaded goes half to memory, half to a file.
  Numbers run(const graph::Schedule& schedule) {
    const graph::Replayed replayed = replay(problem(), schedule);
    ensure(!replayed.fault, replayed.fault ? replayed.fault->reason : "");
    const program::Program program =
        graph::lower(schedule, costs_.graph, config::micro_batches(job_));
    const Bytes room = replayed.outcome.offloaded;
    Numbers numbers;
    comm::run_local(1, {.timeout = Seconds(30)}, [&](comm::Channel& channel) {
      tier::install_cpu_allocator();
      at::set_num_threads(1);
      tier::MemoryAccount& memory = tier::MemoryAccount::open("rank 0");
      memory.set_budget(peak_of(schedule));
      const auto counting = memory.enter();
      std::vector<int> layers;
      for (int i = 1; i <= model_.length(); ++i) layers.push_back(i);
      Stage stage(model_, layers, job_.train.seed);
      Boundary boundary(channel, {0}, program.rank_of_layer, c10::DeviceType::CPU);
      Reducer reducer(channel, Position::of(0, 1, 1), stage);
      Optimizer optimizer(
          job_.train.optimizer, stage,
          lay_out_state(job_.train.optimizer, stage.parameters(), Bytes(0), Bytes(0)), nullptr);
      Copies copies({.host = room / 2, .disk = room - room / 2});
      const GraphShape shape(model_);
      Executor executor({stage, boundary, reducer, optimizer, &copies, device::cpu(), &shape},
                        {.seed = job_.train.seed,
                         .clip_norm = job_.train.clip_norm,
                         .loss_scale = 1.0 / config::micro_batches(job_),
                         .owns_default_generator = true});
      for (const int step : {0, 1}) {
        const Feed feed{[&](int m) { return data_.input(step, m); },
                        [&](int m) { return data_.target(step, m); }};
        const RunResult result = executor.train(program.ranks[0], feed, step, 1e-2);
        numbers.losses.insert(numbers.losses.end(), result.losses.begin(), result.losses.end());
      }
      numbers.peak = memory.peak();
      EXPECT_EQ(copies.offload_used(), Bytes(0)) << "something was left in the offload tier";
      memory.set_budget(Bytes(INT64_MAX));
      for (const StageParameter& parameter : stage.parameters())
        numbers.parameters.push_back(parameter.value.detach().clone());
      for (const int i : layers)
        for (const model::Buffer& buffer : stage.layer(i).buffers())
          numbers.buffers.push_back(buffer.value.clone());
    });
    return numbers;
  }

 private:
  config::JobSpec job_;
  model::ChainModel model_;
  DataSource data_;
  profile::GraphCosts costs_;
};

void expect_same_bits(const Numbers& found, const Numbers& expected, const std::string& where) {
  EXPECT_EQ(found.losses, expected.losses) << where;
  ASSERT_EQ(found.parameters.size(), expected.parameters.size());
  for (std::size_t i = 0; i < found.parameters.size(); ++i)
    EXPECT_TRUE(at::equal(found.parameters[i], expected.parameters[i])) << where << ", " << i;
  for (std::size_t i = 0; i < found.buffers.size(); ++i)
    EXPECT_TRUE(at::equal(found.buffers[i], expected.buffers[i])) << where << ", buffer " << i;
}

/// Bytes that a node holds with its inputs while it is computed, the most.
Bytes widest(const graph::Graph& graph) {
  Bytes most;
  for (const graph::Node& node : graph.nodes) {
    Bytes bytes = node.bytes + node.transient;
    for (const int input : node.inputs) bytes += graph.node(input).bytes;
    most = std::max(most, bytes);
  }
  return most;
}

/// Any schedule that can run: values are dropped, copied out, copied in and computed again at
/// random.
graph::Schedule random_schedule(const graph::Graph& graph, unsigned seed) {
  std::mt19937 random(seed);
  const auto one_in = [&](unsigned n) { return random() % n == 0; };
  const auto nodes = static_cast<std::size_t>(graph.size());
  std::vector<bool> here(nodes), out(nodes), pinned(nodes);
  graph::Schedule schedule;
  const auto take = [&](graph::Op op, int node) { schedule.push_back({op, node}); };
  const std::function<void(int)> bring = [&](int node) {
    const auto at = static_cast<std::size_t>(node);
    if (here[at]) return;
    if (out[at] && !one_in(4)) {
      take(graph::Op::kCopyIn, node);
    } else {
      for (const int input : graph.node(node).inputs) bring(input);
      take(graph::Op::kCompute, node);
    }
    here[at] = true;
  };
  int loss = 0;
  for (int node = 0; node < graph.size(); ++node)
    if (!graph.node(node).is_backward) loss = node;
  for (int node = 0; node < graph.size(); ++node) {
    bring(node);
    if (!out[static_cast<std::size_t>(node)] && node != loss && one_in(3)) {
      take(graph::Op::kCopyOut, node);
      out[static_cast<std::size_t>(node)] = true;
    }
    for (int other = 0; other <= node; ++other) {
      const auto at = static_cast<std::size_t>(other);
      if (!here[at] || !one_in(graph.node(other).bytes > Bytes(0) ? 6 : 1)) continue;
      // Gradients that are gone come back through those before them: a long way.
      if (graph.node(other).is_backward && other == node && !out[at]) continue;
      take(graph::Op::kDrop, other);
      here[at] = false;
    }
  }
  return schedule;
}

struct Case {
  int depth;
  const char* stem;
};

class GraphRuns : public testing::TestWithParam<Case> {
 protected:
  static Subject& subject(const Case& one) {
    static std::map<std::string, std::unique_ptr<Subject>> subjects;
    std::unique_ptr<Subject>& known = subjects[concat(one.depth, one.stem)];
    if (!known) known = std::make_unique<Subject>(resnet_job("operator", one.depth, one.stem));
    return *known;
  }
};

void expect_peak(const Numbers& found, const Subject& subject, const graph::Schedule& schedule,
                 const std::string& where) {
  EXPECT_LE(found.peak, subject.peak_of(schedule)) << where;
  EXPECT_GE(found.peak, subject.peak_of(schedule) - subject.slack()) << where;
}

TEST_P(GraphRuns, KeepAllTakesThePredictedPeak) {
  Subject& subject = this->subject(GetParam());
  const graph::Schedule schedule = keep_all(subject.graph());
  expect_peak(subject.run(schedule), subject, schedule, "keep_all");
}

TEST_P(GraphRuns, AnyScheduleGivesTheBitsOfKeepAllAtItsPeak) {
  Subject& subject = this->subject(GetParam());
  const Numbers expected = subject.run(keep_all(subject.graph()));
  for (unsigned seed = 1; seed <= 6; ++seed) {
    const graph::Schedule schedule = random_schedule(subject.graph(), seed);
    const Numbers found = subject.run(schedule);
    const std::string where = concat("schedule ", seed);
    expect_same_bits(found, expected, where);
    expect_peak(found, subject, schedule, where);
  }
}

TEST_P(GraphRuns, PlansForLessMemoryRunWithinIt) {
  Subject& subject = this->subject(GetParam());
  const graph::Schedule all = keep_all(subject.graph());
  const Numbers expected = subject.run(all);
  const Bytes most = replay(subject.problem(), all).outcome.peak;
  const Bytes least = widest(subject.graph());
  for (const double share : {0.75, 0.5}) {
    const Bytes memory =
        least +
        Bytes(static_cast<std::int64_t>(share * static_cast<double>((most - least).count())));
    const poet::Result result = poet::solve("greedy", subject.problem(memory), {});
    const auto* const solution = std::get_if<poet::Solution>(&result);
    ASSERT_NE(solution, nullptr) << share;
    const Numbers found = subject.run(solution->schedule);
    expect_same_bits(found, expected, to_text(memory));
    EXPECT_LE(found.peak, subject.fixed() + memory);
    EXPECT_LT(found.peak, expected.peak);
  }
}

INSTANTIATE_TEST_SUITE_P(Resnets, GraphRuns,
                         testing::Values(Case{18, "3x3"}, Case{18, "7x7"}, Case{50, "3x3"}),
                         [](const auto& test) {
                           return concat(test.param.depth, "_", test.param.stem);
                         });

// The same operators in the same order.
TEST(GraphRuns, TrainTheModelThatIsAChainOfBlocks) {
  Subject subject(resnet_job("operator"));
  const Numbers as_graph = subject.run(keep_all(subject.graph()));
  std::vector<at::Tensor> as_chain;
  config::JobSpec job = resnet_job("block");
  job.train.steps = 2;
  job.train.schedule.warmup_steps = 0;
  job.train.schedule.kind = "constant";
  run_small(job, {}, [&](int, Trainer& trainer) {
    for (const StageParameter& parameter : trainer.stage().parameters())
      as_chain.push_back(parameter.value.detach().clone());
  });
  ASSERT_EQ(as_graph.parameters.size(), as_chain.size());
  for (std::size_t i = 0; i < as_chain.size(); ++i)
    EXPECT_TRUE(at::equal(as_graph.parameters[i], as_chain[i])) << i;
}

}  // namespace
}  // namespace trireme::runtime
