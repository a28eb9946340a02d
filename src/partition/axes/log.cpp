// SPDX-License-Identifier: Apache-2.0
#include "log.h"

#include <algorithm>
#include <utility>

namespace trireme::partition {

bool is_better(const Judged& a, const Judged& b) {
  if (a.plan() != nullptr || b.plan() != nullptr) return a.step() < b.step();
  return std::get<plan::Infeasible>(a.answer).least_budget <
         std::get<plan::Infeasible>(b.answer).least_budget;
}

const Judged* Log::find(const Choices& choices) const {
  const auto found = std::find_if(all_.begin(), all_.end(),
                                  [&](const Judged& one) { return one.choices == choices; });
  return found == all_.end() ? nullptr : &*found;
}

bool Log::is_settled(const Choices& choices) const {
  return find(choices) != nullptr ||
         std::find(passed_over_.begin(), passed_over_.end(), choices) != passed_over_.end();
}

const Judged& Log::add(Judged judged) {
  return all_.emplace_back(std::move(judged));
}

}  // namespace trireme::partition
