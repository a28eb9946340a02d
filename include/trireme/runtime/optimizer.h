// The optimiser's step over one rank's parameters, and the learning rate over time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"
#include "trireme/core/units.h"
#include "trireme/model/update.h"
#include "trireme/runtime/stage.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace trireme::runtime {

/// Learning rate of step 0, 1, ...: linear warm-up over `warmup_steps` (its first step takes 1 /
/// warmup_steps of the rate), then constant, or half a cosine down to `least_fraction` at the last
/// step (Loshchilov and Hutter 2017).
double learning_rate(const config::TrainSpec& spec, std::int64_t step);

/// model::update() of a stage's parameters. Weight decay applies to those of two or more dimensions
/// (not to biases and norms).
class Optimizer {
 public:
  Optimizer(const config::OptimizerSpec& spec, const Stage& stage);

  /// One update from the gradients, divided by `divisor` where that is defined. Uses that share
  /// another use's value are not stepped again.
  void step(double rate, const at::Tensor& divisor = {});

  Bytes state_bytes() const;

  /// What is kept of a parameter between steps; undefined where nothing is (SGD has no second
  /// moments, and none at all without momentum).
  struct Moments {
    at::Tensor first, second;
  };
  /// Of stage.parameters()[i]; of a use that shares another's value: nothing.
  const Moments& moments(std::size_t i) const { return moments_.at(i); }

  /// Goes on as after `steps` steps (0: begins), from the parameters and moments that are there
  /// now.
  void resume_after(std::int64_t steps);

 private:
  config::OptimizerSpec spec_;
  std::vector<Moments> moments_;
  std::vector<model::UpdateGroup> groups_;
  bool first_step_ = true;
};

}  // namespace trireme::runtime
