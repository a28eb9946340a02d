// SPDX-License-Identifier: Apache-2.0
#include "axis.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace trireme::partition {
namespace {

/// Gaps up to this share of the line whose ends differ by at most this factor in step time are not
/// bisected.
constexpr double kNarrow = 0.125, kFlat = 1.0005;

/// Position of simulated choices on the line.
double number_of(const Line& line, const Judged& judged) {
  return line.position && judged.plan() != nullptr ? line.position(judged)
                                                   : line.asked(judged.choices);
}

/// A known point of the line: position and step time.
struct Known {
  double position;
  Seconds step;
};

std::vector<Known> known_on(const Line& line, const Log& log) {
  std::vector<Known> known;
  for (const Judged& one : log.all()) {
    if (line.at(line.asked(one.choices)) != one.choices) continue;
    known.push_back({number_of(line, one), one.step()});
  }
  for (const Choices& one : log.passed_over())
    if (const double asked = line.asked(one); line.at(asked) == one)
      known.push_back({asked, kAnyTime});
  std::stable_sort(known.begin(), known.end(),
                   [](const Known& a, const Known& b) { return a.position < b.position; });
  return known;
}

/// Middles towards the nearest known numbers on both sides of the best, on whatever line they were
/// simulated.
std::vector<Choices> beside(const Line& line, const Scene& scene) {
  const double here = number_of(line, scene.best);
  double below = line.low, above = line.high;
  for (const Judged& one : scene.log.all()) {
    const double number = number_of(line, one);
    if (number < here) below = std::max(below, number);
    if (number > here) above = std::min(above, number);
  }
  std::vector<Choices> moves;
  for (const double other : {below, above})
    if (std::isfinite(other) && std::abs(other - here) >= line.finest)
      moves.push_back(line.at((here + other) / 2));
  return moves;
}

}  // namespace

std::vector<Choices> along(const Line& line, const Scene& scene) {
  std::vector<Known> known = known_on(line, scene.log);
  if (scene.round > 0 && known.size() < 2) return beside(line, scene);
  std::vector<Choices> ends;
  for (const double end : {line.low, line.high})
    if (!scene.log.is_settled(line.at(end))) ends.push_back(line.at(end));
  if (scene.round == 0 && !ends.empty()) return ends;
  const auto best = std::min_element(
      known.begin(), known.end(), [](const Known& a, const Known& b) { return a.step < b.step; });
  if (best == known.end() || best->step == kAnyTime) return {};
  const double here = best->position;
  std::vector<double> others;  // the farther one first
  double farthest = known.front().position;
  for (const Known& one : known)
    if (std::isfinite(one.position)) farthest = std::max(farthest, one.position);
  const double width = farthest - known.front().position;
  const auto consider = [&](const Known& other) {
    const bool is_flat =
        other.step <= best->step * kFlat && std::abs(other.position - here) <= width * kNarrow;
    if (!is_flat) others.push_back(other.position);
  };
  if (best != known.begin()) consider(*std::prev(best));
  if (std::next(best) != known.end()) consider(*std::next(best));
  if (others.size() == 2 && others[1] - here > here - others[0]) std::swap(others[0], others[1]);
  for (const double other : others) {
    if (!std::isfinite(other)) continue;  // its middle is the same end
    // Several numbers may be the same choices.
    for (double gap = other - here; std::abs(gap) >= line.finest && gap != 0; gap /= 2) {
      Choices middle = line.at(here + gap / 2);
      if (!scene.log.is_settled(middle)) return {std::move(middle)};
    }
  }
  return {};
}

}  // namespace trireme::partition
