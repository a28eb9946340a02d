// SPDX-License-Identifier: Apache-2.0
#include "trireme/core/text.h"
#include "trireme/partition/shape.h"

#include <algorithm>

namespace trireme::partition {
namespace {

/// Table row of a planned shape.
std::vector<std::string> row_of(const TriedShape& tried, bool is_chosen);
Bytes largest_peak(const plan::Plan& plan);

}  // namespace

std::string to_text(const ShapeAnswer& answer) {
  std::vector<std::vector<std::string>> rows{
      {"stages", "replicas", "micro-batches", "size", "step", "incl. all-reduce", "peak", ""}};
  const TriedShape* least = nullptr;
  for (std::size_t i = 0; i < answer.tried.size(); ++i) {
    const TriedShape& tried = answer.tried[i];
    const bool is_planned = tried.answer || !tried.refused.empty();
    if (is_planned) rows.push_back(row_of(tried, i == answer.chosen));
    if (!is_planned && least == nullptr) least = &tried;
  }
  if (least == nullptr) return table(rows);
  return concat(table(rows), answer.tried.size() + 1 - rows.size(),
                " more shapes skipped: at least ", trireme::to_text(least->least),
                " even without recomputation and waits\n");
}

namespace {

std::vector<std::string> row_of(const TriedShape& tried, bool is_chosen) {
  std::string step = "-", reduce = "-", peak = "-", remark = is_chosen ? "chosen" : "";
  if (tried.plan() != nullptr) {
    if (tried.is_quick) remark = "quick plan";
    step = trireme::to_text(tried.step());
    reduce = trireme::to_text(tried.reduce);
    peak = trireme::to_text(largest_peak(*tried.plan()));
  } else if (!tried.refused.empty()) {
    remark = tried.refused;
  } else {
    const auto& why = std::get<plan::Infeasible>(*tried.answer);
    remark = concat("does not fit: rank ", why.rank, " needs ", trireme::to_text(why.needed));
  }
  const Shape& shape = tried.shape;
  return {concat(shape.stages),
          concat(shape.replicas),
          concat(shape.micro_batches),
          concat(shape.micro_batch),
          step,
          reduce,
          peak,
          remark};
}

Bytes largest_peak(const plan::Plan& plan) {
  Bytes largest;
  for (const plan::StagePlan& stage : plan.stages)
    largest = std::max(largest, stage.predicted.peak);
  return largest;
}

}  // namespace
}  // namespace trireme::partition
