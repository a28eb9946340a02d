// SPDX-License-Identifier: Apache-2.0
#include "prices.h"

#include "axes/choices.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace trireme::partition {
namespace {

constexpr std::array kCopies{0.5, 0.25, 0.125, 0.03};
/// Joules per second of two layers that differ by less count as the same.
constexpr double kSame = 0.01;

Joules forward_energy(const Problem& problem, int layer) {
  const chain::LayerCost& cost = problem.chain.layer(layer);
  return pass_energy(problem.platform.ranks.front(), cost.forward_energy, cost.forward);
}

Joules backward_energy(const Problem& problem, int layer) {
  const chain::LayerCost& cost = problem.chain.layer(layer);
  return pass_energy(problem.platform.ranks.front(), cost.backward_energy, cost.backward);
}

/// Energy of a pass per second of its time; nothing for one that takes no time.
std::vector<double> watts(const Problem& problem) {
  std::vector<double> found;
  const auto add = [&](Joules energy, Seconds time) {
    if (time > Seconds(0)) found.push_back(energy.count() / time.count());
  };
  for (int i = 1; i <= problem.chain.length(); ++i) {
    add(forward_energy(problem, i), problem.chain.layer(i).forward);
    add(backward_energy(problem, i), problem.chain.layer(i).backward);
  }
  return found;
}

bool vary(const std::vector<double>& numbers) {
  if (numbers.empty()) return false;
  const auto [least, most] = std::minmax_element(numbers.begin(), numbers.end());
  return *most > *least * (1 + kSame);
}

/// Seconds that one joule is worth where passes are priced by energy alone: the chain takes the
/// same time at either price.
double seconds_per_joule(const Problem& problem) {
  double seconds = 0, joules = 0;
  for (int i = 1; i <= problem.chain.length(); ++i) {
    seconds += (problem.chain.layer(i).forward + problem.chain.layer(i).backward).count();
    joules += (forward_energy(problem, i) + backward_energy(problem, i)).count();
  }
  return joules > 0 ? seconds / joules : 0;
}

bool can_copy(const Problem& problem) {
  const auto& ranks = problem.platform.ranks;
  return std::any_of(ranks.begin(), ranks.begin() + problem.stages, can_stream);
}

void price_passes(Question& question, double share) {
  if (share == 0) return;
  const double worth = seconds_per_joule(question);
  std::vector<chain::LayerCost> layers = question.chain.layers;
  const auto mixed = [&](Seconds time, Joules energy) {
    return time * (1 - share) + Seconds(energy.count() * worth) * share;
  };
  for (int i = 1; i <= question.chain.length(); ++i) {
    const chain::LayerCost& real = question.chain.layer(i);
    chain::LayerCost& layer = layers[static_cast<std::size_t>(i - 1)];
    layer.forward = mixed(real.forward, forward_energy(question, i));
    layer.backward = mixed(real.backward, backward_energy(question, i));
    if (layer.retape && real.forward > Seconds(0))
      layer.retape->time = layer.forward * (layer.retape->time / real.forward);
    if (layer.split && real.backward > Seconds(0))
      layer.split->weights = layer.backward * (layer.split->weights / real.backward);
  }
  question.chain.layers = std::move(layers);
}

void price_copies(Question& question, double factor) {
  for (chain::RankSpec& rank : question.platform.ranks) {
    const double rate = std::isinf(factor) ? 0 : 1 / factor;
    rank.out = BytesPerSecond(rank.out.count() * rate);
    rank.in = BytesPerSecond(rank.in.count() * rate);
  }
}

}  // namespace

Joules pass_energy(const chain::RankSpec& rank, Joules known, Seconds time) {
  return known > Joules(0) ? known : rank.power.busy * (time / rank.speed);
}

bool knows_energy(const Problem& problem) {
  const auto& ranks = problem.platform.ranks;
  const auto& layers = problem.chain.layers;
  return std::any_of(ranks.begin(), ranks.begin() + problem.stages,
                     [](const chain::RankSpec& rank) { return rank.power != chain::Power{}; }) ||
         std::any_of(layers.begin(), layers.end(), [](const chain::LayerCost& layer) {
           return layer.forward_energy + layer.backward_energy > Joules(0);
         });
}

Question priced(Question question, const Prices& prices) {
  price_passes(question, prices.joules);
  price_copies(question, prices.copies);
  // Orders of passes save no joules of these, and take long to search.
  if (question.chunks == kSearchedChunks) question.chunks = kNoChunks;
  return question;
}

std::vector<Prices> prices_to_try(const Question& question) {
  std::vector<Prices> all;
  if (vary(watts(question))) all.push_back({.joules = 1});
  if (!can_copy(question)) return all;
  for (const double factor : kCopies) all.push_back({.copies = factor});
  const bool may_do_without = (!question.streamed || question.streamed->empty()) &&
                              question.optimizer_copies.value_or(Seconds(0)) == Seconds(0);
  if (may_do_without) all.push_back({.copies = std::numeric_limits<double>::infinity()});
  return all;
}

}  // namespace trireme::partition
