// Jobs whose layers are measured in milliseconds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"
#include "trireme/io/node.h"
#include "trireme/profile/measure.h"

namespace trireme::profile {

inline config::JobSpec job_of(config::ModelSpec model, int micro_batch) {
  config::JobSpec job(io::parse("{}", "small job"));
  job.model = std::move(model);
  job.train.batch = micro_batch;
  job.train.micro_batch = micro_batch;
  return job;
}

/// Bytes only: every layer is timed once.
inline MeasureOptions quick() {
  return {.threads = 1, .least_time = Seconds(0), .least_runs = 1};
}

inline chain::Chain measured(const config::JobSpec& job) {
  return measure(model::make_model(job.model), job, quick());
}

}  // namespace trireme::profile
