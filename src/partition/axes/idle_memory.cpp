// Memory left idle by plans with streamed weights. Solvers reserve the most that streamed weights
// ever take, but activations may peak at another time; the simulator, which counts both action by
// action, finds a lower peak. So programs are made for that much more memory, and accepted if they
// fit the real budgets.
// SPDX-License-Identifier: Apache-2.0
#include "axis.h"
#include "judge/judge.h"
#include "memory/offload.h"
#include "values/effort.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <utility>

namespace trireme::partition {
namespace {

/// Least idle memory worth using, as a share of a budget.
constexpr double kWorthIt = 0.01;
/// Runners-up whose own idle memory is tried too, if they are nearly as fast as the best.
constexpr std::size_t kRunnersUp = 3;
constexpr double kAmongFastest = 1.15;
/// Proposals without a gain for slow questions (pipelines and long chains): all idle memory, then
/// half.
constexpr int kFewMisses = 2;

Bytes times(double share, Bytes bytes) {
  return Bytes(static_cast<std::int64_t>(share * static_cast<double>(bytes.count())));
}

Bytes saved(const Problem& problem, const Choices& choices, const std::vector<int>& layers) {
  return saved_bytes(problem.chain, layers, choices.weights_at_once);
}

/// By rank, the unused part of its budget.
std::vector<Bytes> idle(const Problem& problem, const plan::Plan& plan) {
  const simulate::Simulation now = simulated(problem, plan, simulate::Detail::kFigures);
  std::vector<Bytes> left(problem.platform.ranks.size());
  for (std::size_t rank = 0; rank < now.ranks.size(); ++rank) {
    const Bytes memory = problem.platform.ranks[rank].memory;
    if (memory > Bytes(0)) left[rank] = memory - needed(now.ranks[rank]);
  }
  return left;
}

bool is_worth_it(const Problem& problem, const std::vector<Bytes>& left) {
  for (std::size_t rank = 0; rank < left.size(); ++rank)
    if (static_cast<double>(left[rank].count()) >
        kWorthIt * static_cast<double>(problem.platform.ranks[rank].memory.count()))
      return true;
  return false;
}

/// Device bytes that a rank's solvers reserve for the streamed weights of all layers.
Bytes window(const Problem& problem, const Choices& choices) {
  Bytes all;
  for (const int layer : choices.streamed) all += problem.chain.layer(layer).may_leave().all();
  return all - saved(problem, choices, choices.streamed);
}

/// Least number of streamed layers that saves at most `less` bytes less than those streamed now.
int fewest(const Problem& problem, const Choices& now, Bytes less) {
  const Bytes least = saved(problem, now, now.streamed) - less;
  int low = 0, high = static_cast<int>(now.streamed.size());
  while (low < high) {
    const int middle = low + (high - low) / 2;
    const bool is_enough = saved(problem, now, layers_to_stream(problem.chain, middle)) >= least;
    (is_enough ? high : low) = is_enough ? middle : middle + 1;
  }
  return low;
}

/// The best choices with the optimizer state where this plan has it, so that idle memory goes to
/// programs.
Choices placed(const Question& question, const Judged& best) {
  Choices choices = best.choices;
  choices.solver = best.plan()->solver;
  if (!question.streamed) choices.streamed = streamed_by(*best.plan());
  if (!question.optimizer_copies)
    choices.optimizer_copies = has_offloaded_state(*best.plan()) ? kAnyTime : Seconds(0);
  choices.more.resize(question.platform.ranks.size());
  return choices;
}

bool is_any(const std::vector<Bytes>& bytes) {
  return std::any_of(bytes.begin(), bytes.end(), [](Bytes one) { return one > Bytes(0); });
}

/// The least `more` for these choices that was found not to help or not to fit.
std::optional<std::vector<Bytes>> least_too_much(const Log& log, const Choices& now) {
  std::optional<std::vector<Bytes>> least;
  for (const Judged& one : log.all()) {
    Choices same = one.choices;
    same.more = now.more;
    if (same != now || one.choices.more.size() != now.more.size()) continue;
    const auto is_more = [](const std::vector<Bytes>& a, const std::vector<Bytes>& b) {
      return a != b && std::equal(a.begin(), a.end(), b.begin(), std::greater_equal<>());
    };
    if (!is_more(one.choices.more, now.more)) continue;
    if (!least || is_more(*least, one.choices.more)) least = one.choices.more;
  }
  return least;
}

/// Proposals that use idle memory, with the same and with fewer streamed layers: whether fewer fit
/// depends on whether their bytes fall on the peak. Pipelines take long to plan and get few.
std::vector<Choices> loosened(const Scene& scene, const Judged& from) {
  const Question& question = scene.question;
  if (from.plan() == nullptr || plan::streamed_weights(*from.plan(), question.chain).empty())
    return {};
  const Choices now = placed(question, from);
  std::vector<Bytes> left = idle(question, *from.plan());
  // Even where a program fills its memory, another may fit that needs it at another time.
  const bool may_be_other = question.stages == 1 && now.more.front() == Bytes(0) &&
                            question.platform.ranks.front().memory > Bytes(0);
  if (may_be_other && !is_worth_it(question, left))
    left.front() = times(0.5, window(question, now));
  if (!is_worth_it(question, left)) return {};
  Choices loose = now;
  Bytes all;
  if (const auto too_much = least_too_much(scene.log, now))
    for (std::size_t rank = 0; rank < left.size(); ++rank)
      left[rank] = ((*too_much)[rank] - now.more[rank]) / 2;
  if (!is_any(left)) return {};
  for (std::size_t rank = 0; rank < left.size(); ++rank) {
    loose.more[rank] += left[rank];
    all += loose.more[rank];
  }
  std::vector<Choices> found{loose};
  if (question.streamed) return found;
  std::set<std::size_t> counts{now.streamed.size()};
  const std::vector<double> parts =
      question.stages == 1 ? std::vector{0.5, 1.0, 2.0} : std::vector{0.5};
  for (const double part : parts) {
    const int fewer = fewest(question, now, times(part, all));
    if (fewer == 0 || !counts.insert(static_cast<std::size_t>(fewer)).second) continue;
    found.push_back(loose);
    found.back().streamed = layers_to_stream(question.chain, fewer);
  }
  return found;
}

/// Other decisions that may win once they use their idle memory: for one stage, whose plans are
/// quick, the fastest with other numbers of streamed layers or group sizes.
std::vector<const Judged*> runners_up(const Scene& scene) {
  std::vector<const Judged*> others;
  if (scene.question.stages > 1 || is_large(scene.question)) return others;
  for (const Judged& one : scene.log.all())
    if (&one != &scene.best && kStreamedWeights.is_used(one) &&
        one.step() < scene.best.step() * kAmongFastest)
      others.push_back(&one);
  std::stable_sort(others.begin(), others.end(),
                   [](const Judged* a, const Judged* b) { return a->step() < b->step(); });
  // One of each size and number of layers.
  std::set<std::pair<int, std::size_t>> kinds;
  const auto kind = [](const Judged& one) {
    return std::pair(one.choices.group, one.choices.streamed.size());
  };
  kinds.insert(kind(scene.best));
  std::erase_if(others, [&](const Judged* one) { return !kinds.insert(kind(*one)).second; });
  others.resize(std::min(others.size(), kRunnersUp));
  return others;
}

std::vector<Choices> moves(const Scene& scene) {
  if (scene.best.choices.splits_backward) return {};
  const bool is_pipeline = scene.question.stages > 1;
  if ((is_pipeline || scene.question.chain.length() > kFewLayers) && scene.misses >= kFewMisses)
    return {};
  if (is_pipeline && is_any(scene.best.choices.more)) return {};
  std::vector<Choices> found = loosened(scene, scene.best);
  for (const Judged* const other : runners_up(scene))
    for (Choices& one : loosened(scene, *other)) found.push_back(std::move(one));
  return found;
}

}  // namespace

const Axis kIdleMemory{.name = "idle memory",
                       .without = "programs within what solvers count",
                       .is_open =
                           [](const Question& question) {
                             return some_can_stream(question) &&
                                    (!question.streamed || !question.streamed->empty());
                           },
                       .moves = moves,
                       .is_used = [](const Judged& judged) { return !judged.choices.more.empty(); },
                       .most_looks = 5,
                       .most_looks_at_large = 2,
                       .least_gain = 1e-3,
                       .reason = "its peak is nearer to the budget"};

}  // namespace trireme::partition
