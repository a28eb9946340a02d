// SPDX-License-Identifier: Apache-2.0
#include "trireme/program/groups.h"

#include "trireme/core/error.h"
#include "trireme/program/needs.h"
#include "trireme/program/weight_uses.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <tuple>

namespace trireme::program {
namespace {

/// Adjacent actions of one layer and one group.
using Block = std::span<const Action>;

/// Whether it loads or receives what the next action of a layer needs.
bool leads(Op op) {
  return op == Op::kLoadInput || op == Op::kLoadTarget || is_receive(op);
}

std::size_t end_of_block(const std::vector<Action>& actions, std::size_t begin) {
  if (ends_step(actions[begin].op) || is_copy_in(actions[begin].op)) return begin + 1;
  std::optional<int> layer;
  bool has_sent = false;
  std::size_t end = begin;
  for (std::size_t i = begin; i < actions.size(); ++i) {
    const Action& action = actions[i];
    if (ends_step(action.op) || action.micro_batch != actions[begin].micro_batch) break;
    if (uses_weights(action.op) && layer.value_or(action.layer) != action.layer) break;
    // All of a group is sent before anything is received for it.
    if (has_sent && (uses_weights(action.op) || leads(action.op))) break;
    has_sent = has_sent || is_send(action.op);
    if (uses_weights(action.op)) layer = action.layer;
    // A load or receive is part of the block only if the action that needs it is. A copy in for a
    // later layer has no room while others of the group run.
    if (!leads(action.op) && !is_copy_in(action.op)) end = i + 1;
  }
  return std::max(end, begin + 1);
}

std::vector<Block> blocks_of(const std::vector<Action>& actions) {
  std::vector<Block> blocks;
  for (std::size_t begin = 0; begin < actions.size();) {
    const std::size_t end = end_of_block(actions, begin);
    blocks.push_back(Block(actions).subspan(begin, end - begin));
    begin = end;
  }
  return blocks;
}

/// The first action of that kind, or none.
const Action* find(const Block& block, Op op) {
  const auto found = std::find_if(block.begin(), block.end(),
                                  [&](const Action& action) { return action.op == op; });
  return found == block.end() ? nullptr : &*found;
}

/// The layer whose weights it uses; 0: none.
int layer_of(const Block& block) {
  const auto used = std::find_if(block.begin(), block.end(),
                                 [](const Action& action) { return uses_weights(action.op); });
  return used == block.end() ? 0 : used->layer;
}

/// Where the sends and receives stand in the lists of the ranks.
class Messages {
 public:
  explicit Messages(const Program& program) {
    for (const std::vector<Action>& actions : program.ranks) {
      for (std::size_t i = 0; i < actions.size(); ++i) {
        const Action& action = actions[i];
        if (is_send(action.op) || is_receive(action.op))
          places_.insert({{action.op, action.layer, action.micro_batch}, i});
      }
    }
  }

  /// Whether a neighbour receives what `one` sends only after sending what `next`, of the same
  /// layer, receives: if all messages of one block went before any of the other, both ranks could
  /// wait for room forever.
  bool take_turns(const Block& one, const Block& next) const {
    if (layer_of(one) != layer_of(next)) return false;
    return cross(find(one, Op::kSendOutput), Op::kReceiveInput,  //
                 find(next, Op::kReceiveGradient), Op::kSendGradient) ||
           cross(find(one, Op::kSendGradient), Op::kReceiveGradient,  //
                 find(next, Op::kReceiveInput), Op::kSendOutput);
  }

 private:
  /// For a message that is sent here before another is received: whether the other rank has it
  /// `taken` only after the other message was `given`.
  bool cross(const Action* sent, Op taken, const Action* received, Op given) const {
    if (sent == nullptr || received == nullptr || sent->layer != received->layer) return false;
    const auto take = places_.find({taken, sent->layer, sent->micro_batch}),
               give = places_.find({given, received->layer, received->micro_batch});
    return take != places_.end() && give != places_.end() && give->second < take->second;
  }

  std::map<std::tuple<Op, int, int>, std::size_t> places_;
};

}  // namespace

int groups_of(int micro_batches, int group) {
  ensure(micro_batches >= 1 && group >= 1, "a group has a micro-batch");
  return (micro_batches - 1) / group + 1;
}

Program in_groups(const Program& program, int group, int micro_batches) {
  ensure(program.micro_batches == groups_of(micro_batches, group),
         "a program for groups has a micro-batch for each of them");
  Program result{.layers = program.layers,
                 .micro_batches = micro_batches,
                 .rank_of_layer = program.rank_of_layer,
                 .ranks = {}};
  const Messages messages(program);
  for (const std::vector<Action>& actions : program.ranks) {
    std::vector<Action>& expanded = result.ranks.emplace_back();
    const auto append = [&](const Block& block, int place) {
      const int micro_batch = block.front().micro_batch * group + place;
      if (micro_batch >= micro_batches || (ends_step(block.front().op) && place > 0)) return;
      for (const Action& action : block) expanded.push_back({action.op, action.layer, micro_batch});
    };
    const std::vector<Block> blocks = blocks_of(actions);
    for (std::size_t k = 0; k < blocks.size(); ++k) {
      const bool two = k + 1 < blocks.size() && messages.take_turns(blocks[k], blocks[k + 1]);
      for (int place = 0; place < group; ++place) {
        append(blocks[k], place);
        if (two) append(blocks[k + 1], place);
      }
      if (two) ++k;
    }
  }
  return result;
}

}  // namespace trireme::program
