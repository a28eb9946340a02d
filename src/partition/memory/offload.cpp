// SPDX-License-Identifier: Apache-2.0
#include "offload.h"

#include "values/lookup.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <utility>

namespace trireme::partition {
namespace {

using program::UpdatePlace;

/// The state window is at most 1/kPartOfLayer of the largest layer's state.
constexpr int kPartOfLayer = 4;

bool some_rank(const Question& question, bool (*can)(const chain::RankSpec&)) {
  const auto begin = question.platform.ranks.begin();
  return std::any_of(begin, begin + question.stages, can);
}

/// Usable part of an offload tier; inverse of with_margin().
Bytes without_margin(Bytes room) {
  return room / 16 * 15;
}

/// Streamed layers on a device at a time.
int at_a_time(const Question& question) {
  return question.weights_at_once.value_or(program::kLeastAtOnce);
}

/// The subset of layers whose streaming saves most. The device holds bytes in proportion to the
/// largest streamed layers, so one that is much larger than the others is better kept. Given the
/// largest bytes that leave, every smaller layer saves something.
std::vector<int> leanest(const chain::Chain& chain, std::vector<int> layers, int at_once) {
  const auto weights = [&](int layer) { return chain.layer(layer).may_leave(); };
  std::stable_sort(layers.begin(), layers.end(),
                   [&](int a, int b) { return weights(a).leaving() < weights(b).leaving(); });
  std::vector<int> best = layers;
  if (layers.empty()) return best;
  const Bytes most = weights(layers.back()).leaving();
  Bytes saved = saved_bytes(chain, layers, at_once);
  std::vector<Bytes> staying;  // largest first
  while (!layers.empty() && weights(layers.back()).leaving() > Bytes(0)) {
    const chain::OffloadWeights last = weights(layers.back());
    layers.pop_back();
    staying.insert(std::upper_bound(staying.begin(), staying.end(), last.all(), std::greater<>()),
                   last.all());
    if (!layers.empty() && weights(layers.back()).leaving() == last.leaving()) continue;
    const Bytes with_fewer = saved_bytes(chain, layers, at_once);
    if (with_fewer > saved) best = layers;
    saved = std::max(saved, with_fewer);
    // `at_once` layers cost the same either way; each further one costs more.
    const auto lost = staying.begin() + std::min(std::ssize(staying), std::ptrdiff_t{at_once});
    if (std::accumulate(lost, staying.end(), Bytes(0)) >= most) break;
  }
  std::sort(best.begin(), best.end());
  return best;
}

/// The layers, in order, that fit the rank's offload tier: small ones first, which take fewer bytes
/// on the device at a time.
std::vector<int> that_fit(const chain::Chain& chain, const chain::RankSpec& rank,
                          std::vector<int> layers) {
  const auto weights = [&](int layer) { return chain.layer(layer).may_leave(); };
  if (rank.out <= BytesPerSecond(0))
    std::erase_if(layers, [&](int layer) { return weights(layer).is_trained; });
  std::stable_sort(layers.begin(), layers.end(),
                   [&](int a, int b) { return weights(a).all() < weights(b).all(); });
  Bytes room = without_margin(rank.offload_capacity());
  auto end = layers.begin();
  for (; end != layers.end() && weights(*end).all() <= room; ++end) room -= weights(*end).all();
  layers.erase(end, layers.end());
  std::sort(layers.begin(), layers.end());
  return layers;
}

/// Empty for "auto", `nowhere` for "device" and `all` for "offload".
template <class Choice>
std::optional<Choice> choice_of(const std::string& place, const char* what, Choice nowhere,
                                Choice all) {
  if (place == "auto") return std::nullopt;
  ensure(place == "device" || place == "offload", concat("'", place, "' is a place of ", what));
  return place == "offload" ? all : nowhere;
}

}  // namespace

BytesPerSecond copy_rate(const chain::RankSpec& rank) {
  return std::min(rank.out, rank.in);
}

bool can_stream(const chain::RankSpec& rank) {
  return rank.in > BytesPerSecond(0) && rank.offload_capacity() > Bytes(0);
}

bool can_move_state(const chain::RankSpec& rank) {
  return copy_rate(rank) > BytesPerSecond(0) && rank.offload_capacity() > Bytes(0);
}

bool some_can_move_state(const Question& question) {
  return some_rank(question, can_move_state);
}

bool some_can_stream(const Question& question) {
  return some_rank(question, can_stream);
}

std::vector<int> streamable(const Question& question) {
  if (!some_can_stream(question)) return {};
  return question.streamed ? *question.streamed : all_to_stream(question.chain);
}

bool has_no_copies(const Question& question) {
  return question.optimizer_copies.value_or(Seconds(0)) == Seconds(0);
}

bool has_offloaded_state(const plan::Plan& plan) {
  const std::vector<Bytes> offloaded = plan::offloaded_optimizer(plan);
  return std::any_of(offloaded.begin(), offloaded.end(), [](Bytes one) { return one > Bytes(0); });
}

std::vector<int> streamed_by(const plan::Plan& plan) {
  std::vector<int> layers;
  for (const plan::StagePlan& stage : plan.stages)
    layers.insert(layers.end(), stage.streamed.begin(), stage.streamed.end());
  return layers;
}

std::optional<Seconds> optimizer_copies_of(const std::string& place) {
  return choice_of(place, "the state", Seconds(0), kAnyTime);
}

std::optional<std::vector<int>> streamed_layers_of(const std::string& place,
                                                   const chain::Chain& chain) {
  return choice_of(place, "weights", {}, all_to_stream(chain));
}

Bytes with_margin(Bytes offloaded) {
  return offloaded + offloaded / 15 + Bytes(16);
}

Bytes offload_room(const chain::RankSpec& rank, Bytes outside) {
  return std::max(Bytes(0), rank.offload_capacity() - outside - outside / 64);
}

Bytes optimizer_state(const Question& question, const LayerRuns& runs) {
  Bytes state;
  for (const auto& [first, last] : runs)
    state += chain::optimizer_bytes(question.chain, first, last);
  return question.shared_bytes ? state - question.shared_bytes(runs).optimizer : state;
}

Bytes offloaded_optimizer(const Question& question, int rank, const LayerRuns& runs) {
  if (has_no_copies(question) || runs.empty()) return Bytes(0);
  return offloaded_optimizer(question, rank, optimizer_state(question, runs),
                             streamed_bytes(question, streamed_of(question, rank, runs)).outside);
}

Bytes offloaded_optimizer(const Question& question, int rank, Bytes state, Bytes beside) {
  const chain::RankSpec& spec = question.platform.ranks[at(rank)];
  if (has_no_copies(question) || copy_rate(spec) == BytesPerSecond(0)) return Bytes(0);
  // Splitting state adds less than a line.
  const Bytes whole = std::min(without_margin(spec.offload_capacity()),
                               spec.offload_capacity() - question.chain.state_line);
  const Bytes most = std::min(state, std::max(Bytes(0), whole - beside));
  const double by_time = question.optimizer_copies->count() * copy_rate(spec).count();
  return by_time < static_cast<double>(most.count()) ? Bytes(static_cast<std::int64_t>(by_time))
                                                     : most;
}

std::vector<int> all_to_stream(const chain::Chain& chain) {
  std::vector<int> layers;
  for (int i = 1; i <= chain.length(); ++i)
    if (chain.layer(i).may_leave().all() > Bytes(0)) layers.push_back(i);
  return layers;
}

std::vector<int> streamed_of(const Question& question, int rank, const LayerRuns& runs) {
  const chain::RankSpec& spec = question.platform.ranks[at(rank)];
  if (!question.streamed || question.streamed->empty() || !can_stream(spec)) return {};
  std::vector<int> all;
  for (const auto& [first, last] : runs) {
    auto layer = std::lower_bound(question.streamed->begin(), question.streamed->end(), first);
    for (; layer != question.streamed->end() && *layer <= last; ++layer) all.push_back(*layer);
  }
  std::vector<int> layers =
      leanest(question.chain, that_fit(question.chain, spec, std::move(all)), at_a_time(question));
  return streamed_bytes(question, layers).saved > Bytes(0) ? layers : std::vector<int>{};
}

bool saves_memory(const chain::Chain& chain, const std::vector<int>& layers, int at_once) {
  return saved_bytes(chain, leanest(chain, layers, at_once), at_once) > Bytes(0);
}

Bytes saved_bytes(const chain::Chain& chain, const std::vector<int>& layers, int at_once) {
  std::vector<chain::OffloadWeights> weights;
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
  return {.outside = all, .saved = saved_bytes(question.chain, layers, at_a_time(question))};
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

Bytes least_window(const chain::Chain& chain) {
  return chain.state_line * chain::kLeastParts;
}

Bytes update_window(const Question& question) {
  if (question.update_window) return *question.update_window;
  Bytes largest;
  for (const int layer : all_to_stream(question.chain))
    largest = std::max(largest, question.chain.layer(layer).optimizer);
  return std::max(least_window(question.chain),
                  std::min(chain::kLargestStateWindow, largest / kPartOfLayer));
}

Bytes update_window(const Question& question, int rank, const LayerRuns& runs) {
  const UpdatePlace place = question.updates.value_or(UpdatePlace::kAtEnd);
  if (place == UpdatePlace::kAtEnd || runs.size() != 1) return Bytes(0);
  const std::vector<int> updated =
      program::updated_layers(streamed_of(question, rank, runs), place, at_a_time(question));
  const bool has_state = !updated.empty() && offloaded_optimizer(question, rank, runs) > Bytes(0);
  return has_state ? update_window(question) : Bytes(0);
}

}  // namespace trireme::partition
