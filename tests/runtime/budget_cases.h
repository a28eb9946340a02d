// Chains, solvers and budgets under which training must give the same bits, on any machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "budgeted.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace trireme::runtime {

/// Names of a chain and of a solver.
using BudgetCase = std::pair<std::string, std::string>;

/// Measures each chain once, and counts the cases that ran.
class BudgetCases {
 public:
  explicit BudgetCases(Machine& machine) : machine_(machine) {}

  static std::vector<std::string> chains();
  static std::vector<BudgetCase> of_chain(const std::string& chain);
  /// Every chain with every solver.
  static std::vector<BudgetCase> all();
  static std::string test_name(const testing::TestParamInfo<BudgetCase>& test);

  /// At five budgets from the least that works to keep_all's: the losses, gradients, parameters and
  /// buffers of keep_all, within the budget, with the predicted peak to 2 % or 1 MiB. `in_turns`:
  /// at the least and at one of the others, another for every chain and solver.
  void expect_bits_and_peaks(const BudgetCase& one, bool in_turns = false);
  /// The same for random programs that the validator allows, without a budget: no solver would
  /// write them, but a user may by hand.
  void expect_bits_and_peaks_of_random_programs(const std::string& chain, unsigned programs);
  /// A summary line of all cases.
  void say_how_it_went() const;

 private:
  Subject& subject_named(const std::string& name);
  void expect_bits_and_peak(Subject& subject, const plan::Plan& plan, Bytes budget,
                            const std::string& name);
  void note(const std::string& name, Bytes predicted, Bytes measured);

  Machine& machine_;
  std::map<std::string, std::unique_ptr<Subject>> subjects_;
  int runs_ = 0, good_ = 0;
  double worst_share_ = 0;
  Bytes worst_difference_;
  std::string worst_name_ = "none";
};

}  // namespace trireme::runtime
