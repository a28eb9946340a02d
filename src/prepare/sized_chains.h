// A job's chain at several micro-batch sizes, measured or estimated.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/config/job.h"
#include "trireme/model/chain.h"
#include "trireme/prepare/measured_chain.h"
#include "trireme/ranks/rank_context.h"

#include <map>
#include <ostream>
#include <vector>

namespace trireme::prepare {

/// The same on every rank; the calls are collective.
class SizedChains {
 public:
  SizedChains(const config::JobSpec& job, const model::ChainModel& model, bool lean_tapes,
              const ranks::RankContext& context, std::ostream& out)
      : job_(job), model_(model), lean_tapes_(lean_tapes), context_(context), out_(out) {}

  /// Measures the smallest of `sizes` (ascending), and the largest that is cheap enough, at least
  /// the second: no layer alone needs more than `memory` (0: no limit) or takes longer than a
  /// second.
  void measure_ends(const std::vector<int>& sizes, Bytes memory);
  /// As measured_chain().
  void measure(int micro_batch);

  bool is_measured(int micro_batch) const { return measured_.contains(micro_batch); }
  /// As measured; else estimated on the line through the two nearest measured sizes, or in
  /// proportion to the only one.
  chain::Chain at(int micro_batch) const;
  /// Speeds of the ranks with the largest micro-batches that were measured.
  const std::vector<double>& speeds() const { return measured_.rbegin()->second.speeds; }
  /// "1, 2 and 8".
  std::string sizes_text() const;

 private:
  const config::JobSpec& job_;
  const model::ChainModel& model_;
  bool lean_tapes_;
  const ranks::RankContext& context_;
  std::ostream& out_;
  std::map<int, MeasuredChain> measured_;
};

}  // namespace trireme::prepare
