// The optimiser's step over one rank's parameters, and the learning rate over time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"
#include "trireme/core/units.h"
#include "trireme/runtime/stage.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace trireme::runtime {

/// Learning rate of step 0, 1, ...: linear warm-up over `warmup_steps` (its first step takes 1 /
/// warmup_steps of the rate), then constant, or half a cosine down to `least_fraction` at the last
/// step (Loshchilov and Hutter 2017).
double learning_rate(const config::TrainSpec& spec, std::int64_t step);

/// AdamW (Loshchilov and Hutter 2019) or SGD with momentum, by LibTorch's fused kernels. Weight
/// decay applies to parameters of two or more dimensions (not to biases and norms).
class Optimizer {
 public:
  Optimizer(const config::OptimizerSpec& spec, const Stage& stage);

  /// One update from the gradients as they are. Uses that share another use's value are not stepped
  /// again.
  void step(double rate);

  Bytes state_bytes() const;

 private:
  /// Parameters with the same decay, and their states.
  struct Group {
    double decay = 0;
    std::vector<at::Tensor> values, gradients, first_moments, second_moments, steps;
  };
  void step_adamw(Group& group, double rate) const;
  void step_sgd(Group& group, double rate) const;

  config::OptimizerSpec spec_;
  std::vector<Group> groups_;
  bool first_step_ = true;
};

}  // namespace trireme::runtime
