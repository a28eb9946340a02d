// SPDX-License-Identifier: Apache-2.0
#include "budgeted.h"

#include "step/executor.h"

#include "trireme/comm/local.h"
#include "trireme/core/error.h"
#include "trireme/model/precision.h"
#include "trireme/partition/planner.h"
#include "trireme/profile/measure.h"
#include "trireme/profile/tied_weights.h"
#include "trireme/runtime/copies.h"
#include "trireme/simulate/place_copies.h"
#include "trireme/simulate/validate.h"
#include "trireme/tier/memory.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string_view>
#include <utility>
#include <variant>

namespace trireme::runtime {
namespace {

using program::Action;
using program::Op;

/// Suffixes of the names of solvers whose plans offload all of the optimizer's state, or all
/// weights that may be, or run all micro-batches through the layers together, or update layers
/// among the passes.
constexpr std::string_view kOffload = ", optimizer offloaded", kStreamed = ", weights streamed",
                           kGroups = ", in groups", kUpdated = ", updated among passes";

/// Rates at which the offload tier is useful: all tapes are copied in about the time that the
/// layers take.
BytesPerSecond fitting_rate(const chain::Chain& chain) {
  Seconds time;
  Bytes bytes;
  for (const chain::LayerCost& layer : chain.layers) {
    time += layer.forward + layer.backward;
    bytes += layer.tape;
  }
  return BytesPerSecond(static_cast<double>(bytes.count()) / time.count());
}

bool updates_in_backward(const std::vector<Action>& actions) {
  return program::layer_updates(actions).place == program::UpdatePlace::kInBackward;
}

bool is_of_weights(const Action& action) {
  return program::moves_weights(action.op) || action.op == Op::kAwaitWeights ||
         action.op == Op::kAwaitGradients || action.op == Op::kNoteNorm;
}

/// A step without the actions that consume gradients, so that these stay.
std::vector<Action> without_end(const std::vector<Action>& actions,
                                const StreamedWeights* weights) {
  const auto end =
      std::find(actions.begin(), actions.end(), Action{.op = Op::kReduceGradients, .layer = 0});
  std::vector<Action> result(actions.begin(), end);
  if (!updates_in_backward(actions)) return result;
  std::erase_if(result, [](const Action& action) {
    return is_of_weights(action) || action.op == Op::kUpdate || action.op == Op::kStateIn ||
           action.op == Op::kAwaitState;
  });
  const int last = std::max_element(result.begin(), result.end(), [](const auto& a, const auto& b) {
                     return a.layer < b.layer;
                   })->layer;
  return program::with_weights(result, weights->streaming(last));
}

partition::Question question_of(const chain::Chain& chain, const chain::Platform& platform,
                                const model::ChainModel& model, const config::JobSpec& job) {
  partition::Question question;
  question.chain = chain;
  question.platform = platform;
  question.micro_batches = config::micro_batches(job);
  question.shared_bytes = [tied = profile::TiedWeights(model, job.train)](
                              const partition::LayerRuns& runs) { return tied.shared(runs); };
  return question;
}

class CpuMachine final : public Machine {
 public:
  const device::Place& place() override { return device::cpu(); }
  void begin() override {
    tier::install_cpu_allocator();
    at::set_num_threads(1);
  }
  std::shared_ptr<tier::DeviceMemory> open_memory() override {
    return {&tier::MemoryAccount::open("rank 0"), [](tier::DeviceMemory*) {}};
  }
  bool enforces() const override { return true; }
  std::unique_ptr<tier::ValueCopies> make_copies(const tier::OffloadStoreOptions& store) override {
    return std::make_unique<Copies>(store);
  }
};

chain::Chain measured(const model::ChainModel& model, const config::JobSpec& job,
                      Machine& machine) {
  machine.begin();
  const auto memory = machine.open_memory();
  return profile::measure(model, job,
                          {.threads = 1,
                           .least_time = Seconds(0),
                           .least_runs = 2,
                           .place = machine.place(),
                           .memory = memory.get()});
}

}  // namespace

Machine& cpu_machine() {
  static CpuMachine machine;
  return machine;
}

Subject::Subject(model::ChainModel model, config::JobSpec job, Machine& machine)
    : job_(std::move(job)),
      model_(std::move(model)),
      machine_(machine),
      data_(random_data(model_, job_)),
      chain_(measured(model_, job_, machine_)) {}

chain::Platform Subject::platform(Bytes budget, double speed) const {
  chain::Platform platform = chain::uniform_platform(1, budget);
  platform.ranks[0].host = Bytes(std::int64_t{1} << 30);
  platform.ranks[0].out = platform.ranks[0].in = fitting_rate(chain_) * speed;
  return platform;
}

partition::Question Subject::question(const std::string& solver, Bytes budget) const {
  partition::Question question = question_of(chain_, platform(budget), model_, job_);
  const bool moves = solver.find(kOffload) != solver.npos,
             streams = solver.find(kStreamed) != solver.npos;
  question.solver = solver.substr(0, solver.find(','));
  if (moves) question.optimizer_copies = partition::kAnyTime;
  if (streams) question.streamed = partition::all_to_stream(chain_);
  if (solver.find(kGroups) != solver.npos) question.group = question.micro_batches;
  if (solver.find(kUpdated) != solver.npos) question.updates = updates_among_passes();
  return question;
}

program::UpdatePlace Subject::updates_among_passes() const {
  return job_.train.clip_norm > 0 ? program::UpdatePlace::kInForward
                                  : program::UpdatePlace::kInBackward;
}

std::optional<Bytes> Subject::least_budget(const std::string& solver) {
  const partition::Question question = this->question(solver, Bytes(1));
  const partition::Answer answer = partition::plan(question);
  const auto* infeasible = std::get_if<plan::Infeasible>(&answer);
  if (infeasible == nullptr) return std::nullopt;
  return infeasible->least_budget;
}

Bytes Subject::keep_all_budget() {
  return partition::keep_all_budget(question_of(chain_, platform(Bytes(0)), model_, job_));
}

std::optional<plan::Plan> Subject::plan(const std::string& solver, Bytes budget) {
  partition::Answer answer = partition::plan(question(solver, budget));
  if (auto* plan = std::get_if<plan::Plan>(&answer)) return std::move(*plan);
  return std::nullopt;
}

std::string Subject::fault(const plan::Plan& plan) const {
  const partition::Question question = question_of(chain_, platform(Bytes(0)), model_, job_);
  try {
    const auto fault =
        simulate::validate(plan::compile(plan, chain_), partition::setting_of(question, plan));
    return fault ? simulate::to_text(*fault) : "";
  } catch (const InputError& error) {
    return error.what();
  }
}

std::unique_ptr<StreamedWeights> Subject::streamed(const plan::Plan& plan) {
  const std::vector<int>& layers = plan.stages.front().streamed;
  if (layers.empty()) return nullptr;
  const Bytes room = plan::streamed_weights(plan, chain_, 0);
  return std::make_unique<StreamedWeights>(
      StreamedWeights::Layers{.numbers = layers, .at_once = plan.weights_at_once},
      machine_.make_copies({.host = room, .disk = Bytes(0)}));
}

PlannedRun Subject::run(const plan::Plan& plan, Bytes budget, double speed) {
  const partition::Question question = question_of(chain_, platform(budget, speed), model_, job_);
  const simulate::Simulation timeline =
      partition::simulated(question, plan, simulate::Detail::kTimeline);
  const simulate::Setting setting = partition::setting_of(question, plan);
  const simulate::PlacedCopies placed =
      simulate::place_copies(plan::compile(plan, chain_), setting, timeline);
  const program::Program& program = placed.program;
  const Bytes peak = placed.ranks.front().peak;
  const Bytes window = plan::update_windows(plan).front();
  const chain::StateParts parts =
      window > Bytes(0) ? chain::state_parts(chain_, window)
                        : chain::StateParts{(peak - setting.static_bytes.at(0) - Bytes(1024)) / 3};
  const simulate::OffloadRoom& offload = timeline.ranks.front().offloaded;
  const tier::OffloadStoreOptions of_values{.host = offload.values / 2,
                                            .disk = offload.values - offload.values / 2};
  PlannedRun run{.numbers = {}, .peak = {}, .predicted_peak = peak};
  comm::run_local(1, {.timeout = Seconds(30), .stop_requested = {}}, [&](comm::Channel& channel) {
    machine_.begin();
    const auto memory = machine_.open_memory();
    const bool is_held_to_it = budget > Bytes(0) && machine_.enforces();
    if (is_held_to_it) memory->set_budget(budget);
    {
      const auto counting = memory->enter();
      std::vector<int> layers;
      for (int i = 1; i <= model_.length(); ++i) layers.push_back(i);
      const device::Place& place = machine_.place();
      const model::Precision precision = model::precision_of(job_.train.precision);
      const Bytes offloaded = plan.stages.front().offloaded_optimizer;
      const std::unique_ptr<StreamedWeights> weights = streamed(plan);
      Stage stage(model_, layers, job_.train.seed, precision, place.device(),
                  offloaded > Bytes(0) ? Stage::Masters::kDrawnAgain : Stage::Masters::kDevice,
                  weights.get());
      Boundary boundary(channel, {0}, program.rank_of_layer, place.device());
      Reducer reducer(channel, Position::of(0, 1, 1), stage);
      StateLayout layout =
          lay_out_state(job_.train.optimizer, stage.parameters(), offloaded, parts.size);
      layout.parts_at_once = parts.at_once;
      EXPECT_EQ(layout.parts.empty(), offloaded == Bytes(0));
      EXPECT_LE(layout.room(), offload.state);
      auto of_state = layout.parts.empty()
                          ? nullptr
                          : machine_.make_copies({.host = offload.state, .disk = Bytes(0)});
      Optimizer optimizer(job_.train.optimizer, stage, std::move(layout), std::move(of_state));
      EXPECT_GE(optimizer.offloaded_bytes(), offloaded);
      const auto copies = machine_.make_copies(of_values);
      Executor executor({stage, boundary, reducer, optimizer, copies.get(), place},
                        {.seed = job_.train.seed,
                         .precision = precision,
                         .lean_tapes = job_.memory.tapes == "lean",
                         .clip_norm = job_.train.clip_norm,
                         .loss_scale = 1.0 / config::micro_batches(job_),
                         .owns_default_generator = true,
                         .stop_requested = {}});
      for (const int step : {0, 1}) {
        const Feed feed{[&](int m) { return data_.input(step, m); },
                        [&](int m) { return data_.target(step, m); },
                        [&](int m) { return data_.documents(step, m); }};
        const std::vector<Action>& whole = program.ranks[0];
        // Gradients that no update consumes leave with their weights: more is on the device than
        // was planned.
        if (step == 1 && updates_in_backward(whole)) {
          run.peak = memory->peak();
          if (is_held_to_it) memory->set_budget(Bytes(INT64_MAX));
        }
        const std::vector<Action> actions = step == 0 ? whole : without_end(whole, weights.get());
        const RunResult result = executor.train(actions, feed, step, 1e-2);
        run.numbers.losses.insert(run.numbers.losses.end(), result.losses.begin(),
                                  result.losses.end());
      }
      if (run.peak == Bytes(0)) run.peak = memory->peak();
      EXPECT_EQ(copies->offload_used(), Bytes(0)) << "something was left in the offload tier";
      if (is_held_to_it) memory->set_budget(Bytes(INT64_MAX));
      Optimizer::Access state(optimizer);
      for (std::size_t i = 0; i < stage.parameters().size(); ++i) {
        const StageParameter& parameter = stage.parameters()[i];
        run.numbers.parameters.push_back(state.read(i, Optimizer::StateTensor::kValue)
                                             .detach()
                                             .to(place.device(), /*non_blocking=*/false,
                                                 /*copy=*/true));
        if (!parameter.is_trained) continue;
        if (parameter.is_streamed) {
          weights->hold({{parameter.layer, true, program::HeldLayer::Gradients::kSums}});
          weights->await(parameter.layer, true);
        }
        run.numbers.gradients.push_back(parameter.gradient.clone());
      }
      for (const int i : layers) {
        for (const model::Buffer& buffer : stage.layer(i).buffers())
          run.numbers.buffers.push_back(buffer.value.clone());
      }
    }
  });
  return run;
}

const Numbers& Subject::expected() {
  if (!expected_) {
    const auto keep_all = plan("keep_all", keep_all_budget());
    ensure(keep_all.has_value(), "everything fits where it all may stay");
    expected_ = run(*keep_all, Bytes(0)).numbers;
  }
  return *expected_;
}

}  // namespace trireme::runtime
