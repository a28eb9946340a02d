// AdaPipe's policy (Sun et al. 2024): keep or recompute, layer by layer. A recomputed layer keeps
// its input, i.e. the output of the layer before it by itself; a kept layer holds its tape.
// Choosing for a cap on the kept bytes is a knapsack; the cap is searched, and replay says what
// fits.
// SPDX-License-Identifier: Apache-2.0
#include "labels.h"
#include "stage_policy.h"
#include "sub_chains.h"
#include "values/lookup.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

namespace trireme::partition {
namespace {

using program::Op;

/// Slots of the knapsack, and number of caps tried.
constexpr int kSlots = 300;
constexpr int kTries = 12;

class PerLayerPolicy final : public StagePolicy {
 public:
  explicit PerLayerPolicy(const chain::Chain& chain) : chain_(chain), alike_(chain) {}

  Seconds time(const StageQuestion& question) override {
    const std::optional<Choice>& found = of(question);
    return found ? found->needs.time() : kNever;
  }
  std::optional<program::StageProgram> program(const StageQuestion& question) override {
    const std::optional<Choice>& found = of(question);
    if (!found) return std::nullopt;
    return labelled(question.layers.first, found->labels);
  }
  Bytes least_memory(chain::LayerRange layers, int in_flight) override {
    Bytes least = kUnlimited;
    for (const Choice& choice : extremes(layers))
      least = std::min(least, choice.needs.memory(in_flight));
    return least;
  }

 private:
  /// By layer: whether its tape or its input is kept.
  using Labels = std::vector<Op>;
  struct Choice {
    Labels labels;
    StageNeeds needs;
  };

  const std::optional<Choice>& of(const StageQuestion& question) {
    return once(found_, {alike_.earliest(question.layers), question.memory, question.in_flight},
                [&] { return solve(question); });
  }

  std::optional<Choice> solve(const StageQuestion& question) {
    const auto [first, last] = question.layers;
    std::optional<Choice> best;
    const auto fits = [&](const Choice& choice) {
      if (choice.needs.memory(question.in_flight) > question.memory) return false;
      if (!best || choice.needs.time() < best->needs.time()) best = choice;
      return true;
    };
    const std::vector<Choice>& known = extremes(question.layers);
    if (fits(known.front())) return best;  // nothing is faster
    for (const Choice& choice : known) fits(choice);
    if (!best) return best;
    double all = 0;
    for (int i = first; i <= last; ++i) all += std::max(0.0, weight(i, last));
    // Rounding up takes half a slot per layer, so the cap may have to exceed the intended bytes.
    double low = 0, high = all * (1 + static_cast<double>(question.layers.size()) / kSlots);
    for (int k = 0; k < kTries; ++k) {
      const double middle = (low + high) / 2;
      (fits(choice(first, knapsack(question.layers, middle))) ? low : high) = middle;
    }
    return best;
  }

  /// Three extremes: all layers kept, only those without weight, none. Fewer kept layers keep fewer
  /// bytes, but a recomputed layer holds its tape in its backward, so keeping nothing need not be
  /// the leanest. If none of the three fits, no set is searched.
  const std::vector<Choice>& extremes(chain::LayerRange layers) {
    return once(extremes_, alike_.earliest(layers), [&] {
      const std::size_t count = at(layers.size());
      return std::vector<Choice>{choice(layers.first, Labels(count, Op::kForwardTape)),
                                 choice(layers.first, knapsack(layers, 0)),
                                 choice(layers.first, Labels(count, Op::kForwardKeep))};
    });
  }

  Choice choice(int first, Labels labels) const {
    const StageNeeds needs = prepared(chain_, labelled(first, labels)).needs;
    return {std::move(labels), needs};
  }

  /// Layers to keep for the least time with at most `cap` bytes more than recompute_all keeps.
  Labels knapsack(chain::LayerRange run, double cap) const {
    const std::size_t layers = at(run.size()), slots = cap > 0 ? kSlots : 0;
    const double unit = std::max(cap / kSlots, 1e-9);
    std::vector<std::vector<bool>> takes(layers, std::vector<bool>(slots + 1, false));
    std::vector<Seconds> saved(slots + 1);
    std::vector<std::size_t> need(layers, 0);
    for (std::size_t k = 0; k < layers; ++k) {
      const int i = run.first + static_cast<int>(k);
      const double weighs = weight(i, run.last);
      const double units = std::min(std::ceil(weighs / unit - 1e-9), kSlots + 1.0);
      if (weighs > 0) need[k] = static_cast<std::size_t>(units);
      for (std::size_t m = slots + 1; m-- > need[k];) {
        const Seconds with = saved[m - need[k]] + chain_.layer(i).again().time;
        if (with < saved[m] || (with == saved[m] && weighs > 0)) continue;
        saved[m] = with;
        takes[k][m] = true;
      }
    }
    Labels labels(layers, Op::kForwardKeep);
    std::size_t m = slots;
    for (std::size_t k = layers; k-- > 0;) {
      if (!takes[k][m]) continue;
      labels[k] = Op::kForwardTape;
      m -= need[k];
    }
    return labels;
  }

  /// Additional kept bytes if layer i is kept.
  double weight(int i, int last) const {
    return static_cast<double>(chain_.layer(i).tape.count()) -
           (i < last ? static_cast<double>(chain_.output(i).count()) : 0);
  }

  const chain::Chain& chain_;
  SubChains alike_;
  std::map<std::tuple<chain::LayerRange, Bytes, int>, std::optional<Choice>> found_;
  std::map<chain::LayerRange, std::vector<Choice>> extremes_;
};

}  // namespace

std::unique_ptr<StagePolicy> per_layer_policy(const chain::Chain& chain) {
  return std::make_unique<PerLayerPolicy>(chain);
}

}  // namespace trireme::partition
