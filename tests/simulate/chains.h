// Chains and short ways to write programs for the tests of this module.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/program/action.h"

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme::simulate {

/// Costs of a layer as plain numbers.
struct Costs {
  double forward = 1, backward = 1;
  int output = 0, tape = 0;
  int forward_transient = 0, tape_transient = 0, backward_transient = 0;
};

inline chain::Chain chain_of(int input, const std::vector<Costs>& layers) {
  chain::Chain chain{"test", Bytes(input), {}};
  for (const Costs& costs : layers) {
    chain.layers.push_back({"layer", Seconds(costs.forward), Seconds(costs.backward),
                            Bytes(costs.output), Bytes(costs.tape), Bytes(costs.forward_transient),
                            Bytes(costs.tape_transient), Bytes(costs.backward_transient), Bytes(0),
                            Bytes(0), Bytes(0)});
  }
  return chain;
}

/// "forward_tape 1, backward 1" as actions of micro-batch 0.
inline std::vector<program::Action> actions(std::string_view text) {
  std::vector<program::Action> actions;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    actions.push_back(program::parse_action("0:" + std::string(text.substr(0, comma))));
    text.remove_prefix(std::min(comma + 2, text.size()));
  }
  return actions;
}

/// A stage of these layers with these two lists.
inline program::StageProgram stage(int first, int last, std::string_view forward,
                                   std::string_view backward) {
  return {first, last, actions(forward), actions(backward)};
}

/// A chain as the rotor papers write it, stages from 0: f, b; outputs x_0..x_L; tapes xb_1..xb_L;
/// transients o_f, o_b. The loss is a layer of its own without time, output and tape.
struct RotorChain {
  std::vector<double> f, b;
  std::vector<int> x, xb, ft, bt;
  int loss_transient = 0;
};

inline chain::Chain with_loss_layer(const RotorChain& rotor) {
  std::vector<Costs> layers;
  const std::size_t length = rotor.f.size();
  for (std::size_t i = 0; i < length; ++i) {
    layers.push_back({rotor.f[i], rotor.b[i], rotor.x[i + 1], rotor.xb[i], rotor.ft[i], rotor.ft[i],
                      rotor.x[i] + rotor.bt[i]});
  }
  layers.push_back({0, 0, 0, 0, 0, 0, rotor.x[length] + rotor.loss_transient});
  return chain_of(rotor.x[0], layers);
}

/// Chain A and chain B: small, uneven, without and with transients.
inline RotorChain chain_a() {
  return {{2, 3, 1, 4}, {3, 5, 2, 6}, {1, 2, 1, 2, 1}, {4, 3, 5, 2}, {0, 0, 0, 0}, {0, 0, 0, 0}};
}
inline RotorChain chain_b() {
  return {{4, 8, 6, 5, 3, 2},  {7, 15, 11, 9, 6, 3}, {2, 6, 3, 3, 2, 2, 1},
          {10, 6, 7, 4, 4, 1}, {0, 1, 0, 1, 0, 0},   {1, 2, 1, 1, 0, 0}};
}

/// A schedule in rotor's letters ("Fc0 Fn1 Fe2 L B2 ..."): Fe taped, Fc untaped with the input
/// kept, Fn untaped, L the loss.
inline program::StageProgram from_rotor(std::string_view schedule, int layers) {
  program::StageProgram program{1, layers + 1, {}, {}};
  std::vector<program::Action>* list = &program.forward;
  while (!schedule.empty()) {
    const std::size_t end = std::min(schedule.find(' '), schedule.size());
    const std::string word(schedule.substr(0, end));
    schedule.remove_prefix(std::min(end + 1, schedule.size()));
    if (word == "L") {
      program.forward.push_back({program::Op::kForwardTape, layers + 1});
      program.backward.push_back({program::Op::kBackward, layers + 1});
      list = &program.backward;
      continue;
    }
    const bool backward = word[0] == 'B';
    const int layer = std::stoi(word.substr(backward ? 1 : 2)) + 1;
    const program::Op op = backward         ? program::Op::kBackward
                           : word[1] == 'e' ? program::Op::kForwardTape
                           : word[1] == 'c' ? program::Op::kForwardKeep
                                            : program::Op::kForward;
    list->push_back({op, layer});
  }
  return program;
}

}  // namespace trireme::simulate
