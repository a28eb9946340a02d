// Where frozen weights are: on the device, or in the outer tier, from where those of a layer come
// for every run of its uses, while the layer before it is used.
//
// A rank that streams weights holds those of two layers at a time whatever its program, so that to
// the solvers it is a rank with fewer static bytes. What their copies cost, the simulator says. How
// many layers are streamed is the one number to choose.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/planner.h"

#include <functional>
#include <vector>

namespace trireme::partition {

/// Of question.streamed, the layers that a rank with these runs streams: those that its outer tier
/// has room for, and none where all of them would be there at a time anyway.
std::vector<int> streamed_of(const Question& question, int rank, const LayerRuns& runs);

/// Their weights, and how much less of them a rank holds than if they were not streamed.
struct StreamedBytes {
  Bytes outside, saved;
};
StreamedBytes streamed_bytes(const Question& question, const std::vector<int>& layers);

/// `count` of the layers that have frozen weights: of unequal ones the smaller, which need less of
/// the device while they come, of equal ones evenly spread, so that copies have the layers between
/// them to hide behind.
std::vector<int> layers_to_stream(const chain::Chain& chain, int count);

/// For a question without weights_at_once: the faster of its plans with two and with three.
Answer with_best_at_once(Question question, const std::function<Answer(const Question&)>& plan);

/// For a question without `streamed`: `plan` is asked for plans with some, several times; the
/// fastest of them.
Answer with_best_streams(const Question& question,
                         const std::function<Answer(const Question&)>& plan);

}  // namespace trireme::partition
