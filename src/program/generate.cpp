// The programs of stages that need no solver.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/program/generate.h"

namespace trireme::program {
namespace {

/// {op, i} for i from `from` to `to`, downwards if `to` is less.
std::vector<Action> each(Op op, int from, int to);

}  // namespace

StageProgram keep_all(int first_layer, int last_layer) {
  return {first_layer, last_layer, each(Op::kForwardTape, first_layer, last_layer),
          each(Op::kBackward, last_layer, first_layer)};
}

StageProgram recompute_all(int first_layer, int last_layer) {
  // x[last] is sent or replaced by its gradient, and the backward of i+1 frees x[i]: when the tape
  // of i is recomputed, no second x[i] is held.
  StageProgram program{
      first_layer, last_layer, each(Op::kForwardKeep, first_layer, last_layer), {}};
  for (int i = last_layer; i >= first_layer; --i) {
    program.backward.push_back({Op::kForwardTape, i});
    program.backward.push_back({Op::kBackward, i});
  }
  return program;
}

StageProgram evaluate(int first_layer, int last_layer) {
  return {first_layer, last_layer, each(Op::kForward, first_layer, last_layer), {}};
}

namespace {

std::vector<Action> each(Op op, int from, int to) {
  std::vector<Action> actions;
  const int step = from <= to ? 1 : -1;
  for (int i = from; i != to + step; i += step) actions.push_back({op, i});
  return actions;
}

}  // namespace
}  // namespace trireme::program
