// Activation offload of stages between forward and backward.
//
// SPDX-License-Identifier: Apache-2.0
#include "solve/chains.h"
#include "support/trials.h"

#include "trireme/chain/platform.h"
#include "trireme/program/generate.h"
#include "trireme/program/needs.h"
#include "trireme/schedule/named.h"
#include "trireme/simulate/ledger.h"
#include "trireme/simulate/simulate.h"
#include "trireme/simulate/validate.h"
#include "trireme/solve/exhaustive.h"
#include "trireme/solve/stage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <limits>
#include <random>
#include <vector>

namespace trireme::solve {
namespace {

constexpr std::int64_t kRoomy = std::int64_t{1} << 40;

StageProblem stage_of(int first, int last, std::int64_t memory, int in_flight, double rate) {
  StageProblem problem{
      .layers = {first, last}, .memory = Bytes(memory), .in_flight = in_flight, .link = {}};
  if (rate > 0) {
    problem.link = HostLink{BytesPerSecond(rate), BytesPerSecond(rate), Bytes(kRoomy)};
  }
  return problem;
}

StageSolver exact_solver(const chain::Chain& chain, std::int64_t largest) {
  return StageSolver(chain, {.largest_memory = Bytes(largest), .slots = 0});
}

// Equal layers: a stage of 1F1B with the chain's first layers, followed by stages of one layer each
// that take no time, so that it has w in flight and never waits. Returns the result of its rank.
simulate::RankResult in_a_pipeline(const chain::Chain& chain, const StageProblem& problem,
                                   const program::StageProgram& stage, int micro_batches,
                                   bool must_fit = true) {
  chain::Chain whole{.name = "pipeline", .input = chain.input, .layers = {}};
  for (int i = 1; i <= problem.layers.last; ++i) whole.layers.push_back(chain.layer(i));
  program::Lowering lowering;
  lowering.stages.push_back(stage);
  for (int k = 1; k < problem.in_flight; ++k) {
    whole.layers.push_back(layer(0, 0, 0, 0));
    lowering.stages.push_back(program::keep_all(whole.length(), whole.length()));
  }
  lowering.order =
      schedule::one_f_one_b({.stages = problem.in_flight, .micro_batches = micro_batches});
  chain::Platform platform = chain::uniform_platform(problem.in_flight, Bytes(0));
  platform.ranks[0].memory = problem.memory;
  platform.ranks[0].host = problem.link->capacity;
  platform.ranks[0].out = problem.link->out;
  platform.ranks[0].in = problem.link->in;
  const simulate::Setting setting{.chain = &whole, .platform = &platform, .static_bytes = {}};
  const program::Program program = program::lower(lowering);
  if (must_fit) {
    const auto fault = simulate::validate(program, setting);
    EXPECT_FALSE(fault) << simulate::to_text(*fault);
  }
  return simulate::simulate(program, setting).ranks[0];
}

Seconds work_of(const chain::Chain& chain, int first, int last) {
  Seconds work;
  for (int i = first; i <= last; ++i) work += chain.layer(i).forward + chain.layer(i).backward;
  return work;
}

// What a program of layers 1..last keeps at the pause, except items of no bytes.
std::vector<program::ValueKey> kept_items(const chain::Chain& chain,
                                          const program::StageProgram& stage) {
  using program::Op;
  simulate::Ledger ledger(chain, {.first_layer = 1, .last_layer = stage.last_layer});
  ledger.apply({Op::kReceiveInput, 0});
  for (const program::Action& action : stage.forward) {
    ledger.apply(action);
    if (program::is_forward(action.op) && action.layer == stage.last_layer) {
      ledger.apply({Op::kSendOutput, stage.last_layer});
    }
  }
  std::vector<program::ValueKey> items;
  for (const simulate::Value& value : ledger.values()) {
    const bool tape = value.kind == simulate::Value::Kind::kTape;
    if (value.size > Bytes(0)) items.push_back({tape, value.layer, 0});
  }
  return items;
}

// The items of `subset` are offloaded after their last use in the forward list and prefetched
// `lead` actions before their first use in the backward list.
program::StageProgram with_copies(program::StageProgram stage,
                                  const std::vector<program::ValueKey>& items, unsigned subset,
                                  std::ptrdiff_t lead) {
  using program::Action, program::Op;
  for (std::size_t k = 0; k < items.size(); ++k) {
    if ((subset >> k & 1) == 0) continue;
    const program::ValueKey item = items[k];
    const auto uses = [&](const Action& action) {
      bool found = program::is_forward(action.op) && action.layer == item.layer;
      program::for_each_need(action, [&](const program::ValueKey& key) { found |= key == item; });
      return found;
    };
    auto& forward = stage.forward;
    forward.insert(std::find_if(forward.rbegin(), forward.rend(), uses).base(),
                   {item.tape ? Op::kOffloadTape : Op::kOffload, item.layer});
    auto& backward = stage.backward;
    const std::ptrdiff_t used =
        std::find_if(backward.begin(), backward.end(), uses) - backward.begin();
    backward.insert(backward.begin() + std::max<std::ptrdiff_t>(0, used - lead),
                    {item.tape ? Op::kPrefetchTape : Op::kPrefetch, item.layer});
  }
  return stage;
}

// Least period over all programs that are fastest for some memory and cap on what is kept, all sets
// of kept items and a few leads.
double least_period(const chain::Chain& chain, const StageProblem& problem) {
  std::vector<program::StageProgram> programs;
  Problem alone = whole(chain, 0);
  alone.last_layer = problem.layers.last;
  // More than the memory: what is moved is not held next to what is made after it.
  for (std::int64_t budget = 1; budget <= problem.memory.count() + 16; ++budget) {
    alone.budget = Bytes(budget);
    for (std::int64_t kept = 0; kept <= budget; ++kept) {
      auto program = search_fastest(alone, {.most_kept = Bytes(kept)});
      if (program && std::find(programs.begin(), programs.end(), *program) == programs.end()) {
        programs.push_back(*std::move(program));
      }
    }
  }
  double best = std::numeric_limits<double>::infinity();
  for (const program::StageProgram& program : programs) {
    const auto items = kept_items(chain, program);
    for (unsigned subset = 0; subset < 1U << items.size(); ++subset) {
      for (const std::ptrdiff_t lead : {0, 1, 3, 9}) {
        const auto made = with_copies(program, items, subset, lead);
        const simulate::RankResult few =
            in_a_pipeline(chain, problem, made, problem.in_flight + 2, false);
        if (few.peak.size > problem.memory) continue;
        const simulate::RankResult many =
            in_a_pipeline(chain, problem, made, problem.in_flight + 8, false);
        if (many.peak.size > problem.memory) continue;
        best = std::min(best, (many.end - few.end).count() / 6);
        if (subset == 0) break;
      }
    }
  }
  return best;
}

// What copies promise is what a pipeline does: its memory, and its time per micro-batch.
TEST(StageCopies, KeepTheirPromisesInAPipeline) {
  std::mt19937 random(61);
  int copied = 0, faster = 0;
  double gain = 0;
  for (int k = 0; k < trials(200); ++k) {
    const chain::Chain chain =
        random_chain(random, {.most_tape_beyond = 6, .extra_per_output = k % 3}, 6);
    const int w = 2 + k % 3, last = 5;
    StageSolver solver = exact_solver(chain, 400);
    const std::int64_t least = solver.least_memory({1, last}, w).count();
    const std::int64_t memory = least + k % 5 * 4;
    const double rate = std::vector<double>{0.2, 0.5, 1, 3, 20}[static_cast<std::size_t>(k % 5)];
    const StageProblem problem = stage_of(1, last, memory, w, rate);
    const StageProblem without = stage_of(1, last, memory, w, 0);
    const auto result = solver.solve(problem), plain = solver.solve(without);
    ASSERT_TRUE(std::holds_alternative<StageSolution>(result));
    const StageSolution& solution = std::get<StageSolution>(result);
    const StageSolution& still = std::get<StageSolution>(plain);
    EXPECT_EQ(still.moved, Bytes(0));
    ASSERT_LE(solution.time(), still.time());
    ASSERT_GE(solution.time().count(), work_of(chain, 1, last).count() * (1 - 1e-9));
    EXPECT_LE(solution.moved / BytesPerSecond(rate), solution.time());
    EXPECT_LE(solution.peak, problem.memory);
    if (solution.moved == Bytes(0)) continue;
    ++copied;
    gain += 1 - solution.time() / still.time();
    faster += solution.time() < still.time() ? 1 : 0;
    const simulate::RankResult few = in_a_pipeline(chain, problem, solution.program, 30);
    const simulate::RankResult many = in_a_pipeline(chain, problem, solution.program, 50);
    EXPECT_LE(many.peak.size, problem.memory);
    EXPECT_EQ(many.moved, 50 * solution.moved);
    const double period = (many.end - few.end).count() / 20;
    EXPECT_LE(period, solution.time().count() * (1 + 1e-9)) << chain::to_yaml(chain) << w;
  }
  std::cout << "copies help in " << faster << " of " << trials(200) << " stages, there by "
            << 100 * gain / copied << " % in the mean\n";
  EXPECT_EQ(copied, faster);
  EXPECT_GT(copied, trials(40));
}

// The neighbour that judges a stage must take all that is in flight, however much that is; the
// pipeline around the result has streams of two messages.
TEST(StageCopies, RunWithManyInFlight) {
  std::mt19937 random(89);
  int copied = 0;
  for (int k = 0; k < 33; ++k) {
    chain::Chain chain = random_chain(random, {.most_tape_beyond = 6}, 6);
    std::mt19937 of_stays(static_cast<unsigned>(k));
    if (k % 3 == 0) chain = with_what_stays(of_stays, std::move(chain));
    const int w = 6 + k % 11, last = 5;
    StageSolver solver = exact_solver(chain, 2000);
    const std::int64_t memory = solver.least_memory({1, last}, w).count() + k % 5 * 8;
    const StageProblem problem = stage_of(1, last, memory, w, 1 + k % 4);
    const StageProblem without = stage_of(1, last, memory, w, 0);
    const auto result = solver.solve(problem), plain = solver.solve(without);
    ASSERT_TRUE(std::holds_alternative<StageSolution>(result));
    const StageSolution& solution = std::get<StageSolution>(result);
    ASSERT_LE(solution.time(), std::get<StageSolution>(plain).time());
    if (solution.moved == Bytes(0)) continue;
    ++copied;
    const simulate::RankResult few = in_a_pipeline(chain, problem, solution.program, 2 * w + 10);
    const simulate::RankResult many = in_a_pipeline(chain, problem, solution.program, 2 * w + 30);
    EXPECT_LE(many.peak.size, problem.memory);
    EXPECT_LE((many.end - few.end).count() / 20, solution.time().count() * (1 + 1e-9)) << w;
  }
  EXPECT_GT(copied, 15);
}

TEST(StageCopies, AreSeldomFarFromTheBestOfAllSets) {
  std::mt19937 random(79);
  int cases = 0, equal = 0, better = 0;
  double gap = 0, worst = 0, alone = 0;
  for (int k = 0; k < trials(120); ++k) {
    const chain::Chain chain = random_chain(
        random, {.most_output = 3, .most_tape_beyond = 3, .extra_per_output = k % 2}, 4);
    const int w = 2 + k % 2;
    StageSolver solver = exact_solver(chain, 400);
    const std::int64_t least = solver.least_memory({1, 3}, w).count();
    const double rate = std::vector<double>{0.3, 1, 3}[static_cast<std::size_t>(k % 3)];
    const StageProblem problem = stage_of(1, 3, least + k % 4, w, rate);
    const StageProblem without = stage_of(1, 3, least + k % 4, w, 0);
    const double best = least_period(chain, problem);
    const double found = std::get<StageSolution>(solver.solve(problem)).time().count();
    if (!(best > 0)) continue;
    ++cases;
    equal += std::abs(found / best - 1) < 1e-9 ? 1 : 0;
    better += found / best < 1 - 1e-9 ? 1 : 0;
    gap += std::max(0.0, found / best - 1);
    worst = std::max(worst, found / best - 1);
    alone += std::get<StageSolution>(solver.solve(without)).time().count() / best - 1;
  }
  std::cout << "copies: " << equal << " of " << cases << " stages at the best of all sets, "
            << better << " below it, mean gap " << 100 * gap / cases << " %, worst " << 100 * worst
            << " %; without copies " << 100 * alone / cases << " %\n";
  EXPECT_GT(cases, trials(100));
  EXPECT_LE(gap, 0.5 * alone);
}

TEST(StageCopies, WithAFastLinkNothingIsRunAgain) {
  std::mt19937 random(67);
  double gap = 0;
  int cases = 0;
  for (int k = 0; k < 60; ++k) {
    const chain::Chain chain = random_chain(random, {.extra_per_output = 0}, 7);
    const int w = 2 + k % 3, last = 6;
    StageSolver solver = exact_solver(chain, 400);
    Problem alone = whole(chain, kRoomy);
    alone.last_layer = last;
    const Solution all = std::get<Solution>(solve("keep_all", alone));
    // Room for one micro-batch and what two items need on their way.
    const StageProblem problem = stage_of(1, last, all.peak.count() + 20, w, 1e9);
    const auto result = solver.solve(problem);
    ASSERT_TRUE(std::holds_alternative<StageSolution>(result));
    const double work = work_of(chain, 1, last).count();
    if (work <= 0) continue;
    ++cases;
    gap += std::get<StageSolution>(result).time().count() / work - 1;
  }
  EXPECT_LE(gap / cases, 1e-6);
}

// With 160 unlike layers a tape is less than a slot of any table that is quick to make.
TEST(StageCopies, AreFoundForLongStagesToo) {
  std::mt19937 random(68);
  chain::Chain chain = random_chain(random, {.most_output = 4000, .most_tape_beyond = 6000}, 160);
  for (chain::LayerCost& layer : chain.layers) layer.forward += Seconds(1);
  const int last = 159, w = 4;
  Problem alone = whole(chain, kRoomy);
  alone.last_layer = last;
  const Bytes kept = std::get<Solution>(solve("keep_all", alone)).kept;
  const std::int64_t memory = kept.count() * 5 / 2;
  StageSolver solver(chain, {.largest_memory = Bytes(memory), .slots = 500});

  const auto result = solver.solve(stage_of(1, last, memory, w, 1e9));

  const auto& found = std::get<StageSolution>(result);
  EXPECT_GT(found.moved, Bytes(0));
  EXPECT_LE(found.time().count(), work_of(chain, 1, last).count() * (1 + 1e-6));
}

// Less memory than any program without copies needs.
TEST(StageCopies, RunWhereNothingElseFits) {
  std::mt19937 random(83);
  int found = 0;
  for (int k = 0; k < 60; ++k) {
    const chain::Chain chain = random_chain(random, {.extra_per_output = 0}, 6);
    const int w = 2 + k % 3;
    StageSolver solver = exact_solver(chain, 400);
    const std::int64_t least = solver.least_memory({1, 5}, w).count();
    const StageProblem problem = stage_of(1, 5, least - 1, w, 2);
    EXPECT_TRUE(
        std::holds_alternative<plan::Infeasible>(solver.solve(stage_of(1, 5, least - 1, w, 0))));
    const auto result = solver.solve(problem);
    if (const auto* reason = std::get_if<plan::Infeasible>(&result)) {
      EXPECT_EQ(reason->least_budget.count(), least);
      continue;
    }
    ++found;
    const StageSolution& solution = std::get<StageSolution>(result);
    EXPECT_GT(solution.moved, Bytes(0));
    EXPECT_LE(in_a_pipeline(chain, problem, solution.program, 20).peak.size, problem.memory);
  }
  EXPECT_GT(found, 10);
}

TEST(StageCopies, KeepTheOffloadTierSmallEnough) {
  std::mt19937 random(71);
  int copied = 0;
  for (int k = 0; k < 60; ++k) {
    const chain::Chain chain = random_chain(random, {.extra_per_output = 1}, 6);
    const int w = 2 + k % 3, last = 5;
    StageSolver solver = exact_solver(chain, 400);
    StageProblem problem = stage_of(1, last, solver.least_memory({1, last}, w).count() + 3, w, 5);
    problem.link->capacity = Bytes(k % 12);
    const auto result = solver.solve(problem);
    const StageSolution& solution = std::get<StageSolution>(result);
    if (solution.moved == Bytes(0)) continue;
    ++copied;
    EXPECT_LE(in_a_pipeline(chain, problem, solution.program, 20).offloaded.all(),
              problem.link->capacity);
  }
  EXPECT_GT(copied, 5);
}

// One micro-batch in flight, a link that takes time: the copies of the single-stage solver, or
// none.
TEST(StageCopies, WithOneInFlightAreThoseOfTheSingleStageSolver) {
  std::mt19937 random(73);
  for (int k = 0; k < 20; ++k) {
    const chain::Chain chain = random_chain(random, {.extra_per_output = 1}, 6);
    StageSolver solver = exact_solver(chain, 400);
    const std::int64_t least = solver.least_memory({1, 6}, 1).count();
    const StageProblem problem = stage_of(1, 6, least + k % 4, 1, 1 + k % 3);
    Problem alone = whole(chain, least + k % 4);
    alone.link = problem.link;
    const auto result = solver.solve(problem);
    EXPECT_LE(std::get<StageSolution>(result).time().count(),
              time_of(solve("rotor_free", alone)) * (1 + 1e-12));
    EXPECT_LE(std::get<StageSolution>(result).time().count(),
              time_of(solve("pofo free", alone)) * (1 + 1e-12));
  }
}

}  // namespace
}  // namespace trireme::solve
