// Keep or recompute, layer by layer (AdaPipe: Sun et al. 2024). A layer that is run again keeps its
// input, i.e. the output of the layer before it by itself; a layer that is kept holds its tape.
// Choosing for a cap on the kept bytes is a knapsack; the cap is searched, and replay says what
// fits.
// SPDX-License-Identifier: Apache-2.0
#include "stage_policy.h"
#include "sub_chains.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

namespace trireme::partition {
namespace {

using program::Op;

/// Slots of the knapsack, and caps tried.
constexpr int kSlots = 300;
constexpr int kTries = 12;

program::StageProgram keeping(int first, int last, const std::vector<bool>& kept);

class PerLayerPolicy final : public StagePolicy {
 public:
  explicit PerLayerPolicy(const chain::Chain& chain) : chain_(chain), sub_chains_(chain) {}

  double time(const StageQuestion& question) override { return of(question).time; }
  std::optional<program::StageProgram> program(const StageQuestion& question) override {
    const Found& found = of(question);
    if (found.time == kNever) return std::nullopt;
    return keeping(question.first, question.last, found.kept);
  }
  Bytes least_memory(int first, int last, int in_flight) override {
    Bytes least = kUnlimited;
    for (const Choice& choice : extremes(first, last))
      least = std::min(least, choice.needs.memory(in_flight));
    return least;
  }

 private:
  struct Choice {
    std::vector<bool> kept;
    StageNeeds needs;
  };
  struct Found {
    double time = kNever;
    std::vector<bool> kept;
  };
  const Found& of(const StageQuestion& question);
  Found solve(const StageQuestion& question);
  Choice choice(int first, int last, std::vector<bool> kept) const;
  /// All layers kept, those alone that weigh nothing, none. The fewer layers are kept, the fewer
  /// bytes are; but a layer that is run again weighs its tape at its backward, so that the leanest
  /// need not keep nothing. One of the three fits, or no set is looked for.
  const std::vector<Choice>& extremes(int first, int last);
  /// The layers to keep for the least time with at most `cap` bytes more than recompute_all keeps;
  /// all for kNever.
  std::vector<bool> knapsack(int first, int last, double cap) const;
  /// Bytes more at the pause if layer i is kept.
  double weight(int i, int last) const {
    return static_cast<double>(chain_.layer(i).tape.count()) -
           (i < last ? static_cast<double>(chain_.output(i).count()) : 0);
  }

  const chain::Chain& chain_;
  SubChains sub_chains_;
  std::map<std::tuple<int, int, Bytes, int>, Found> found_;
  std::map<std::pair<int, int>, std::vector<Choice>> extremes_;
};

const PerLayerPolicy::Found& PerLayerPolicy::of(const StageQuestion& question) {
  const int alike = sub_chains_.earliest(question.first, question.last);
  const auto [entry, is_new] = found_.try_emplace(
      {alike, question.last - question.first, question.memory, question.in_flight});
  if (is_new) entry->second = solve(question);
  return entry->second;
}

PerLayerPolicy::Found PerLayerPolicy::solve(const StageQuestion& question) {
  const int first = question.first, last = question.last;
  double all = 0;
  for (int i = first; i <= last; ++i) all += std::max(0.0, weight(i, last));
  Found best;
  const auto fits = [&](const Choice& choice) {
    if (choice.needs.memory(question.in_flight) > question.memory) return false;
    if (choice.needs.time() < best.time) best = {choice.needs.time(), choice.kept};
    return true;
  };
  const std::vector<Choice>& known = extremes(first, last);
  if (fits(known.front())) return best;  // nothing is faster
  for (const Choice& choice : known) fits(choice);
  if (best.time == kNever) return best;
  // Rounding up takes half a slot per layer, so that the cap may have to exceed what is meant.
  double low = 0, high = all * (1 + static_cast<double>(last - first + 1) / kSlots);
  for (int k = 0; k < kTries; ++k) {
    const double middle = (low + high) / 2;
    (fits(choice(first, last, knapsack(first, last, middle))) ? low : high) = middle;
  }
  return best;
}

PerLayerPolicy::Choice PerLayerPolicy::choice(int first, int last, std::vector<bool> kept) const {
  const StageNeeds needs = prepared(chain_, keeping(first, last, kept)).needs;
  return {std::move(kept), needs};
}

const std::vector<PerLayerPolicy::Choice>& PerLayerPolicy::extremes(int first, int last) {
  const int alike = sub_chains_.earliest(first, last);
  const auto [entry, is_new] = extremes_.try_emplace({alike, last - first});
  if (is_new) {
    const std::vector<bool> none(static_cast<std::size_t>(last - first + 1), false);
    for (std::vector<bool> kept : {knapsack(first, last, kNever), knapsack(first, last, 0), none})
      entry->second.push_back(choice(first, last, std::move(kept)));
  }
  return entry->second;
}

std::vector<bool> PerLayerPolicy::knapsack(int first, int last, double cap) const {
  const auto layers = static_cast<std::size_t>(last - first + 1);
  if (cap == kNever) return std::vector<bool>(layers, true);
  const double unit = std::max(cap / kSlots, 1e-9);
  const std::size_t slots = cap > 0 ? kSlots : 0;
  std::vector<std::vector<bool>> takes(layers, std::vector<bool>(slots + 1, false));
  std::vector<double> saved(slots + 1, 0);
  std::vector<std::size_t> need(layers, 0);
  for (std::size_t k = 0; k < layers; ++k) {
    const int i = first + static_cast<int>(k);
    const double weighs = weight(i, last);
    need[k] =
        weighs <= 0
            ? 0
            : static_cast<std::size_t>(std::min(std::ceil(weighs / unit - 1e-9), kSlots + 1.0));
    for (std::size_t m = slots + 1; m-- > need[k];) {
      const double with = saved[m - need[k]] + chain_.layer(i).again().time.count();
      if (with < saved[m] || (with == saved[m] && weighs > 0)) continue;
      saved[m] = with;
      takes[k][m] = true;
    }
  }
  std::vector<bool> kept(layers, false);
  std::size_t m = slots;
  for (std::size_t k = layers; k-- > 0;) {
    kept[k] = takes[k][m];
    if (kept[k]) m -= need[k];
  }
  return kept;
}

program::StageProgram keeping(int first, int last, const std::vector<bool>& kept) {
  program::StageProgram program{.first_layer = first, .last_layer = last};
  for (int i = first; i <= last; ++i) {
    const bool keeps = kept[static_cast<std::size_t>(i - first)];
    program.forward.push_back({keeps ? Op::kForwardTape : Op::kForwardKeep, i});
  }
  for (int i = last; i >= first; --i) {
    const bool keeps = kept[static_cast<std::size_t>(i - first)];
    // Its output was the input of the layer above, and went with that layer's backward.
    if (!keeps) program.backward.push_back({Op::kForwardTape, i});
    program.backward.push_back({Op::kBackward, i});
  }
  return program;
}

}  // namespace

std::unique_ptr<StagePolicy> per_layer_policy(const chain::Chain& chain) {
  return std::make_unique<PerLayerPolicy>(chain);
}

}  // namespace trireme::partition
