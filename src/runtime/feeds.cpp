// SPDX-License-Identifier: Apache-2.0
#include "feeds.h"

#include <algorithm>
#include <exception>

namespace trireme::runtime {

using program::Op;

Feeds::Feeds(const DataSource& data, const std::vector<program::Action>& actions, int first,
             std::int64_t steps, bool loads_ahead)
    : data_(data), first_(first), steps_(steps) {
  if (!loads_ahead) return;
  for (const Op op : {Op::kLoadInput, Op::kLoadTarget}) {
    const auto found = std::find_if(actions.begin(), actions.end(),
                                    [op](const auto& action) { return action.op == op; });
    if (found != actions.end()) firsts_.emplace_back(op, found->micro_batch);
  }
}

Feed Feeds::of_step(std::int64_t step) {
  Feed feed{[this, step](int micro_batch) {
              return load(step, {Op::kLoadInput, micro_batch});
            },
            [this, step](int micro_batch) {
              return load(step, {Op::kLoadTarget, micro_batch});
            }};
  if (data_.documents)
    feed.documents = [this, step](int micro_batch) {
      return data_.documents(step, first_ + micro_batch);
    };
  feed.meanwhile = [this, step] { load_ahead(step + 1); };
  return feed;
}

Feed Feeds::of_validation(int first) const {
  Feed feed{
      [this, first](int micro_batch) { return data_.validation_input(first + micro_batch); },
      [this, first](int micro_batch) { return data_.validation_target(first + micro_batch); }};
  if (data_.validation_documents)
    feed.documents = [this, first](int micro_batch) {
      return data_.validation_documents(first + micro_batch);
    };
  return feed;
}

model::Values Feeds::load(std::int64_t step, Key what) {
  if (step == ahead_of_) {
    if (auto there = ahead_.extract(what)) return std::move(there.mapped());
  }
  return from_data(step, what);
}

model::Values Feeds::from_data(std::int64_t step, Key what) const {
  const auto& [op, micro_batch] = what;
  return (op == Op::kLoadInput ? data_.input : data_.target)(step, first_ + micro_batch);
}

void Feeds::load_ahead(std::int64_t step) {
  ahead_.clear();
  if (step >= steps_) return;
  ahead_of_ = step;
  try {
    for (const Key& what : firsts_) ahead_[what] = from_data(step, what);
  } catch (const std::exception&) {
    // Reported when it is needed: this step's numbers and checkpoint come first.
  }
}

}  // namespace trireme::runtime
