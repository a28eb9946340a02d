// A job's data set.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"
#include "trireme/data/dataset.h"
#include "trireme/model/chain.h"

#include <memory>

namespace trireme::app {

/// Throws InputError; one about its files says where the job names them.
std::unique_ptr<data::Dataset> open_data(const config::JobSpec& job,
                                         const model::ChainModel& model);

}  // namespace trireme::app
