// The least budget with which a chain can run with copies: all that is kept is offloaded as early
// and prefetched as late as possible, so that only what an action uses counts.
//
// SPDX-License-Identifier: Apache-2.0
#include "copy_plan.h"
#include "tables/interval_table.h"
#include "tables/least_column.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>

namespace trireme::solve {
namespace {

using program::Action;
using program::Op;

class Leanest {
 public:
  Leanest(const Problem& problem, std::optional<Freedom> freedom);
  std::vector<CopyPart> parts() const;

 private:
  // What layers i..last need when the input of i is in a tape or not, and the first decision.
  struct Choice {
    std::int64_t needs = std::numeric_limits<std::int64_t>::max();
    int last = 0;
    bool taped = false;
  };

  void decide(int i, bool taped_input);
  void keep_tape(int i, std::int64_t item, Choice& best) const;
  void run_again(int i, std::int64_t item, Choice& best) const;
  void take(Choice& best, std::int64_t needs, int last, bool taped) const;
  std::vector<Action> backward(int i, const Choice& choice) const;
  std::int64_t item(int i, bool taped_input) const {
    return (taped_input ? chain_.layer(i - 1).tape : chain_.output(i - 1)).count();
  }
  std::int64_t redo(Recurrence which, int i, int j) const {
    return table_->column(which, i, j).needs;
  }
  const Choice& choice(int i, bool taped_input) const {
    return choices_[2 * static_cast<std::size_t>(i - problem_.first_layer) + (taped_input ? 1 : 0)];
  }

  const Problem& problem_;
  const chain::Chain& chain_;
  std::unique_ptr<const IntervalTable<LeastColumn>> table_;  // null: nothing is recomputed
  std::vector<Choice> choices_;
};

}  // namespace

std::vector<CopyPart> leanest_parts(const Problem& problem, std::optional<Freedom> freedom) {
  return Leanest(problem, freedom).parts();
}

namespace {

Leanest::Leanest(const Problem& problem, std::optional<Freedom> freedom)
    : problem_(problem), chain_(*problem.chain) {
  const int first = problem.first_layer, last = problem.last_layer;
  if (freedom) {
    const auto costs =
        std::make_shared<const Costs>(chain_, first, last, Bytes(1), RetapeBytes::kTheirOwn);
    table_ = std::make_unique<const IntervalTable<LeastColumn>>(costs, *freedom, 0);
  }
  choices_.resize(2 * static_cast<std::size_t>(last - first + 2));
  for (Choice* end : {&choices_[choices_.size() - 2], &choices_.back()}) end->needs = 0;
  for (int i = last; i >= first; --i) {
    decide(i, false);
    if (i > first) decide(i, true);
  }
}

void Leanest::decide(int i, bool taped_input) {
  Choice best;
  keep_tape(i, item(i, taped_input), best);
  if (table_ != nullptr) run_again(i, item(i, taped_input), best);
  choices_[2 * static_cast<std::size_t>(i - problem_.first_layer) + (taped_input ? 1 : 0)] = best;
}

void Leanest::keep_tape(int i, std::int64_t item, Choice& best) const {
  take(best, item + std::max(taping_bytes(chain_, i), backward_bytes(chain_, i)), i, true);
}

// The input has left when the second layer of a run begins.
void Leanest::run_again(int i, std::int64_t item, Choice& best) const {
  std::int64_t runs = 0;
  for (int j = i; j <= problem_.last_layer; ++j) {
    if (j > i && table_->freedom() == Freedom::kInputMayLeave) {
      const std::int64_t tapes = taping_and_input_bytes(chain_, j);
      take(best, std::max({runs, tapes, item + redo(Recurrence::kResumed, i, j)}), j, true);
    }
    if (j == problem_.last_layer) return;
    runs = std::max(runs, (j == i ? item : 0) + run_bytes(chain_, i, j));
    take(best, std::max(runs, item + redo(Recurrence::kWhole, i, j)), j, false);
  }
}

void Leanest::take(Choice& best, std::int64_t needs, int last, bool taped) const {
  needs = std::max(needs, choice(last + 1, taped).needs);
  if (needs < best.needs) best = {.needs = needs, .last = last, .taped = taped};
}

std::vector<CopyPart> Leanest::parts() const {
  std::vector<CopyPart> parts;
  bool taped_input = false;
  for (int i = problem_.first_layer; i <= problem_.last_layer;) {
    const Choice& here = choice(i, taped_input);
    const bool turns = i == problem_.last_layer;  // its input would have to come back at once
    parts.push_back({.first = i,
                     .last = here.last,
                     .taped = here.taped,
                     .leaves = item(i, taped_input) > 0 && !turns,
                     .backward = backward(i, here)});
    i = here.last + 1;
    taped_input = here.taped;
  }
  return parts;
}

std::vector<Action> Leanest::backward(int i, const Choice& choice) const {
  if (choice.taped && choice.last == i) return {{Op::kBackward, i}};
  const Recurrence which = choice.taped ? Recurrence::kResumed : Recurrence::kWhole;
  const Slots m = redo(which, i, choice.last);
  return which == Recurrence::kWhole ? rebuild(*table_, {i, choice.last}, m)
                                     : rebuild_resumed(*table_, {i, choice.last}, m);
}

}  // namespace
}  // namespace trireme::solve
