// SPDX-License-Identifier: Apache-2.0
#include "advice.h"

#include "shortage.h"

#include "trireme/core/text.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace trireme::partition {
namespace {

/// The least number by bisection, more stages taken to need less; 0 if twice as many do not do.
int enough_stages(const StageRoom& room, const std::string& name);

}  // namespace

std::string advice(const StageRoom& room, StagePolicy& policy, const std::string& name) {
  std::vector<std::string> changes;
  if (room.question().cut) return "";
  if (const auto one = least_on_one_rank(room, policy); one && one->more > Bytes(0))
    changes.push_back(concat(to_text(one->more), " (", one->more.count(), " bytes) more on rank ",
                             one->rank, " alone"));
  if (const int stages = enough_stages(room, name))
    changes.push_back(concat(stages, " stages on ranks like the last"));
  return changes.empty() ? "" : concat("; it would fit with ", join(changes, ", or with "));
}

namespace {

int enough_stages(const StageRoom& room, const std::string& name) {
  const Question& question = room.question();
  const auto fits = [&](int stages) {
    Question longer = question;
    longer.stages = stages;
    longer.in_flight.clear();
    std::vector<chain::RankSpec>& ranks = longer.platform.ranks;
    ranks.resize(static_cast<std::size_t>(stages), ranks.back());
    const auto again = policy_named(longer, name);
    return shortage(StageRoom(longer), *again, std::nullopt).scale <= 1;
  };
  int less = question.stages, enough = std::min(2 * question.stages, room.layers());
  if (enough == less || !fits(enough)) return 0;
  while (enough - less > 1) {
    const int middle = std::midpoint(less, enough);
    (fits(middle) ? enough : less) = middle;
  }
  return enough;
}

}  // namespace
}  // namespace trireme::partition
