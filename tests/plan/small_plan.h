// A plan to write, read and change.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/plan/plan.h"
#include "trireme/program/generate.h"

namespace trireme::plan {

/// Two stages of two layers, one of them with every kind of action.
inline Plan small_plan() {
  Plan plan;
  plan.chain_name = "c";
  plan.chain_digest = "0123456789abcdef0123456789abcdef";
  plan.solver = "rotor";
  plan.micro_batches = 2;
  plan.step = Seconds(1.25);
  plan.bubble = 0.2;
  plan.recompute = Seconds(0.5);
  StagePlan first{.rank = 1, .budget = Bytes(100), .static_bytes = Bytes(7)};
  first.program = {.first_layer = 1,
                   .last_layer = 2,
                   .forward = {{program::Op::kForwardKeep, 1},
                               {program::Op::kOffload, 0},
                               {program::Op::kForwardTape, 2},
                               {program::Op::kOffloadTape, 2},
                               {program::Op::kDrop, 1}},
                   .backward = {{program::Op::kPrefetch, 0},
                                {program::Op::kForward, 1},
                                {program::Op::kPrefetchTape, 2},
                                {program::Op::kBackward, 2},
                                {program::Op::kForwardTape, 1},
                                {program::Op::kBackward, 1}}};
  first.predicted = {Seconds(0.1), Seconds(1.0 / 3), Bytes(5), Bytes(99), Bytes(11)};
  StagePlan second;
  second.program = program::keep_all(3, 4);
  plan.stages = {first, second};
  plan.alternatives = {{.policy = "recompute_all", .step = Seconds(1.5), .infeasible = {}},
                       {.policy = "keep_all",
                        .step = {},
                        .infeasible = Infeasible{.rank = 1,
                                                 .first_layer = 1,
                                                 .last_layer = 2,
                                                 .needed = Bytes(120),
                                                 .available = Bytes(100),
                                                 .least_budget = Bytes(110),
                                                 .where = "layer 2 (\"b\"): its backward alone"}}};
  return plan;
}

}  // namespace trireme::plan
