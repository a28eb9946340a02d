// What schedules cost, by hand: time in turn and beside compute, memory, energy, faults.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/graph/schedule.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace trireme::graph {
namespace {

// image -> conv -> relu -> grad, which also reads conv. Of 4, 3, 2 and 1 bytes; 1, 2, 4 and 8 s and
// J; copies out of 3 s and 0.5 J, in of 5 s and 0.25 J.
Problem small(Lanes lanes) {
  Problem problem{.capacity = Bytes(100), .lanes = lanes, .idle = Watts(0.125)};
  problem.graph.nodes = {{.name = "image", .bytes = Bytes(4)},
                         {.name = "conv", .inputs = {0}, .bytes = Bytes(3)},
                         {.name = "relu", .inputs = {1}, .bytes = Bytes(2)},
                         {.name = "grad", .inputs = {1, 2}, .bytes = Bytes(1)}};
  for (const double cost : {1.0, 2.0, 4.0, 8.0}) {
    problem.costs.push_back({.time = Seconds(cost),
                             .out = Seconds(3),
                             .in = Seconds(5),
                             .energy = Joules(cost),
                             .out_energy = Joules(0.5),
                             .in_energy = Joules(0.25)});
  }
  return problem;
}

Action compute(int node) {
  return {Op::kCompute, node};
}
Action copy_out(int node) {
  return {Op::kCopyOut, node};
}
Action copy_in(int node) {
  return {Op::kCopyIn, node};
}
Action drop(int node) {
  return {Op::kDrop, node};
}

Replayed run(const Problem& problem, const Schedule& schedule) {
  Replayed replayed = replay(problem, schedule);
  EXPECT_FALSE(replayed.fault) << replayed.fault->reason;
  return replayed;
}

std::vector<double> starts(const Replayed& replayed) {
  std::vector<double> starts;
  for (const Span& span : replayed.spans) starts.push_back(span.start.count());
  return starts;
}

/// "2: input conv is not in memory"
std::string fault(const Problem& problem, const Schedule& schedule) {
  const Replayed replayed = replay(problem, schedule);
  if (!replayed.fault) return "none";
  return std::to_string(replayed.fault->index) + ": " + replayed.fault->reason;
}

TEST(Replay, InTurnAddsUpComputationsAndCopies) {
  const Replayed replayed = run(
      small(Lanes::kInTurn),
      {compute(0), compute(1), drop(0), copy_out(1), compute(2), drop(1), copy_in(1), compute(3)});
  EXPECT_EQ(starts(replayed), (std::vector<double>{0, 1, 3, 3, 6, 10, 10, 15}));
  const Outcome& outcome = replayed.outcome;
  EXPECT_EQ(outcome.time, Seconds(23));
  EXPECT_EQ(outcome.busy, Seconds(15));
  EXPECT_EQ(outcome.recompute, Seconds(0));
  EXPECT_EQ(outcome.compute, Joules(15));
  EXPECT_EQ(outcome.copies, Joules(0.75));
  EXPECT_EQ(outcome.idle, Joules(1));
  EXPECT_EQ(outcome.energy(), Joules(16.75));
  EXPECT_EQ(outcome.offloaded, Bytes(3));
}

TEST(Replay, BesideComputeACopyCostsWhatIsWaitedFor) {
  const Schedule schedule{compute(0), compute(1), drop(0),    copy_out(1),
                          compute(2), drop(1),    copy_in(1), compute(3)};
  const Replayed replayed = run(small(Lanes::kBeside), schedule);
  EXPECT_EQ(starts(replayed), (std::vector<double>{0, 1, 3, 3, 3, 7, 7, 12}));
  EXPECT_EQ(replayed.outcome.time, Seconds(20));
  EXPECT_EQ(replayed.outcome.idle, Joules(0.625));
}

TEST(Replay, ADropWaitsForTheCopyOut) {
  const Replayed replayed = run(small(Lanes::kBeside), {compute(0), copy_out(0), compute(1),
                                                        drop(0), compute(2), compute(3)});
  EXPECT_EQ(starts(replayed), (std::vector<double>{0, 1, 1, 4, 4, 8}));
}

TEST(Replay, ACopyInWaitsForItsLaneAndTheStepForEveryCopy) {
  const Replayed replayed =
      run(small(Lanes::kBeside), {compute(0), copy_out(0), compute(1), copy_out(1), compute(2),
                                  drop(0), drop(1), copy_in(0), copy_in(1), compute(3)});
  // Out from 1 to 4 and, the lane being busy, from 4 to 7; in from 7 to 12 and from 12 to 17.
  EXPECT_EQ(starts(replayed), (std::vector<double>{0, 1, 1, 4, 3, 7, 7, 7, 12, 17}));
  EXPECT_EQ(replayed.outcome.time, Seconds(25));
  const Replayed late =
      run(small(Lanes::kBeside), {compute(0), compute(1), compute(2), compute(3), copy_out(3)});
  EXPECT_EQ(late.outcome.time, Seconds(18));
}

TEST(Replay, MemoryIsCountedInTheOrderOfTheSchedule) {
  for (const Lanes lanes : {Lanes::kInTurn, Lanes::kBeside}) {
    const Replayed replayed = run(small(lanes), {compute(0), compute(1), copy_out(1), drop(0),
                                                 compute(2), drop(1), copy_in(1), compute(3)});
    EXPECT_EQ(replayed.held, (std::vector<Bytes>{Bytes(4), Bytes(7), Bytes(7), Bytes(3), Bytes(5),
                                                 Bytes(2), Bytes(5), Bytes(6)}));
    EXPECT_EQ(replayed.outcome.peak, Bytes(7));
    EXPECT_EQ(replayed.outcome.peak_at, 1U);
  }
}

TEST(Replay, ASecondComputationIsRecomputation) {
  const Replayed replayed = run(
      small(Lanes::kInTurn), {compute(0), compute(1), compute(2), drop(1), compute(1), compute(3)});
  EXPECT_EQ(replayed.outcome.recompute, Seconds(2));
  EXPECT_EQ(replayed.outcome.recompute_energy, Joules(2));
  EXPECT_EQ(replayed.outcome.compute, Joules(17));
}

TEST(Replay, AFaultSaysWhereAndWhy) {
  Problem problem = small(Lanes::kInTurn);
  EXPECT_EQ(fault(problem, {compute(0), drop(0), compute(1)}), "2: input image is not in memory");
  EXPECT_EQ(fault(problem, {compute(1)}), "0: conv comes before image");
  EXPECT_EQ(fault(problem, {compute(0), compute(0)}), "1: image is in memory already");
  EXPECT_EQ(fault(problem, {compute(0), drop(0), drop(0)}), "2: image is not in memory");
  EXPECT_EQ(fault(problem, {copy_out(0)}), "0: image is not in memory");
  EXPECT_EQ(fault(problem, {compute(0), copy_out(0), copy_out(0)}),
            "2: image is in the offload tier already");
  EXPECT_EQ(fault(problem, {compute(0), copy_out(0), copy_in(0)}), "2: image is in memory already");
  EXPECT_EQ(fault(problem, {compute(0), drop(0), copy_in(0)}),
            "2: image is not in the offload tier");
  EXPECT_EQ(fault(problem, {compute(4)}), "0: there is no node 4");
  EXPECT_EQ(fault(problem, {compute(0), compute(1), compute(2)}), "3: grad is never computed");
}

TEST(Replay, AFaultSaysHowMuchThereIsTooMuch) {
  Problem problem = small(Lanes::kInTurn);
  problem.memory = Bytes(8);
  problem.capacity = Bytes(6);
  EXPECT_EQ(fault(problem, {compute(0), compute(1), compute(2)}),
            "2: with relu memory would hold 9 B of 8 B");
  EXPECT_EQ(fault(problem, {compute(0), copy_out(0), compute(1), copy_out(1)}),
            "3: the offload tier would hold 7 B of 6 B");
  EXPECT_EQ(fault(problem, {compute(0), copy_out(0), compute(1), drop(0), compute(2), copy_in(0)}),
            "5: with image memory would hold 9 B of 8 B");
  problem.capacity = Bytes(0);
  EXPECT_EQ(fault(problem, {compute(0), copy_out(0)}), "1: the offload tier would hold 4 B of 0 B");
}

TEST(KeepAll, DropsEveryValueAfterItsLastUse) {
  const Graph graph = small(Lanes::kInTurn).graph;
  EXPECT_EQ(keep_all(graph), (Schedule{compute(0), compute(1), drop(0), compute(2), compute(3),
                                       drop(1), drop(2), drop(3)}));
  const Replayed replayed = run(small(Lanes::kInTurn), keep_all(graph));
  EXPECT_EQ(replayed.outcome.time, Seconds(15));
  EXPECT_EQ(replayed.outcome.peak, Bytes(7));
}

}  // namespace
}  // namespace trireme::graph
