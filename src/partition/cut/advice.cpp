// SPDX-License-Identifier: Apache-2.0
#include "advice.h"

#include "fewer_in_flight.h"
#include "shortage.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace trireme::partition {
namespace {

/// The smallest single changes; none for a fixed cut.
std::vector<plan::Advice> advice(const StageRoom& room, StagePolicy& policy);

/// The least number by bisection, more stages taken to need less; 0 if twice as many do not do.
int enough_stages(const StageRoom& room, StagePolicy& policy);

}  // namespace

plan::Infeasible lacking(const Question& question, StagePolicy& policy, const std::string& name) {
  const bool fewer = name == "joint" && may_have_fewer_in_flight(question);
  const Question leanest = fewer ? with_shared_counts(question, question.stages) : question;
  const StageRoom room(leanest);
  plan::Infeasible infeasible = shortage(room, policy, fixed_cut(question)).infeasible;
  if (infeasible.needed >= kUnlimited)
    throw InputError(concat("solver '", name, "': every cut has a stage with more layers than it ",
                            "takes; use more stages, or 'joint'"));
  infeasible.advice = advice(room, policy);
  return infeasible;
}

namespace {

std::vector<plan::Advice> advice(const StageRoom& room, StagePolicy& policy) {
  using enum plan::Advice::Kind;
  std::vector<plan::Advice> changes;
  if (room.question().cut) return changes;
  if (const auto one = least_on_one_rank(room, policy); one && one->more > Bytes(0))
    changes.push_back({kMemoryOfOneRank,
                       concat(to_text(one->more), " (", one->more.count(), " bytes) more on rank ",
                              one->rank, " alone"),
                       one->more});
  if (const int stages = enough_stages(room, policy))
    changes.push_back({kStages, concat(stages, " stages on ranks like the last")});
  return changes;
}

int enough_stages(const StageRoom& room, StagePolicy& policy) {
  const Question& question = room.question();
  const auto enough_with = [&](int stages) {
    Question longer = question;
    longer.stages = stages;
    const auto count = static_cast<std::size_t>(stages);
    if (!longer.in_flight.empty()) longer.in_flight.resize(count, longer.in_flight.back());
    std::vector<chain::RankSpec>& ranks = longer.platform.ranks;
    ranks.resize(count, ranks.back());
    return fits(StageRoom(longer), policy);
  };
  int less = question.stages, enough = std::min(2 * question.stages, room.layers());
  if (enough == less || !enough_with(enough)) return 0;
  while (enough - less > 1) {
    const int middle = std::midpoint(less, enough);
    (enough_with(middle) ? enough : less) = middle;
  }
  return enough;
}

}  // namespace
}  // namespace trireme::partition
