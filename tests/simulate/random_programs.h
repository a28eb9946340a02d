// Seeded random chains and random legal programs: tapes kept or not, inputs kept, dropped and
// recomputed, values offloaded and prefetched.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "simulate/chains.h"

#include "trireme/program/generate.h"
#include "trireme/program/retape.h"
#include "trireme/schedule/named.h"

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

namespace trireme::simulate {

class Dice {
 public:
  explicit Dice(unsigned seed) : generator_(seed) {}
  /// least..most, the same on every machine.
  int roll(int least, int most) {
    return least + static_cast<int>(generator_() % static_cast<unsigned>(most - least + 1));
  }

 private:
  std::mt19937 generator_;
};

inline chain::Chain random_chain(Dice& dice, int length) {
  int input = dice.roll(0, 9);
  std::vector<Costs> layers;
  int below = input;
  for (int i = 0; i < length; ++i) {
    Costs costs;
    costs.forward = dice.roll(1, 5);
    costs.backward = dice.roll(1, 9);
    costs.output = dice.roll(0, 9);
    costs.tape = costs.output + dice.roll(0, 9);
    costs.forward_transient = dice.roll(0, 6);
    costs.tape_transient = dice.roll(0, 6);
    costs.backward_transient = below + dice.roll(0, 6);
    below = costs.output;
    layers.push_back(costs);
  }
  chain::Chain chain = chain_of(input, layers);
  for (chain::LayerCost& layer : chain.layers) {
    const auto part = [&](Bytes size) {
      return Bytes(dice.roll(0, static_cast<int>(size.count())));
    };
    layer.retape = {.time = layer.forward / dice.roll(1, 3),
                    .tape = part(layer.tape),
                    .tape_transient = part(layer.tape_transient),
                    .backward_transient = Bytes(dice.roll(0, 12))};
    if (dice.roll(0, 2) == 0) layer.tape_stays = part(layer.tape);
  }
  return chain;
}

/// The chain with backwards in two parts.
inline chain::Chain with_splits(Dice& dice, chain::Chain chain) {
  for (chain::LayerCost& layer : chain.layers)
    layer.split = {.weights = layer.backward / dice.roll(1, 4),
                   .pending = Bytes(dice.roll(0, 9)),
                   .input_transient = layer.backward_transient + Bytes(dice.roll(-3, 9)),
                   .weights_transient = Bytes(dice.roll(0, 3))};
  return chain;
}

/// By rank, a number of passes by which weight gradients are deferred; nothing: whole backwards.
using Deferred = std::vector<std::optional<int>>;

/// 1F1B or GPipe.
inline schedule::Order random_order(Dice& dice, schedule::PipelineShape shape) {
  return dice.roll(0, 1) == 0 ? schedule::one_f_one_b(shape) : schedule::gpipe(shape);
}

/// Any order in which these chunks can run, with room for all messages: whatever may run next does.
inline schedule::Order any_order(Dice& dice, const schedule::Placement& placement,
                                 int micro_batches, bool may_split) {
  using Kind = schedule::Pass::Kind;
  struct Done {
    int forwards = 0, backwards = 0, weights = 0;
  };
  const auto chunks = static_cast<int>(placement.size());
  std::vector<Done> done(placement.size());
  schedule::Order order(static_cast<std::size_t>(schedule::ranks_of(placement)));
  for (;;) {
    std::vector<schedule::Pass> ready;
    for (int c = 0; c < chunks; ++c) {
      const Done& now = done[static_cast<std::size_t>(c)];
      const int inputs = c == 0 ? micro_batches : done[static_cast<std::size_t>(c - 1)].forwards;
      const int gradients =
          c + 1 == chunks ? now.forwards : done[static_cast<std::size_t>(c + 1)].backwards;
      if (now.forwards < inputs) ready.push_back({Kind::kForward, c});
      if (now.backwards < std::min(now.forwards, gradients)) {
        if (now.weights == now.backwards) ready.push_back({Kind::kBackward, c});
        if (may_split) ready.push_back({Kind::kBackwardInput, c});
      }
      if (now.weights < now.backwards) ready.push_back({Kind::kBackwardWeights, c});
    }
    if (ready.empty()) return order;
    const schedule::Pass next =
        ready[static_cast<std::size_t>(dice.roll(0, static_cast<int>(ready.size()) - 1))];
    const auto chunk = static_cast<std::size_t>(next.chunk);
    done[chunk].forwards += next.kind == Kind::kForward ? 1 : 0;
    done[chunk].backwards += schedule::is_backward(next.kind) ? 1 : 0;
    done[chunk].weights += schedule::gives_weights(next.kind) ? 1 : 0;
    order[static_cast<std::size_t>(placement[chunk])].push_back(next);
  }
}

/// The order, with one stage on every rank, with deferred weight gradients.
inline schedule::Order with_deferred(const schedule::Order& order, const Deferred& deferred) {
  const schedule::Placement ranks = schedule::one_each(static_cast<int>(order.size()));
  return schedule::one_f_one_b_with(schedule::in_flight(order, ranks),
                                    schedule::micro_batches_of(order, ranks), deferred);
}

/// Deferred weight gradients on some of `ranks` ranks.
inline Deferred random_deferred(Dice& dice, int ranks, int micro_batches) {
  Deferred deferred(static_cast<std::size_t>(ranks));
  for (auto& number : deferred)
    if (dice.roll(0, 2) > 0) number = dice.roll(0, micro_batches);
  return deferred;
}

/// Builds a legal program for a stage choice by choice.
class RandomStage {
 public:
  RandomStage(Dice& dice, int first, int last, bool copies)
      : dice_(dice), program_{first, last, {}, {}}, copies_(copies) {}

  program::StageProgram make() {
    std::vector<program::Action> backward;
    first_pass(program_.first_layer, true, backward);
    append(program_.forward, offloaded_);
    append(program_.backward, back_);
    append(program_.backward, backward);
    return program_;
  }

 private:
  using List = std::vector<program::Action>;
  using Op = program::Op;

  static void append(List& list, const List& more) {
    list.insert(list.end(), more.begin(), more.end());
  }

  /// Untaped forwards `from`..`to`; the input of `from` stays.
  static void run(List& list, int from, int to) {
    for (int i = from; i <= to; ++i)
      list.push_back({i == from ? Op::kForwardKeep : Op::kForward, i});
  }

  /// Layers k.. for the first time; x[k-1] is held, by itself or inside a tape.
  void first_pass(int k, bool standalone, List& backward) {
    const int last = program_.last_layer;
    if (k > last) return;
    List& forward = program_.forward;
    List after;
    const int choice = dice_.roll(0, 2);
    if (choice == 0 || (choice == 2 && k == last)) {
      forward.push_back({Op::kForwardTape, k});
      if (copies_ && dice_.roll(0, 2) == 0) {
        offloaded_.push_back({Op::kOffloadTape, k});
        back_.push_back({Op::kPrefetchTape, k});
      }
      first_pass(k + 1, false, backward);
      after.push_back({Op::kBackward, k});
    } else if (choice == 1) {
      const int j = dice_.roll(k, last);
      forward.push_back({Op::kForwardKeep, k});
      if (copies_ && standalone && dice_.roll(0, 1) == 0) {
        forward.push_back({Op::kOffload, k - 1});
        after.push_back({Op::kPrefetch, k - 1});
      }
      for (int i = k + 1; i <= j; ++i) forward.push_back({Op::kForward, i});
      first_pass(j + 1, true, backward);
      again(k, j, after);
    } else {
      const int j = dice_.roll(k + 1, last);
      tape_without_input(k, j, forward);
      first_pass(j + 1, false, backward);
      input_again(k, j, after);
    }
    append(backward, after);
  }

  /// Forward and backward of s..t; x[s-1] and the gradient of x[t] are held.
  void again(int s, int t, List& list) {
    if (s > t) return;
    const int choice = s == t ? 0 : dice_.roll(0, 2);
    if (choice == 0) {
      list.push_back({Op::kForwardTape, s});
      again(s + 1, t, list);
      list.push_back({Op::kBackward, s});
    } else if (choice == 1) {
      const int j = dice_.roll(s + 1, t);
      run(list, s, j - 1);
      again(j, t, list);
      again(s, j - 1, list);
    } else {
      const int j = dice_.roll(s + 1, t);
      tape_without_input(s, j, list);
      again(j + 1, t, list);
      input_again(s, j, list);
    }
  }

  void tape_without_input(int s, int j, List& list) {
    run(list, s, j - 1);
    list.push_back({Op::kForwardTape, j});
    list.push_back({Op::kDrop, j - 1});
  }

  void input_again(int s, int j, List& list) {
    run(list, s, j - 1);
    list.push_back({Op::kBackward, j});
    again(s, j - 1, list);
  }

  Dice& dice_;
  program::StageProgram program_;
  bool copies_;
  List offloaded_, back_;  // offloads of tapes after their last use, prefetches before the next
};

/// The stage's program with one random change: actions swapped, moved, left out, written twice; a
/// layer run once more, a value offloaded and prefetched, anywhere. Mostly it cannot run then.
inline program::StageProgram changed(Dice& dice, program::StageProgram stage) {
  using program::Op;
  std::vector<program::Action>& list = dice.roll(0, 1) == 0 ? stage.forward : stage.backward;
  const auto somewhere = [&](int more) {
    return list.begin() + dice.roll(0, std::max(0, static_cast<int>(list.size()) - 1 + more));
  };
  const int layer = dice.roll(stage.first_layer, stage.last_layer);
  const auto insert_pair = [&](Op out, Op in, int moved) {
    const auto place = list.insert(somewhere(1), {out, moved});
    const int after = dice.roll(1, static_cast<int>(list.end() - place));
    list.insert(place + after, {in, moved});
  };
  if (list.empty()) return stage;
  switch (dice.roll(0, 7)) {
    case 0:
      std::iter_swap(somewhere(0), somewhere(0));
      break;
    case 1:
      list.erase(somewhere(0));
      break;
    case 2: {
      const program::Action again = *somewhere(0);
      list.insert(somewhere(1), again);
      break;
    }
    case 3:
      list.insert(somewhere(1), {dice.roll(0, 1) == 0 ? Op::kForwardKeep : Op::kForward, layer});
      break;
    case 4:
      insert_pair(Op::kOffloadTape, Op::kPrefetchTape, layer);
      break;
    case 5:
      insert_pair(Op::kOffload, Op::kPrefetch, layer - dice.roll(0, 1));
      break;
    case 6:
      list.insert(somewhere(1), {Op::kDrop, layer - dice.roll(0, 1)});
      break;
    case 7: {  // its output is recomputed while a tape is offloaded
      const Op run = dice.roll(0, 1) == 0 ? Op::kForwardKeep : Op::kForward;
      std::vector<program::Action> added{
          {Op::kOffloadTape, layer}, {run, layer}, {Op::kPrefetchTape, layer}, {Op::kDrop, layer}};
      if (dice.roll(0, 1) == 0) std::swap(added[2], added[3]);
      auto place = somewhere(1);
      for (const program::Action& action : added) {
        place = list.insert(place, action) + 1;
        place += dice.roll(0, std::min(2, static_cast<int>(list.end() - place)));
      }
      break;
    }
  }
  return stage;
}

/// The chain's layers cut at random into `stages`, each with a random program.
inline std::vector<program::StageProgram> random_stages(Dice& dice, const chain::Chain& chain,
                                                        int stages, bool copies) {
  const int layers = chain.length();
  std::vector<int> lasts;
  for (int i = 1; i < layers; ++i) lasts.push_back(i);
  for (std::size_t i = lasts.size(); i > 1; --i)
    std::swap(lasts[i - 1], lasts[static_cast<std::size_t>(dice.roll(0, static_cast<int>(i) - 1))]);
  lasts.resize(static_cast<std::size_t>(stages) - 1);
  std::sort(lasts.begin(), lasts.end());
  lasts.push_back(layers);
  std::vector<program::StageProgram> programs;
  int first = 1;
  for (const int last : lasts) {
    program::StageProgram program = RandomStage(dice, first, last, copies).make();
    if (dice.roll(0, 1) == 0) program = program::with_retapes(std::move(program), chain);
    programs.push_back(std::move(program));
    first = last + 1;
  }
  return programs;
}

}  // namespace trireme::simulate
