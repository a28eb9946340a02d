// What does the executor itself cost? A keep_all program through the executor against a plain loop
// over the same layers in one process: one autograd graph from the input to the loss, one engine
// call per micro-batch, the same flat gradients, the same fused AdamW, the same allocator.
//
//     executor_cost BLOCKS WIDTH HEADS CONTEXT VOCABULARY BATCH MICRO_BATCH PAIRS THREADS FIRST
//
// The two take turns step by step, and every second pair the other way round. FIRST, `executor` or
// `plain`, allocates its parameters first: where they lie in memory is worth a percent of products
// of matrices. Prints one line per pair: seconds, processor cycles and instructions of the
// executor's step, then those of the plain step; the latter two are 0 where the kernel counts none
// for us. Fails where their losses differ in any bit: then it would not be the same work.
// SPDX-License-Identifier: Apache-2.0
#include "step/executor.h"

#include "trireme/comm/local.h"
#include "trireme/config/job.h"
#include "trireme/model/chain.h"
#include "trireme/plan/plan.h"
#include "trireme/program/generate.h"
#include "trireme/tier/memory.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <optional>
#include <string_view>
#include <vector>

namespace {

using namespace trireme;

constexpr std::int64_t kSeed = 1;
constexpr double kRate = 1e-3;
constexpr double kClipNorm = 1;

struct Shape {
  config::GptSpec model;
  std::int64_t batch = 1, micro_batch = 1, pairs = 1;

  int micro_batches() const { return static_cast<int>(batch / micro_batch); }
};

/// One step's tokens; both contestants see the same.
struct Batch {
  std::vector<at::Tensor> inputs, targets;
};

Batch random_batch(const Shape& shape) {
  Batch batch;
  for (int m = 0; m < shape.micro_batches(); ++m) {
    const at::Tensor tokens = at::randint(shape.model.vocabulary,
                                          {shape.micro_batch, shape.model.context + 1}, at::kLong);
    batch.inputs.push_back(tokens.narrow(1, 0, shape.model.context).contiguous());
    batch.targets.push_back(tokens.narrow(1, 1, shape.model.context).contiguous());
  }
  return batch;
}

std::vector<int> all_layers(const model::ChainModel& model) {
  std::vector<int> layers(static_cast<std::size_t>(model.length()));
  std::iota(layers.begin(), layers.end(), 1);
  return layers;
}

std::vector<program::Action> keep_all_program(const model::ChainModel& model, int micro_batches) {
  plan::Plan plan;
  plan.micro_batches = micro_batches;
  plan.stages.push_back({});
  plan.stages[0].program = program::keep_all(1, model.length());
  return plan::compile(plan).ranks.at(0);
}

/// The loop that anybody would write around these layers.
class PlainLoop {
 public:
  PlainLoop(const model::ChainModel& model, int micro_batches)
      : stage_(model, all_layers(model), kSeed),
        optimizer_({}, stage_),
        generator_(at::detail::createCPUGenerator()),
        micro_batches_(micro_batches) {}

  std::vector<float> step(const Batch& batch) {
    std::vector<float> losses;
    for (std::size_t m = 0; m < batch.inputs.size(); ++m) {
      model::Values x{batch.inputs[m]};
      for (const int layer : stage_.layers()) {
        model::Context context{.generator = generator_};
        if (layer == stage_.layers().back()) context.target = {batch.targets[m]};
        x = stage_.layer(layer).forward(x, context);
      }
      x[0].backward(at::full_like(x[0], 1.0 / micro_batches_));
      losses.push_back(x[0].item<float>());
    }
    optimizer_.step(kRate, clip_divisor());
    stage_.gradients().begin_anew();
    return losses;
  }

 private:
  at::Tensor clip_divisor() {
    const double norm = at::norm(stage_.gradients().flat()).item<double>();
    return at::full({}, std::max(1.0, norm / kClipNorm), at::kFloat);
  }

  runtime::Stage stage_;
  runtime::Optimizer optimizer_;
  at::Generator generator_;
  int micro_batches_;
};

/// The same step as a keep_all program, counted and recorded as in a run of `trireme train`.
class ThroughExecutor {
 public:
  ThroughExecutor(const model::ChainModel& model, int micro_batches, comm::Channel& channel,
                  tier::MemoryAccount& memory)
      : memory_(memory),
        stage_(model, all_layers(model), kSeed),
        boundary_(channel, {0}, std::vector<int>(static_cast<std::size_t>(model.length()) + 1, 0)),
        reducer_(channel, runtime::Position::of(0, 1, 1), stage_),
        optimizer_({}, stage_),
        recorder_(0, memory_),
        executor_({stage_, boundary_, reducer_, optimizer_}, {.seed = kSeed,
                                                              .clip_norm = kClipNorm,
                                                              .loss_scale = 1.0 / micro_batches,
                                                              .owns_default_generator = true}),
        actions_(keep_all_program(model, micro_batches)) {}

  std::vector<float> step(const Batch& batch, std::int64_t number) {
    const tier::AccountScope account(memory_);
    const runtime::Feed feed{
        [&](int m) { return model::Values{batch.inputs[static_cast<std::size_t>(m)]}; },
        [&](int m) { return model::Values{batch.targets[static_cast<std::size_t>(m)]}; }};
    return executor_.train(actions_, feed, number, kRate, &recorder_).losses;
  }

 private:
  tier::MemoryAccount& memory_;
  runtime::Stage stage_;
  runtime::Boundary boundary_;
  runtime::Reducer reducer_;
  runtime::Optimizer optimizer_;
  runtime::Recorder recorder_;
  runtime::Executor executor_;
  std::vector<program::Action> actions_;
};

/// What a processor counts of this process and the threads it starts later, outside the kernel.
class Counter {
 public:
  explicit Counter(perf_hw_id what) {
    perf_event_attr event{};
    event.type = PERF_TYPE_HARDWARE;
    event.size = sizeof event;
    event.config = what;
    event.exclude_kernel = 1;
    event.exclude_hv = 1;
    event.inherit = 1;
    file_ = static_cast<int>(::syscall(SYS_perf_event_open, &event, 0, -1, -1, 0));
  }
  ~Counter() {
    if (file_ >= 0) ::close(file_);
  }
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;

  /// So far; 0 where there is no such counter or we may not read it.
  std::int64_t count() const {
    std::int64_t counted = 0;
    return file_ >= 0 && ::read(file_, &counted, sizeof counted) == sizeof counted ? counted : 0;
  }

 private:
  int file_ = -1;
};

struct Counters {
  Counter cycles{PERF_COUNT_HW_CPU_CYCLES}, instructions{PERF_COUNT_HW_INSTRUCTIONS};
};

struct Cost {
  double seconds = 0;
  std::int64_t cycles = 0, instructions = 0;
};

std::ostream& operator<<(std::ostream& out, const Cost& cost) {
  return out << cost.seconds << " " << cost.cycles << " " << cost.instructions;
}

template <class Step>
Cost cost_of(const Counters& counters, const Step& step) {
  const std::int64_t cycles = counters.cycles.count();
  const std::int64_t instructions = counters.instructions.count();
  const auto begin = std::chrono::steady_clock::now();
  step();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  return {seconds.count(), counters.cycles.count() - cycles,
          counters.instructions.count() - instructions};
}

int take_turns(const Shape& shape, bool executor_first, const Counters& counters,
               comm::Channel& channel) {
  const model::ChainModel model = model::make_gpt(shape.model);
  tier::MemoryAccount& memory = tier::MemoryAccount::open("executor");
  std::optional<PlainLoop> plain;
  std::optional<ThroughExecutor> executed;
  const auto make_executor = [&] {
    const tier::AccountScope account(memory);
    executed.emplace(model, shape.micro_batches(), channel, memory);
  };
  if (executor_first) make_executor();
  plain.emplace(model, shape.micro_batches());
  if (!executor_first) make_executor();
  constexpr std::int64_t kWarmUp = 2;
  for (std::int64_t pair = 0; pair < shape.pairs + kWarmUp; ++pair) {
    const Batch batch = random_batch(shape);
    std::vector<float> plain_losses, executor_losses;
    const auto run_plain = [&] { plain_losses = plain->step(batch); };
    const auto run_executor = [&] { executor_losses = executed->step(batch, pair); };
    Cost of_plain, of_executor;
    if (pair % 2 == 0) {
      of_plain = cost_of(counters, run_plain);
      of_executor = cost_of(counters, run_executor);
    } else {
      of_executor = cost_of(counters, run_executor);
      of_plain = cost_of(counters, run_plain);
    }
    // Later steps may differ in the last bits: the two sum the gradients' norm in another order.
    if (pair == 0 && plain_losses != executor_losses) {
      std::cerr << "the executor's losses are not the plain loop's\n";
      return 1;
    }
    if (pair >= kWarmUp) std::cout << of_executor << " " << of_plain << "\n";
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 11) {
    std::cerr << "executor_cost BLOCKS WIDTH HEADS CONTEXT VOCABULARY BATCH MICRO_BATCH PAIRS "
                 "THREADS executor|plain\n";
    return 2;
  }
  const Counters counters;  // before any thread is started
  const auto number = [&](int i) { return std::atoi(argv[i]); };
  const Shape shape{.model = {.blocks = number(1),
                              .width = number(2),
                              .heads = number(3),
                              .context = number(4),
                              .vocabulary = number(5),
                              .tied_head = false},
                    .batch = number(6),
                    .micro_batch = number(7),
                    .pairs = number(8)};
  at::set_num_threads(number(9));
  tier::install_cpu_allocator();
  const bool executor_first = std::string_view(argv[10]) == "executor";
  int status = 1;
  comm::run_local(1, {}, [&](comm::Channel& channel) {
    status = take_turns(shape, executor_first, counters, channel);
  });
  return status;
}
