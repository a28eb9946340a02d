// Activation offload by hand-written programs; and what happens when the offload tier fails.
// SPDX-License-Identifier: Apache-2.0
#include "small_runs.h"
#include "step/executor.h"

#include "trireme/comm/local.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/program/needs.h"
#include "trireme/runtime/copies.h"
#include "trireme/schedule/named.h"
#include "trireme/simulate/place_copies.h"
#include "trireme/tier/memory.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <sstream>

namespace trireme::runtime {
namespace {

using program::Action;

/// "forward_tape 1, drop 1": actions of micro-batch 0.
std::vector<Action> actions_of(const std::string& text) {
  std::vector<Action> actions;
  std::istringstream words(text);
  std::string op;
  int layer = 0;
  while (words >> op >> layer) actions.push_back({program::op_named(op).value(), layer, 0});
  return actions;
}

/// The actions with their copies placed so that everything is freed and allocated as late as
/// possible.
std::vector<Action> as_late_as_possible(const std::vector<Action>& actions) {
  using program::Op;
  std::vector<Action> placed;
  std::vector<program::ValueKey> leaving, coming;
  const auto place = [&](Op op, Op of_tape, std::vector<program::ValueKey>& values,
                         const program::ValueKey& last) {
    const auto end = std::find(values.begin(), values.end(), last);
    if (end == values.end()) return;
    for (auto value = values.begin(); value <= end; ++value)
      placed.push_back({value->tape ? of_tape : op, value->layer, value->micro_batch});
    values.erase(values.begin(), end + 1);
  };
  for (const Action& action : actions) {
    program::for_each_need(action, [&](const program::ValueKey& key) {
      if (std::find(coming.begin(), coming.end(), key) == coming.end()) return;
      place(Op::kRelease, Op::kReleaseTape, leaving, key);
      place(Op::kCopyIn, Op::kCopyInTape, coming, key);
      placed.push_back({key.tape ? Op::kAwaitTape : Op::kAwait, key.layer, key.micro_batch});
    });
    if (program::is_copy_out(action.op)) leaving.push_back(program::moved_value(action));
    if (program::is_copy_in(action.op)) coming.push_back(program::moved_value(action));
    placed.push_back(action);
  }
  return placed;
}

/// One rank with an MLP of four layers (the last with the loss), run once.
class OneStep {
 public:
  explicit OneStep(const tier::OffloadStoreOptions& store = {.host = Bytes(1 << 20),
                                                             .disk = Bytes(0),
                                                             .checksums = true})
      : store_(store) {
    job_.train.micro_batch = job_.train.batch = 16;
  }

  /// Called before the first copy back is named.
  using AtTurn = std::function<void(Copies&)>;

  /// Gradients, the loss last, after the stage's program.
  std::vector<at::Tensor> run(const std::string& forward, const std::string& backward,
                              const AtTurn& at_turn = {}) {
    tier::install_cpu_allocator();
    const program::Program program =
        program::lower({.stages = {{1, 4, actions_of(forward), actions_of(backward)}},
                        .order = schedule::one_f_one_b({1, 1}),
                        .end = program::StepEnd::kNone});
    std::vector<at::Tensor> result;
    comm::run_local(1, {.timeout = Seconds(30), .stop_requested = {}},
                    [&](comm::Channel& channel) { result = run(program, channel, at_turn); });
    return result;
  }

  static std::string keep_all_forward() {
    return "forward_tape 1 forward_tape 2 forward_tape 3 forward_tape 4";
  }
  static std::string all_backward() { return "backward 4 backward 3 backward 2 backward 1"; }
  std::vector<at::Tensor> expected() { return run(keep_all_forward(), all_backward()); }

  Bytes peak() const { return peak_; }

 private:
  std::vector<at::Tensor> run(const program::Program& program, comm::Channel& channel,
                              const AtTurn& at_turn) {
    at::set_num_threads(1);
    tier::MemoryAccount& account = tier::MemoryAccount::open("rank 0");
    const tier::AccountScope scope(account);
    Stage stage(model_, {1, 2, 3, 4}, job_.train.seed);
    Boundary boundary(channel, {0}, program.rank_of_layer);
    Reducer reducer(channel, Position::of(0, 1, 1), stage);
    Optimizer optimizer(job_.train.optimizer, stage);
    Copies copies(store_);
    const std::vector<Action> actions = as_late_as_possible(program.ranks[0]);
    std::size_t next = 0;
    Executor executor({stage, boundary, reducer, optimizer, &copies},
                      {.seed = 5, .owns_default_generator = true, .stop_requested = [&] {
                         const bool turns = program::is_copy_in(actions.at(next++).op);
                         if (turns && at_turn) at_turn(copies);
                         return false;
                       }});
    const DataSource data = random_data(model_, job_);
    const Feed feed{[&](int m) { return data.input(0, m); },
                    [&](int m) { return data.target(0, m); }};
    account.reset_peak();
    const RunResult run = executor.train(actions, feed, 0, 0);
    peak_ = account.peak();
    EXPECT_EQ(copies.offload_used(), Bytes(0));
    std::vector<at::Tensor> result;
    for (const StageParameter& parameter : stage.parameters())
      result.push_back(parameter.gradient.clone());
    result.push_back(at::tensor(run.losses));
    return result;
  }

  config::JobSpec job_ = small_job(config::MlpSpec{
      .inputs = 12, .widths = {24, 40, 24}, .classes = 5, .batch_norm = true, .dropout = 0.1});
  model::ChainModel model_ = model::make_model(job_.model);
  tier::OffloadStoreOptions store_;
  Bytes peak_;
};

void expect_same(const std::vector<at::Tensor>& expected, const std::vector<at::Tensor>& found) {
  ASSERT_EQ(expected.size(), found.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(at::equal(expected[i], found[i])) << i;
}

struct Moves {
  std::string name, forward, backward;
};

class HandWritten : public testing::TestWithParam<Moves> {};

TEST_P(HandWritten, GivesTheBitsOfKeepAll) {
  OneStep step;
  expect_same(step.expected(), step.run(GetParam().forward, GetParam().backward));
}

TEST_P(HandWritten, GivesTheBitsOfKeepAllByWayOfAFile) {
  OneStep step({.host = Bytes(0), .disk = Bytes(1 << 20), .checksums = true});
  expect_same(step.expected(), step.run(GetParam().forward, GetParam().backward));
}

TEST_P(HandWritten, GivesTheBitsOfKeepAllOnASlowDisk) {
  OneStep step({.host = Bytes(0),
                .disk = Bytes(1 << 20),
                .checksums = true,
                .file_rate = BytesPerSecond(1 << 20)});
  expect_same(step.expected(), step.run(GetParam().forward, GetParam().backward));
}

INSTANTIATE_TEST_SUITE_P(
    Programs, HandWritten,
    testing::Values(
        Moves{"input_of_a_live_tape_is_dropped_and_made_again",
              "forward_keep 1 forward_tape 2 drop 1 forward_tape 3 forward_tape 4",
              "backward 4 backward 3 forward_keep 1 backward 2 forward_tape 1 backward 1"},
        Moves{"input_of_a_live_tape_returns_inside_a_tape",
              "forward_keep 1 forward_tape 2 drop 1 forward_tape 3 forward_tape 4",
              "backward 4 backward 3 forward_tape 1 backward 2 backward 1"},
        Moves{"input_of_a_live_tape_leaves_and_returns",
              "forward_keep 1 forward_tape 2 offload 1 forward_tape 3 forward_tape 4",
              "backward 4 prefetch 1 backward 3 backward 2 forward_tape 1 backward 1"},
        Moves{"tapes_leave_and_return",
              "forward_tape 1 forward_tape 2 offload_tape 1 forward_tape 3 offload_tape 2 "
              "forward_tape 4",
              "prefetch_tape 2 backward 4 prefetch_tape 1 backward 3 backward 2 backward 1"},
        Moves{"a_tape_leaves_below_one_that_stays",
              "forward_tape 1 forward_tape 2 offload_tape 1 forward_tape 3 forward_tape 4",
              "backward 4 backward 3 prefetch_tape 1 backward 2 backward 1"},
        Moves{"a_tape_leaves_and_its_output_is_made_again_meanwhile",
              "forward_tape 1 forward_tape 2 offload_tape 1 forward_keep 1 drop 1 forward_tape 3 "
              "forward_tape 4",
              "backward 4 backward 3 forward_keep 1 backward 2 prefetch_tape 1 backward 1"},
        Moves{"the_same_value_leaves_twice",
              "forward_keep 1 offload 1 prefetch 1 forward_tape 2 offload 1 forward_tape 3 "
              "forward_tape 4",
              "backward 4 backward 3 prefetch 1 backward 2 forward_tape 1 backward 1"},
        Moves{"tapes_are_made_again_without_their_outputs",
              "forward_keep 1 forward_keep 2 forward_keep 3 forward_tape 4",
              "backward 4 retape 3 backward 3 retape 2 backward 2 retape 1 backward 1"},
        Moves{"input_of_a_tape_made_again_is_dropped_and_made_again",
              "forward_keep 1 forward_keep 2 forward_keep 3 forward_tape 4",
              "backward 4 retape 3 drop 2 forward_keep 2 backward 3 retape 2 drop 1 forward_tape 1 "
              "backward 2 backward 1"},
        Moves{"input_of_a_tape_made_again_leaves_and_returns",
              "forward_keep 1 forward_keep 2 offload 1 forward_keep 3 forward_tape 4",
              "backward 4 retape 3 backward 3 prefetch 1 retape 2 offload 1 prefetch 1 backward 2 "
              "retape 1 backward 1"},
        Moves{"a_layer_is_run_three_times",
              "forward_keep 1 forward 2 forward 3 forward_tape 4 drop 3",
              "forward_keep 1 forward 2 forward_keep 3 backward 4 forward_keep 1 forward_keep 2 "
              "retape 3 backward 3 retape 2 backward 2 retape 1 backward 1"},
        Moves{"the_chains_input_leaves_and_returns",
              "forward_tape 1 offload 0 forward_tape 2 forward_tape 3 forward_tape 4",
              "backward 4 backward 3 backward 2 prefetch 0 backward 1"}),
    [](const auto& test) { return test.param.name; });

TEST(Moves, FreeTheInputOfALiveTape) {
  OneStep step;
  step.run("forward_keep 1 forward_tape 2 forward_tape 3 forward_tape 4",
           "backward 4 backward 3 backward 2 forward_tape 1 backward 1");
  const Bytes kept = step.peak();
  step.run("forward_keep 1 forward_tape 2 drop 1 forward_tape 3 forward_tape 4",
           "backward 4 backward 3 forward_keep 1 backward 2 forward_tape 1 backward 1");
  // x[1]: 16 examples of 24 floats.
  EXPECT_EQ(kept - step.peak(), Bytes(16 * 24 * 4));
}

std::string all_tapes_leave() {
  return "forward_tape 1 forward_tape 2 offload_tape 1 forward_tape 3 offload_tape 2 forward_tape "
         "4";
}
std::string all_tapes_return() {
  return "backward 4 prefetch_tape 2 backward 3 prefetch_tape 1 backward 2 backward 1";
}

void expect_error(OneStep& step, const std::string& text, const OneStep::AtTurn& at_turn = {}) {
  try {
    step.run(all_tapes_leave(), all_tapes_return(), at_turn);
    FAIL() << "nothing was noticed";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(text));
  }
}

TEST(Faults, AFullOffloadTierIsAnErrorThatSaysWhatIsThere) {
  OneStep step({.host = Bytes(4096), .disk = Bytes(0)});
  expect_error(step, "the offload tier is full: asked for");
}

TEST(Faults, AFileThatIsCutIsAnErrorAndNotAWrongNumber) {
  OneStep step({.host = Bytes(0), .disk = Bytes(1 << 20)});
  expect_error(step, "it was truncated", [](Copies& copies) {
    copies.drain();
    ASSERT_EQ(ftruncate(copies.store().descriptor(), 100), 0);
  });
}

TEST(Faults, AFileThatIsOverwrittenIsAnErrorWhereChecksumsAreKept) {
  OneStep step({.host = Bytes(0), .disk = Bytes(1 << 20), .checksums = true});
  expect_error(step, "other bytes than were written", [](Copies& copies) {
    copies.drain();
    const std::vector<char> other(1 << 14, 'x');
    ASSERT_EQ(pwrite(copies.store().descriptor(), other.data(), other.size(), 0), 1 << 14);
  });
}

TEST(Faults, AnAllocationOverBudgetInsideABackwardLeavesNothingBehind) {
  tier::install_cpu_allocator();
  config::JobSpec job = small_job(small_mlp());
  const model::ChainModel model = model::make_model(job.model);
  tier::MemoryAccount& account = tier::MemoryAccount::open("rank 0");
  comm::run_local(1, {.timeout = Seconds(30), .stop_requested = {}}, [&](comm::Channel& channel) {
    const tier::AccountScope scope(account);
    const plan::Plan plan = plan_of(model, job, {});
    const program::Program program = plan::compile(plan);
    std::vector<int> layers;
    for (int i = 1; i <= model.length(); ++i) layers.push_back(i);
    Stage stage(model, layers, job.train.seed);
    Boundary boundary(channel, {0}, program.rank_of_layer);
    Reducer reducer(channel, Position::of(0, 1, 1), stage);
    Optimizer optimizer(job.train.optimizer, stage);
    Executor executor({stage, boundary, reducer, optimizer}, {.seed = 5, .stop_requested = {}});
    const DataSource data = random_data(model, job);
    const Bytes held = account.live();
    int backwards = 0;
    const Feed feed{[&](int m) { return data.input(0, m); },
                    [&](int m) {
                      // The second micro-batch has no memory for its gradients.
                      if (++backwards == 2) account.set_budget(account.live() + Bytes(2500));
                      return data.target(0, m);
                    }};
    EXPECT_THROW(executor.train(program.ranks[0], feed, 0, 1e-3), c10::OutOfMemoryError);
    account.set_budget(Bytes(INT64_MAX));
    executor.forget();
    EXPECT_EQ(account.live(), held);
  });
}

}  // namespace
}  // namespace trireme::runtime
