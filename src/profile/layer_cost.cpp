// SPDX-License-Identifier: Apache-2.0
#include "layer_cost.h"

#include "cold_caches.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <set>

namespace trireme::profile {
namespace {

using Clock = std::chrono::steady_clock;

/// The same random numbers in every run.
constexpr std::uint64_t kDropoutSeed = 7;

model::Values untaped(const Subject& subject);
model::Tape taped(const Subject& subject, model::TapeUse use = model::TapeUse::kStays);
model::Outlined outlined_forward(const Subject& subject);
model::Tape retape(const Subject& subject, model::Outline outline);
/// Peak of the tape's backward above what is held before it; creates the gradients of `outputs`.
Bytes backward_peak(model::Tape tape, const model::Values& outputs, tier::DeviceMemory& account);
/// Memory of a split backward; nothing if the first part defers nothing.
std::optional<chain::SplitBackward> split_backward(const Subject& subject,
                                                   const model::Values& outputs,
                                                   tier::DeviceMemory& account);
/// The first part of a backward.
model::SplitBackward first_part(const Subject& subject, model::Tape tape,
                                const model::Values& gradients);
/// Gradients of the floating outputs.
model::Values output_gradients(const model::Values& outputs);
/// The same with random values. A GPU takes less power for a product with a constant matrix, and so
/// is some percent faster.
model::Values drawn_gradients(const model::Values& outputs, const at::Generator& from);
/// Timing marks of one run.
struct RunMarks {
  device::Marks::Mark begin, turn, gradients_made, end;
  device::Marks::Mark outlined = 0, retaped = 0;  ///< only with a retape
  device::Marks::Mark parted = 0, added = 0;      ///< only with a second part of the backward
};
/// Runs forward, backward for `gradients` (drawn if there are none yet) and, if `cost` has them, a
/// retape after a forward and the second part of a split backward.
RunMarks marked_run(const Subject& subject, device::Marks& marks, ColdCaches& caches,
                    const chain::LayerCost& cost, model::Values& gradients);
/// Mean power while `run` is repeated for at least `time`; nothing where the meter fails.
std::optional<Watts> mean_power(device::Marks& marks, device::Meter& meter, Seconds time,
                                const std::function<void()>& run);

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

Bytes held_by(const std::vector<c10::Storage>& storages) {
  Bytes total{0};
  for (const c10::Storage& storage : storages)
    total += Bytes(static_cast<std::int64_t>(storage.nbytes()));
  return total;
}

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

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

model::Values measure_bytes(const Subject& subject, tier::DeviceMemory& account,
                            chain::LayerCost& cost) {
  const Bytes copies = buffer_copies(subject.layer);
  {
    model::Tape first = taped(subject);
    const model::Values gradients = output_gradients(first.outputs);
    model::backward(std::move(first), gradients);
  }
  Bytes before = account.live();
  account.reset_peak();
  model::Values output = untaped(subject);
  cost.output = held_by(output);
  // An output that shares its input's storage adds nothing now, but counts once the input is
  // released.
  cost.forward_transient = std::max(Bytes(0), account.peak() - before - cost.output) + copies;

  const Bytes target = held_by(subject.context.target);
  before = account.live();
  account.reset_peak();
  model::Tape tape = taped(subject, model::TapeUse::kMayMove);
  cost.tape = account.live() - before + target;
  cost.tape_stays = std::max(Bytes(0), account.live() - before - held_by(tape.storages));
  cost.tape_transient = account.peak() - account.live() + copies;
  cost.backward_transient = backward_peak(std::move(tape), output, account);
  cost.split = split_backward(subject, output, account);

  before = account.live();
  account.reset_peak();
  model::Outlined outlined = outlined_forward(subject);
  const Bytes left = account.live() - before - held_by(outlined.outputs);
  cost.forward_transient = std::max(cost.forward_transient,
                                    account.peak() - before - held_by(outlined.outputs) + copies);
  outlined.outputs.clear();
  if (left > Bytes(0)) return output;  // its graph holds tensors that bypass the hooks

  before = account.live();
  account.reset_peak();
  tape = retape(subject, std::move(outlined.outline));
  chain::Retape again{.time = {},
                      .tape = account.live() - before + target,
                      .tape_transient = account.peak() - account.live() + copies,
                      .backward_transient = {}};
  again.backward_transient = backward_peak(std::move(tape), output, account);
  // A retape that takes more than a whole taped forward is not used.
  if (again == chain::capped(again, cost)) cost.retape = again;
  return output;
}

void measure_times(const Subject& subject, device::Marks& marks, const Sampling& sampling,
                   chain::LayerCost& cost) {
  std::vector<RunMarks> runs;
  model::Values gradients;
  ColdCaches caches(sampling.touched, subject.input.front().device());
  const auto begin = Clock::now();
  marks.begin();
  while (static_cast<int>(runs.size()) < sampling.least_runs ||
         to_seconds(Clock::now() - begin) < sampling.least_time) {
    sampling.between();
    runs.push_back(marked_run(subject, marks, caches, cost, gradients));
    // Queued runs on a device take time, too.
    if (runs.size() % static_cast<std::size_t>(sampling.least_runs) == 0) marks.settle();
  }
  marks.settle();
  const auto between = [&](device::Marks::Mark from, device::Marks::Mark to) {
    return std::chrono::duration<double>(marks.time(to) - marks.time(from)).count();
  };
  std::vector<double> forwards, backwards, retapes, of_weights;
  for (const RunMarks& run : runs) {
    forwards.push_back(between(run.begin, run.turn));
    backwards.push_back(between(run.gradients_made, run.end));
    if (cost.retape) retapes.push_back(between(run.outlined, run.retaped));
    if (cost.split) of_weights.push_back(between(run.parted, run.added));
  }
  cost.forward = Seconds(median(std::move(forwards)));
  cost.backward = Seconds(median(std::move(backwards)));
  if (cost.retape) cost.retape->time = std::min(cost.forward, Seconds(median(std::move(retapes))));
  if (cost.split)
    cost.split->weights = std::min(cost.backward, Seconds(median(std::move(of_weights))));
}

void measure_energy(const Subject& subject, device::Marks& marks, device::Meter& meter,
                    const Sampling& sampling, chain::LayerCost& cost) {
  model::Values gradients;
  const auto forward = [&] {
    sampling.between();
    return taped(subject);
  };
  const auto both = [&] {
    model::Tape tape = forward();
    if (gradients.empty()) gradients = drawn_gradients(tape.outputs, subject.context.generator);
    model::backward(std::move(tape), gradients);
  };
  const std::optional<Watts> of_forward =
      mean_power(marks, meter, sampling.least_time, [&] { forward(); });
  const std::optional<Watts> of_both = mean_power(marks, meter, sampling.least_time, both);
  if (!of_forward || !of_both || *of_both == Watts(0)) return;
  const Joules all = *of_both * (cost.forward + cost.backward);
  cost.forward_energy = std::min(all, *of_forward * cost.forward);
  cost.backward_energy = all - cost.forward_energy;
}

namespace {

model::Values untaped(const Subject& subject) {
  rewind(subject.context);
  return model::untaped_forward(subject.layer, subject.input, subject.context, subject.precision);
}

model::Tape taped(const Subject& subject, model::TapeUse use) {
  rewind(subject.context);
  return model::taped_forward(subject.layer, subject.input, subject.context, subject.precision,
                              subject.input_gradient, use);
}

model::Outlined outlined_forward(const Subject& subject) {
  rewind(subject.context);
  return model::outlined_forward(subject.layer, subject.input, subject.context, subject.precision,
                                 subject.input_gradient);
}

model::Tape retape(const Subject& subject, model::Outline outline) {
  rewind(subject.context);
  return model::retape(std::move(outline), subject.layer, subject.input, subject.context,
                       subject.precision);
}

Bytes backward_peak(model::Tape tape, const model::Values& outputs, tier::DeviceMemory& account) {
  const model::Values gradients = output_gradients(outputs);
  const Bytes before = account.live();
  account.reset_peak();
  const model::Values input_gradients = model::backward(std::move(tape), gradients);
  return account.peak() - before;
}

std::optional<chain::SplitBackward> split_backward(const Subject& subject,
                                                   const model::Values& outputs,
                                                   tier::DeviceMemory& account) {
  const Bytes nothing = account.live();
  // Uses its own input: pending values may include the input, which is then held as long.
  model::Values input;
  for (const at::Tensor& value : subject.input) input.push_back(value.clone());
  Subject own{subject.layer,   subject.gradients, input,
              subject.context, subject.precision, subject.input_gradient};
  model::Tape tape = taped(own);
  model::Values gradients = output_gradients(outputs);
  Bytes before = account.live();
  account.reset_peak();
  model::SplitBackward parts = first_part(own, std::move(tape), gradients);
  chain::SplitBackward cost{.weights = {},
                            .pending = {},
                            .input_transient = account.peak() - before,
                            .weights_transient = {}};
  if (parts.pending.empty()) return std::nullopt;
  input.clear();
  gradients.clear();
  parts.input_gradients.clear();
  before = account.live();
  cost.pending = before - nothing;
  account.reset_peak();
  parts.pending.add();
  cost.weights_transient = account.peak() - before;
  return cost;
}

model::SplitBackward first_part(const Subject& subject, model::Tape tape,
                                const model::Values& gradients) {
  return model::backward_input(std::move(tape), gradients, {&subject.gradients});
}

RunMarks marked_run(const Subject& subject, device::Marks& marks, ColdCaches& caches,
                    const chain::LayerCost& cost, model::Values& gradients) {
  RunMarks run{};
  caches.pass(subject.input);
  run.begin = marks.set();
  model::Tape tape = taped(subject);
  run.turn = marks.set();
  if (gradients.empty()) gradients = drawn_gradients(tape.outputs, subject.context.generator);
  caches.pass(gradients);
  run.gradients_made = marks.set();
  const model::Values input_gradients = model::backward(std::move(tape), gradients);
  run.end = marks.set();
  if (cost.retape) {
    model::Outline outline = outlined_forward(subject).outline;
    caches.pass(subject.input);
    run.outlined = marks.set();
    tape = retape(subject, std::move(outline));
    run.retaped = marks.set();
  }
  if (cost.split) {
    model::PendingProducts pending = first_part(subject, taped(subject), gradients).pending;
    caches.pass({});
    run.parted = marks.set();
    pending.add();
    run.added = marks.set();
  }
  return run;
}

std::optional<Watts> mean_power(device::Marks& marks, device::Meter& meter, Seconds time,
                                const std::function<void()>& run) {
  run();  // draws gradients, and warms caches up
  marks.begin();
  const std::optional<device::Meter::Reading> before = meter.read();
  std::optional<device::Meter::Reading> now = before;
  while (now && now->at - before->at < time) {
    // Runs are queued, so that a device does not wait for the host, but not without end.
    constexpr int kQueued = 5;
    for (int k = 0; k < kQueued; ++k) run();
    marks.set();
    marks.settle();
    now = meter.read();
  }
  if (!now || now->at == before->at) return std::nullopt;
  return Watts((now->taken - before->taken).count() / (now->at - before->at).count());
}

model::Values output_gradients(const model::Values& outputs) {
  model::Values gradients;
  for (const at::Tensor& output : outputs) {
    if (output.is_floating_point()) gradients.push_back(at::full_like(output, kGradient));
  }
  return gradients;
}

model::Values drawn_gradients(const model::Values& outputs, const at::Generator& from) {
  model::Values gradients = output_gradients(outputs);
  for (at::Tensor& gradient : gradients) gradient.normal_(0, kGradient, from);
  return gradients;
}

}  // namespace
}  // namespace trireme::profile
