// Weight streaming: which layers keep their weights in the offload tier and copy them to the device
// for every use, during the layer before. The simulator counts the copies; the one number to choose
// is how many layers are streamed.
// SPDX-License-Identifier: Apache-2.0
#include "axis.h"
#include "memory/offload.h"

#include "trireme/program/groups.h"

#include <algorithm>
#include <cmath>

namespace trireme::partition {
namespace {

constexpr double kFinest = 2;  // layers

/// Lower bound on a rank's copy-in time in a step that streams these layers: every group of
/// micro-batches copies their weights twice and, except the first, their gradients, without those
/// still on the device where the order turns from forward to backward. The longest time is at least
/// the mean.
Seconds least_copies(const Problem& problem, const Choices& choices) {
  double weights = 0, gradients = 0, largest = 0, rate = 0;
  for (const int layer : choices.streamed) {
    const chain::OffloadWeights& one = problem.chain.layer(layer).may_leave();
    weights += static_cast<double>(one.weights.count());
    gradients += static_cast<double>(one.gradients.count());
    largest = std::max(largest, static_cast<double>(one.all().count()));
  }
  for (int k = 0; k < problem.stages; ++k)
    rate += problem.platform.ranks[static_cast<std::size_t>(k)].in.count();
  if (rate == 0) return Seconds(0);
  // Layers on the device where the order turns, and one being copied.
  const double stay = 2.0 * problem.stages * (choices.weights_at_once + 1);
  const int uses = program::groups_of(problem.micro_batches, choices.group);
  const double bytes = uses * (2 * weights + gradients - stay * largest);
  return Seconds(std::max(0.0, bytes - gradients) / rate);
}

Seconds bound(const Problem& problem, const Log&, const Choices& choices) {
  return least_copies(problem, choices);
}

std::vector<Choices> moves(const Scene& scene) {
  const chain::Chain& chain = scene.question.chain;
  return along(
      {.low = 0,
       .high = static_cast<double>(all_to_stream(chain).size()),
       .finest = kFinest,
       .at =
           [&](double number) {
             return streaming(scene.question, scene.best.choices,
                              layers_to_stream(chain, static_cast<int>(std::ceil(number))));
           },
       .asked =
           [](const Choices& choices) { return static_cast<double>(choices.streamed.size()); }},
      scene);
}

}  // namespace

Choices streaming_most(const Question& question, Choices choices, Seconds step) {
  int fits = 0, too_many = static_cast<int>(all_to_stream(question.chain).size()) + 1;
  while (too_many - fits > 1) {
    const int middle = fits + (too_many - fits) / 2;
    const Choices more = streaming(question, choices, layers_to_stream(question.chain, middle));
    (least_copies(question, more) < step ? fits : too_many) = middle;
  }
  return streaming(question, std::move(choices), layers_to_stream(question.chain, fits));
}

const Axis kStreamedWeights{.name = "weights in the offload tier",
                            .without = "weights on the device",
                            .is_open =
                                [](const Question& question) {
                                  return !question.streamed && !streamable(question).empty();
                                },
                            .moves = moves,
                            .bound = bound,
                            .is_used =
                                [](const Judged& judged) {
                                  return judged.plan() != nullptr
                                             ? !streamed_by(*judged.plan()).empty()
                                             : !judged.choices.streamed.empty();
                                },
                            .most_looks = 6,
                            .most_looks_at_large = 3,
                            .least_gain = 0,
                            .reason = "the simulator counts every copy"};

}  // namespace trireme::partition
