// Training: one rank's part of a run. Reads a plan value; never solves anything.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"
#include "trireme/config/job.h"
#include "trireme/core/units.h"
#include "trireme/device/place.h"
#include "trireme/model/chain.h"
#include "trireme/plan/plan.h"
#include "trireme/runtime/executor.h"
#include "trireme/simulate/copy_points.h"
#include "trireme/simulate/simulate.h"
#include "trireme/tier/device_memory.h"
#include "trireme/tier/value_copies.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace trireme::runtime {

/// The data set, seen by the trainer. Micro-batches are numbered over all replicas.
struct DataSource {
  std::function<model::Values(std::int64_t step, int micro_batch)> input, target;
  std::function<model::Values(int micro_batch)> validation_input, validation_target;
  int validation_micro_batches = 0;  ///< per replica; 0: no validation
  /// Tokens that a step trains on, over all replicas, without the padding of rows; examples, where
  /// a chain takes no tokens.
  std::function<std::int64_t(std::int64_t step)> tokens;
};

/// What happened in one step, for whoever shows it.
struct StepRecord {
  std::int64_t step = 0;
  double loss = 0;
  double learning_rate = 0;
  std::optional<double> gradient_norm;
  Seconds time{0};
  std::int64_t tokens = 0;  ///< as DataSource::tokens says
};

/// A checkpoint that is there now.
struct SavedCheckpoint {
  std::int64_t step = 0;  ///< steps that it has
  std::filesystem::path folder;
  Bytes size;
  Seconds time{0};  ///< until it was there
  Seconds held{0};  ///< of that, what steps stood still for
};

/// Where a run saves its state, and what it goes on from.
struct Checkpointing {
  std::filesystem::path folder;  ///< of all of a run's checkpoints; seen by every rank
  int every = 0;                 ///< steps between two, and one at the end; 0: none
  int keep = 2;                  ///< newest ones that stay
  bool in_background = false;    ///< copied, and written beside steps
  std::string job;               ///< resolved, as YAML; saved beside the state
  std::string data;              ///< digest of the data set; likewise
  std::optional<std::filesystem::path> resume = {};  ///< a checkpoint to go on from
};

/// Told on world rank 0 only; steps in order, in bursts of `report_every`.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void started(Seconds since_start) = 0;  ///< right before the first step
  /// After that, where a checkpoint's frozen weights are damaged: these tensors of it were read
  /// from `model.weights` instead.
  virtual void read_again(const std::set<std::string>& /*tensors*/) {}
  virtual void step(const StepRecord& record) = 0;
  virtual void interval_ended() = 0;  ///< after every burst
  virtual void validation(std::int64_t step, double loss) = 0;
  /// Before a checkpoint appears: what was told of its steps outlives the machine from now on, for
  /// a run that goes on from there tells nothing of them again.
  virtual void saving() {}
  virtual void saved(const SavedCheckpoint& checkpoint) = 0;
};

/// What of a device's memory is taken beside the tensors of a run; 0 where nothing is known (CPU).
struct DeviceReserves {
  Bytes allocator;   ///< most that the allocator took, the tensors' bytes among it
  Bytes workspaces;  ///< of LibTorch's libraries (cuBLAS), taken from the allocator before the run
  Bytes others;      ///< not by the allocator: contexts, NCCL, other processes
  /// How often the allocator waited for the device, to give back free pages and take others
  /// instead.
  std::int64_t gathered = 0;
};

/// One rank's figures; times are medians over the steps.
struct RankFigures {
  int rank = 0;
  Bytes budget;  ///< 0: none
  Bytes peak, static_bytes;
  Bytes optimizer_away;  ///< of its optimizer's state, what was in the offload tier
  Bytes weights_away;    ///< those that came for every use, with their gradients
  Bytes process;         ///< most that its process was resident with, other ranks of it included
  DeviceReserves reserves;
  Times times;
};

/// What a run gave; the same on every rank. Times are of the steps since it was last started.
struct Outcome {
  std::int64_t steps = 0;             ///< those before it was resumed included
  double train_loss = 0;              ///< mean over the last `train_loss_steps` steps
  std::int64_t train_loss_steps = 1;  ///< `report.log_every`, or all where there are fewer
  std::optional<double> validation_loss;
  double tokens_per_s = 0;  ///< mean tokens of a step, by the time of the median step
  Seconds step{0};          ///< median
  double bubble = 0;        ///< 1 - compute / (ranks x step)
  std::string parameters_digest, losses_digest;
  std::vector<RankFigures> ranks;
  /// One step as it was, on the ranks of the first replica: of the up to 8 that were recorded,
  /// evenly spread over the run, the one whose time is nearest to the median. Without ranks where
  /// no step was made.
  simulate::Simulation recorded_step;
  std::int64_t recorded_number = 0;  ///< of that step, from 1
};

/// Everything that a rank needs. References must outlive the trainer.
struct TrainSetup {
  const config::JobSpec& job;
  const model::ChainModel& model;
  const plan::Plan& plan;
  const DataSource& data;
  comm::Channel& channel;  ///< takes memory of `place`
  tier::DeviceMemory& memory;
  const device::Place& place = device::cpu();
  /// For plans that move values: when this rank frees and takes bytes, and how values travel.
  std::vector<simulate::CopyPoint> copy_points = {};
  std::function<std::unique_ptr<tier::ValueCopies>()> make_copies = {};
  /// For plans that have optimizer state away: how large its parts may be, and how many of them are
  /// here at a time among passes (three when a step ends); and copies to a store with so much room.
  chain::StateParts optimizer_parts = {};
  std::function<std::unique_ptr<tier::ValueCopies>(Bytes room)> make_optimizer_copies = {};
  /// For plans that stream weights: copies to a store with room for this rank's.
  std::function<std::unique_ptr<tier::ValueCopies>()> make_weight_copies = {};
  std::function<DeviceReserves()> reserves = {};  ///< asked at the end
  Checkpointing checkpoints = {};
  int threads = 1;
  int report_every = 10;     ///< steps between exchanges of losses; the same on every rank
  bool owns_process = true;  ///< no other rank in this process
  std::function<bool()> stop_requested;
  /// Asked whenever losses are exchanged; true on one rank saves and stops all.
  std::function<bool()> save_and_stop_requested = {};
  std::function<Seconds()> since_start;  ///< the process's age
};

/// Numbers in the weights of a whole chain, a tied one once.
struct ParameterCount {
  std::int64_t all = 0, trained = 0;
};

/// Every rank: builds the stage, takes up a checkpoint to go on from, or weights to begin with,
/// where there are some, then trains. Throws Interrupted when asked to stop, CommError when a peer
/// fails.
class Trainer {
 public:
  explicit Trainer(const TrainSetup& setup);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// `observer` is used on world rank 0 only and may be null elsewhere.
  ///
  /// Where it throws, the observer has been told of every step whose loss rank 0 could learn: of a
  /// run on one rank of all that were finished, else of those up to the last exchange of losses.
  Outcome run(Observer* observer);

  /// Of the model that it trains, the same on every rank.
  ParameterCount parameters() const;
  /// The step that run() is in, or was in last, from 1; 0 before the first.
  std::int64_t step() const;

  /// This rank's stage, for tests.
  Stage& stage();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme::runtime
