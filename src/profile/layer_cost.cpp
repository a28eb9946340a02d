// SPDX-License-Identifier: Apache-2.0
#include "layer_cost.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <set>

namespace trireme::profile {
namespace {

using Clock = std::chrono::steady_clock;

/// The same draws in every run.
constexpr std::uint64_t kDropoutSeed = 7;
/// Of outputs; any that neither vanishes nor overflows on its way.
constexpr double kGradient = 1e-3;

/// A repeated forward holds a copy of the layer's buffers, so that their change can be undone.
Bytes buffer_copies(const model::Layer& layer);
model::Values untaped(const Subject& subject);
model::Tape taped(const Subject& subject);
/// Gradients of a tape's floating outputs.
model::Values output_gradients(const model::Tape& tape);
double median(std::vector<double> values);

Seconds since(Clock::time_point begin) {
  return Seconds(std::chrono::duration<double>(Clock::now() - begin).count());
}

}  // namespace

Bytes held_by(const model::Values& values) {
  std::set<const c10::StorageImpl*> storages;
  Bytes total{0};
  for (const at::Tensor& value : values) {
    const at::Storage& storage = value.storage();
    if (storages.insert(storage.unsafeGetStorageImpl()).second)
      total += Bytes(static_cast<std::int64_t>(storage.nbytes()));
  }
  return total;
}

model::Values measure_bytes(const Subject& subject, tier::DeviceMemory& account,
                            chain::LayerCost& cost) {
  const Bytes copies = buffer_copies(subject.layer);
  {
    model::Tape first = taped(subject);
    const model::Values gradients = output_gradients(first);
    model::backward(std::move(first), gradients);
  }
  Bytes before = account.live();
  account.reset_peak();
  model::Values output = untaped(subject);
  cost.output = held_by(output);
  // An output that stands in its input's storage adds nothing now, but weighs once that has gone.
  cost.forward_transient = std::max(Bytes(0), account.peak() - before - cost.output) + copies;

  before = account.live();
  account.reset_peak();
  model::Tape tape = taped(subject);
  cost.tape = account.live() - before + held_by(subject.context.target);
  cost.tape_transient = account.peak() - account.live() + copies;

  const model::Values gradients = output_gradients(tape);
  before = account.live();
  account.reset_peak();
  const model::Values input_gradients = model::backward(std::move(tape), gradients);
  cost.backward_transient = account.peak() - before;
  return output;
}

void measure_times(const Subject& subject, device::Marks& marks, const Sampling& sampling,
                   chain::LayerCost& cost) {
  struct Run {
    device::Marks::Mark begin, turn, end, gradients_made;
  };
  std::vector<Run> runs;
  const auto begin = Clock::now();
  marks.begin();
  while (static_cast<int>(runs.size()) < sampling.least_runs ||
         since(begin) < sampling.least_time) {
    sampling.between();
    Run& run = runs.emplace_back();
    run.begin = marks.set();
    model::Tape tape = taped(subject);
    run.turn = marks.set();
    const model::Values gradients = output_gradients(tape);
    run.gradients_made = marks.set();
    const model::Values input_gradients = model::backward(std::move(tape), gradients);
    run.end = marks.set();
    // Runs that are on their way to a device take time, too.
    if (runs.size() % static_cast<std::size_t>(sampling.least_runs) == 0) marks.settle();
  }
  marks.settle();
  const auto between = [&](device::Marks::Mark from, device::Marks::Mark to) {
    return std::chrono::duration<double>(marks.time(to) - marks.time(from)).count();
  };
  std::vector<double> forwards, backwards;
  for (const Run& run : runs) {
    forwards.push_back(between(run.begin, run.turn));
    backwards.push_back(between(run.gradients_made, run.end));
  }
  cost.forward = Seconds(median(std::move(forwards)));
  cost.backward = Seconds(median(std::move(backwards)));
}

namespace {

Bytes buffer_copies(const model::Layer& layer) {
  Bytes total{0};
  for (const model::Buffer& buffer : layer.buffers())
    total += Bytes(static_cast<std::int64_t>(buffer.value.nbytes()));
  return total;
}

void rewind(const model::Context& context) {
  at::Generator generator = context.generator;
  generator.set_current_seed(kDropoutSeed);
}

model::Values untaped(const Subject& subject) {
  rewind(subject.context);
  return model::untaped_forward(subject.layer, subject.input, subject.context, subject.precision);
}

model::Tape taped(const Subject& subject) {
  rewind(subject.context);
  return model::taped_forward(subject.layer, subject.input, subject.context, subject.precision,
                              subject.input_gradient);
}

model::Values output_gradients(const model::Tape& tape) {
  model::Values gradients;
  for (const at::Tensor& output : tape.outputs) {
    if (output.is_floating_point()) gradients.push_back(at::full_like(output, kGradient));
  }
  return gradients;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace
}  // namespace trireme::profile
