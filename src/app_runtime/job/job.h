// Reads a job and its model, as every command that runs one does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/app_runtime/in_process.h"
#include "trireme/config/job.h"
#include "trireme/model/chain.h"

namespace trireme::app {

/// Options with the model kinds that this program adds to the built-in ones.
config::LoadOptions load_options(const model::ModelRegistry& own);

/// The job, if this program can run it. Throws InputError, also for options that this version does
/// not implement rather than ignoring them.
config::JobSpec load_train_job(const GivenJob& given);

/// The job's chain, as layer recipes. Throws InputError, also where there are fewer layers than
/// stages, before there is a rank for every stage.
model::ChainModel make_job_model(const config::JobSpec& job, const model::ModelRegistry& own);

}  // namespace trireme::app
