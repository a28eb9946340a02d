// Where weights are that may leave, frozen and trained: on the device, or in the outer tier, from
// where those of a layer come for every run of its uses, while the layer before it is used.
//
// A rank that streams weights holds those of two layers at a time whatever its program, so that to
// the solvers it is a rank with fewer static bytes. What their copies cost, the simulator says. How
// many layers are streamed is the one number to choose.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/streamed_layers.h"

#include "trireme/partition/problem.h"

namespace trireme::partition {

/// For a question without weights_at_once: the faster of its plans with two and with three.
Answer with_best_at_once(Question question, const Planner& plan);

/// For a question without `streamed`: `plan` is asked for plans with some, several times; the
/// fastest of them.
Answer with_best_streams(const Question& question, const Planner& plan);

}  // namespace trireme::partition
