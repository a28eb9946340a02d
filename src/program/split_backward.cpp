// SPDX-License-Identifier: Apache-2.0
#include "trireme/program/split_backward.h"

#include "trireme/core/error.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace trireme::program {
namespace {

using Actions = std::vector<Action>;

/// Of one rank, what its passes have left over.
class Split {
 public:
  Split(const Actions& whole, int behind) : whole_(whole), behind_(behind) {}
  Actions actions();

 private:
  /// Behind its last backward, and what that sends, a pass has ended.
  bool ends_pass(std::size_t index) const;
  void add_weights(int micro_batch);

  const Actions& whole_;
  int behind_;
  int first_layer_ = 0;
  std::vector<int> layers_;  ///< in the order of their backwards
  Actions actions_;
};

Actions Split::actions() {
  std::vector<int> waiting;  // micro-batches
  for (const Action& action : whole_) {
    if (action.op != Op::kBackward) continue;
    if (waiting.empty() || waiting.back() != action.micro_batch)
      waiting.push_back(action.micro_batch);
    if (waiting.size() == 1) layers_.push_back(action.layer);
  }
  if (layers_.empty()) return whole_;
  first_layer_ = layers_.back();
  waiting.clear();
  std::size_t next = 0;
  for (std::size_t i = 0; i < whole_.size(); ++i) {
    Action action = whole_[i];
    if (ends_step(action.op))
      for (; next < waiting.size(); ++next) add_weights(waiting[next]);
    if (action.op == Op::kBackward) {
      action.op = Op::kBackwardInput;
      if (action.layer == first_layer_) waiting.push_back(action.micro_batch);
    }
    actions_.push_back(action);
    if (ends_pass(i) && std::cmp_greater(waiting.size() - next, behind_))
      add_weights(waiting[next++]);
  }
  for (; next < waiting.size(); ++next) add_weights(waiting[next]);
  return std::move(actions_);
}

bool Split::ends_pass(std::size_t index) const {
  const auto is_last = [&](const Action& action) {
    return action.op == Op::kBackward && action.layer == first_layer_;
  };
  const Action& action = whole_[index];
  const bool sends = index + 1 < whole_.size() && whole_[index + 1].op == Op::kSendGradient;
  if (is_last(action)) return !sends;
  return action.op == Op::kSendGradient && index > 0 && is_last(whole_[index - 1]);
}

void Split::add_weights(int micro_batch) {
  for (const int layer : layers_) actions_.push_back({Op::kBackwardWeights, layer, micro_batch});
}

}  // namespace

Program with_split_backward(Program program, const WeightsBehind& behind) {
  for (std::size_t rank = 0; rank < behind.size(); ++rank) {
    if (!behind[rank]) continue;
    Actions& actions = program.ranks.at(rank);
    actions = Split(actions, *behind[rank]).actions();
  }
  return program;
}

}  // namespace trireme::program
