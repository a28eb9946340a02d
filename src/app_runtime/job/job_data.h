// A job's data set.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/app_runtime/in_process.h"
#include "trireme/config/job.h"
#include "trireme/data/dataset.h"
#include "trireme/model/chain.h"
#include "trireme/runtime/trainer.h"

#include <memory>
#include <string>

namespace trireme::app {

/// Opens the job's data set, `given`'s own where the job says so. Throws InputError; one about its
/// files says where the job names them.
std::unique_ptr<data::Dataset> open_data(const config::JobSpec& job, const model::ChainModel& model,
                                         const GivenJob& given);

/// `data`, the digest of all examples, with the model's code (ChainModel::code) where there is
/// some.
std::string content_digest(const model::ChainModel& model, const std::string& data);

/// The batches that a trainer loads in each step and validation. The data set must outlive it.
runtime::DataSource source_of(const config::JobSpec& job, const model::ChainModel& model,
                              const data::Dataset& dataset);

}  // namespace trireme::app
