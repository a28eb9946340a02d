// SPDX-License-Identifier: Apache-2.0
#include "streamed_layers.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace trireme::partition {
namespace {

/// Of the layers, those with which a rank holds least: of what changes, it holds as much as leaves
/// at a time beside what is used, and one that is much larger than the others may as well stay.
/// With a limit to what leaves at a time, every layer below it saves something.
std::vector<int> leanest(const Question& question, std::vector<int> layers) {
  const auto weights = [&](int layer) { return question.chain.layer(layer).may_leave(); };
  std::stable_sort(layers.begin(), layers.end(),
                   [&](int a, int b) { return weights(a).leaving() < weights(b).leaving(); });
  std::vector<int> best = layers;
  if (layers.empty()) return best;
  const Bytes most = weights(layers.back()).leaving();
  Bytes saved = streamed_bytes(question, layers).saved;
  std::vector<Bytes> staying;  // largest first
  while (!layers.empty() && weights(layers.back()).leaving() > Bytes(0)) {
    const chain::OuterWeights last = weights(layers.back());
    layers.pop_back();
    staying.insert(std::upper_bound(staying.begin(), staying.end(), last.all(), std::greater<>()),
                   last.all());
    if (!layers.empty() && weights(layers.back()).leaving() == last.leaving()) continue;
    const Bytes with_fewer = streamed_bytes(question, layers).saved;
    if (with_fewer > saved) best = layers;
    saved = std::max(saved, with_fewer);
    // As many as are there at a time would cost the same either way, the others more and more.
    const auto at_once = question.weights_at_once.value_or(program::kLeastAtOnce);
    const auto lost = staying.begin() + std::min(std::ssize(staying), std::ptrdiff_t{at_once});
    if (std::accumulate(lost, staying.end(), Bytes(0)) >= most) break;
  }
  std::sort(best.begin(), best.end());
  return best;
}

/// Of the layers, in their order, those that the rank's outer tier has room for: small ones first,
/// of which fewer bytes are on the device at a time.
std::vector<int> that_fit(const chain::Chain& chain, const chain::RankSpec& rank,
                          std::vector<int> layers) {
  const auto weights = [&](int layer) { return chain.layer(layer).may_leave(); };
  if (rank.out <= BytesPerSecond(0))
    std::erase_if(layers, [&](int layer) { return weights(layer).is_trained; });
  std::stable_sort(layers.begin(), layers.end(),
                   [&](int a, int b) { return weights(a).all() < weights(b).all(); });
  // As with_margin() has it.
  Bytes room = rank.outer() / 16 * 15;
  auto end = layers.begin();
  for (; end != layers.end() && weights(*end).all() <= room; ++end) room -= weights(*end).all();
  layers.erase(end, layers.end());
  std::sort(layers.begin(), layers.end());
  return layers;
}

}  // namespace

bool can_stream(const chain::RankSpec& rank) {
  return rank.in > BytesPerSecond(0) && rank.outer() > Bytes(0);
}

std::vector<int> all_to_stream(const chain::Chain& chain) {
  std::vector<int> layers;
  for (int i = 1; i <= chain.length(); ++i)
    if (chain.layer(i).may_leave().all() > Bytes(0)) layers.push_back(i);
  return layers;
}

std::optional<std::vector<int>> streamed_layers_of(const std::string& place,
                                                   const chain::Chain& chain) {
  if (place == "auto") return std::nullopt;
  ensure(place == "device" || place == "outer", concat("'", place, "' is a place of weights"));
  return place == "outer" ? all_to_stream(chain) : std::vector<int>{};
}

std::vector<int> streamed_of(const Question& question, int rank, const LayerRuns& runs) {
  const chain::RankSpec& spec = question.platform.ranks[static_cast<std::size_t>(rank)];
  if (!question.streamed || question.streamed->empty() || !can_stream(spec)) return {};
  std::vector<int> all;
  for (const auto& [first, last] : runs) {
    auto layer = std::lower_bound(question.streamed->begin(), question.streamed->end(), first);
    for (; layer != question.streamed->end() && *layer <= last; ++layer) all.push_back(*layer);
  }
  std::vector<int> layers = leanest(question, that_fit(question.chain, spec, std::move(all)));
  return streamed_bytes(question, layers).saved > Bytes(0) ? layers : std::vector<int>{};
}

bool some_can_stream(const Question& question) {
  const auto end = question.platform.ranks.begin() + question.stages;
  return std::any_of(question.platform.ranks.begin(), end, can_stream);
}

std::vector<int> streamable(const Question& question) {
  if (!some_can_stream(question)) return {};
  return question.streamed ? *question.streamed : all_to_stream(question.chain);
}

std::vector<int> streamed_by(const plan::Plan& plan) {
  std::vector<int> layers;
  for (const plan::StagePlan& stage : plan.stages)
    layers.insert(layers.end(), stage.streamed.begin(), stage.streamed.end());
  return layers;
}

Bytes saved_bytes(const chain::Chain& chain, const std::vector<int>& layers, int at_once) {
  std::vector<chain::OuterWeights> weights;
  Bytes all;
  for (const int layer : layers) {
    weights.push_back(chain.layer(layer).may_leave());
    all += weights.back().all();
  }
  return all - chain::weights_window(std::move(weights), at_once);
}

StreamedBytes streamed_bytes(const Question& question, const std::vector<int>& layers) {
  Bytes all;
  for (const int layer : layers) all += question.chain.layer(layer).may_leave().all();
  return {.outside = all,
          .saved = saved_bytes(question.chain, layers,
                               question.weights_at_once.value_or(program::kLeastAtOnce))};
}

std::vector<int> layers_to_stream(const chain::Chain& chain, int count) {
  std::vector<int> layers = all_to_stream(chain);
  const auto size_of = [&](int layer) { return chain.layer(layer).may_leave().all(); };
  std::stable_sort(layers.begin(), layers.end(),
                   [&](int a, int b) { return size_of(a) < size_of(b); });
  auto begin = layers.begin();
  std::vector<int> chosen;
  while (begin != layers.end() && count > 0) {
    const auto end = std::find_if(begin, layers.end(),
                                  [&](int layer) { return size_of(layer) != size_of(*begin); });
    const auto equal = static_cast<std::size_t>(end - begin);
    const std::size_t taken = std::min(equal, static_cast<std::size_t>(count));
    for (std::size_t k = 0; k < taken; ++k)
      chosen.push_back(begin[static_cast<std::ptrdiff_t>((2 * k + 1) * equal / (2 * taken))]);
    count -= static_cast<int>(taken);
    begin = end;
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

}  // namespace trireme::partition
