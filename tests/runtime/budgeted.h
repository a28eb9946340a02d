// One rank's training within a budget: profiled, planned, run, and compared with the same training
// without any budget.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "small_runs.h"
#include "state/streamed_weights.h"

#include "trireme/chain/platform.h"
#include "trireme/device/place.h"
#include "trireme/partition/planner.h"
#include "trireme/plan/plan.h"
#include "trireme/tier/device_memory.h"
#include "trireme/tier/offload_store.h"
#include "trireme/tier/value_copies.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trireme::runtime {

/// The state after two steps, with the gradients of the second one.
struct Numbers {
  std::vector<float> losses;
  std::vector<at::Tensor> parameters, gradients, buffers;
};

/// Measurements of a planned run.
struct PlannedRun {
  Numbers numbers;
  Bytes peak, predicted_peak;
};

/// The device that a subject is measured and trained on.
class Machine {
 public:
  virtual ~Machine() = default;
  Machine() = default;
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  virtual const device::Place& place() = 0;
  /// Called on each thread before it computes.
  virtual void begin() = 0;
  /// Counts memory that is allocated from here on, while it lives.
  virtual std::shared_ptr<tier::DeviceMemory> open_memory() = 0;
  /// Whether the allocator can be held to budgets as small as those of small models.
  virtual bool enforces() const = 0;
  virtual std::unique_ptr<tier::ValueCopies> make_copies(
      const tier::OffloadStoreOptions& store) = 0;
};
Machine& cpu_machine();

/// A model with its job and its measured costs.
class Subject {
 public:
  Subject(model::ChainModel model, config::JobSpec job, Machine& machine);

  /// Least budget of a solver (with ", optimizer offloaded" after its name: with all of the
  /// optimizer's state in the offload tier; with ", weights streamed": with all weights there that
  /// may be; and so on: see question()), and the budget from which on nothing is recomputed or
  /// moved.
  std::optional<Bytes> least_budget(const std::string& solver);
  Bytes keep_all_budget();

  /// Nothing if the solver finds no plan.
  std::optional<plan::Plan> plan(const std::string& solver, Bytes budget);
  /// Why a plan may not run; empty: it may.
  std::string fault(const plan::Plan& plan) const;
  /// Runs with `budget` enforced by the allocator, where the device can; 0 is none. The offload
  /// tier has the predicted room, for activations half in memory and half in a file. Copies are
  /// predicted to take about as long as passes at speed 1.
  PlannedRun run(const plan::Plan& plan, Bytes budget, double speed = 1);

  /// The reference bits for every run: keep_all without a budget.
  const Numbers& expected();

  const chain::Chain& chain() const { return chain_; }
  /// Where the job's layers may be updated.
  program::UpdatePlace updates_among_passes() const;

 private:
  chain::Platform platform(Bytes budget, double speed = 1) const;
  partition::Question question(const std::string& solver, Bytes budget) const;
  /// Null for plans that stream no weights.
  std::unique_ptr<StreamedWeights> streamed(const plan::Plan& plan);

  config::JobSpec job_;
  model::ChainModel model_;
  Machine& machine_;
  DataSource data_;
  chain::Chain chain_;
  std::optional<Numbers> expected_;
};

}  // namespace trireme::runtime
