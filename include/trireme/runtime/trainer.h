// The training loop of one rank. Carries out a plan; never solves anything.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"
#include "trireme/config/job.h"
#include "trireme/core/units.h"
#include "trireme/device/meter.h"
#include "trireme/device/place.h"
#include "trireme/model/chain.h"
#include "trireme/plan/plan.h"
#include "trireme/program/action.h"
#include "trireme/record/metrics.h"
#include "trireme/record/summary.h"
#include "trireme/runtime/checkpointing.h"
#include "trireme/simulate/simulate.h"
#include "trireme/tier/device_memory.h"
#include "trireme/tier/value_copies.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace trireme::runtime {

class Stage;

/// The data set as the trainer reads it. Micro-batches are numbered over all replicas.
struct DataSource {
  std::function<model::Values(std::int64_t step, int micro_batch)> input, target;
  std::function<model::Values(int micro_batch)> validation_input, validation_target;
  /// The documents of these micro-batches (model::Context::documents). May be empty: each row is
  /// one text.
  std::function<std::vector<std::int64_t>(std::int64_t step, int micro_batch)> documents = {};
  std::function<std::vector<std::int64_t>(int micro_batch)> validation_documents = {};
  int validation_micro_batches = 0;  ///< per replica; 0: no validation
  /// Tokens that a step trains on, over all replicas, without the padding of rows; examples if a
  /// chain takes no tokens.
  std::function<std::int64_t(std::int64_t step)> tokens;
};

/// Called on world rank 0 only; steps in order, in bursts of `report_every`.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void started(Seconds since_start) = 0;  ///< right before the first step
  /// After started(), if frozen weights of the checkpoint are damaged: these tensors were read from
  /// `model.weights` instead.
  virtual void read_again(const std::set<std::string>& /*tensors*/) {}
  virtual void step(const record::StepMetrics& metrics) = 0;
  virtual void interval_ended() = 0;  ///< after every burst
  virtual void validation(std::int64_t step, double loss) = 0;
  /// Before a checkpoint is published: records of its steps must be on disk when this returns,
  /// since a run that resumes from it does not report them again.
  virtual void saving() {}
  virtual void saved(const SavedCheckpoint& checkpoint) = 0;
};

/// One measured step, on the ranks of the first replica: of up to 8 that were recorded, evenly
/// spread over the run, the one whose time is nearest to the median.
struct RecordedStep {
  simulate::Simulation step;  ///< has no ranks if no step was made
  std::int64_t number = 0;    ///< number of that step, from 1
};

/// Result of a run; the same on every rank.
struct FinishedRun {
  record::RunSummary summary;  ///< steps, losses, speed, digests and ranks; the rest is not set
  RecordedStep recorded;
};

/// Everything that a rank needs. References must outlive the trainer.
struct TrainSetup {
  const config::JobSpec& job;
  const model::ChainModel& model;
  const plan::Plan& plan;
  /// plan::compile(plan, chain), with its copies placed (simulate::place_copies).
  const program::Program& program;
  const DataSource& data;
  comm::Channel& channel;  ///< must accept memory of `place`
  tier::DeviceMemory& memory;
  const device::Place& place = device::cpu();
  /// For plans that offload activations.
  std::function<std::unique_ptr<tier::ValueCopies>()> make_copies = {};
  /// For plans that offload optimizer state: the most bytes of a part, and how many parts are on
  /// the device at a time during passes (three at the end of a step); and copies to a store of
  /// `room` bytes.
  chain::StateParts optimizer_parts = {};
  std::function<std::unique_ptr<tier::ValueCopies>(Bytes room)> make_optimizer_copies = {};
  /// For plans that stream weights: copies to a store with room for this rank's.
  std::function<std::unique_ptr<tier::ValueCopies>()> make_weight_copies = {};
  std::function<record::DeviceReserves()> reserves = {};  ///< called at the end; null: unknown
  device::Meter* meter = nullptr;  ///< read around every step; null: no energy is measured here
  Checkpointing checkpoints = {};
  int threads = 1;
  int report_every = 10;     ///< steps between exchanges of losses; the same on every rank
  bool owns_process = true;  ///< no other rank in this process
  std::function<bool()> stop_requested;
  /// Asked whenever losses are exchanged; true on one rank saves and stops all.
  std::function<bool()> save_and_stop_requested = {};
  std::function<Seconds()> since_start;  ///< the process's age
};

/// Collective: builds the stage, restores a checkpoint or loads initial weights if there are some,
/// then trains. Throws Interrupted when asked to stop, CommError when a peer fails.
class Trainer {
 public:
  explicit Trainer(const TrainSetup& setup);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// `observer` is used on world rank 0 only and may be null elsewhere.
  ///
  /// If it throws, the observer has been told of every step whose loss rank 0 can know: on one rank
  /// of all finished steps, else of those up to the last exchange of losses.
  FinishedRun run(Observer* observer);

  /// Parameter count of the model, the same on every rank.
  record::ParameterCount parameters() const;
  /// The step that run() is in, or was in last, from 1; 0 before the first.
  std::int64_t step() const;

  /// This rank's stage, for tests.
  Stage& stage();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme::runtime
