// SPDX-License-Identifier: Apache-2.0
#include "job/job.h"

#include "trireme/core/text.h"
#include "trireme/device/cuda_library.h"
#include "trireme/io/node.h"
#include "trireme/ranks/launch.h"

#include <filesystem>
#include <iostream>
#include <system_error>
#include <variant>

namespace trireme::app {

config::LoadOptions load_options(const model::ModelRegistry& own) {
  config::LoadOptions options;
  for (const auto& [kind, factory] : own) options.own_models.push_back(kind);
  return options;
}

config::JobSpec load_train_job(const GivenJob& given) {
  config::LoadOptions options = load_options(given.kinds);
  options.settings = given.settings;
  config::JobSpec job = given.text ? config::read_job(io::parse(*given.text, given.file), options)
                                   : config::load_job(given.file, options);
  std::error_code failure;
  if (!job.plan.file.empty() && !std::filesystem::exists(job.plan.file, failure))
    job.fail("plan.file", concat("is ", job.plan.file, ", which does not exist"));
  if (job.device == "cuda") {
    if (job.train.deterministic) device::use_deterministic_kernels();
    device::load_cuda();  // throws what is missing
  }
  return job;
}

model::ChainModel make_job_model(const config::JobSpec& job, const model::ModelRegistry& own) {
  if (std::holds_alternative<config::TorchScriptSpec>(job.model) && ranks::is_speaker())
    std::cerr << "note: model.files are programs, which run with your rights: take them only from "
                 "people whom you trust"
              << std::endl;  // NOLINT: before they run
  model::ChainModel model = model::make_model(job.model, own);
  if (model.is_graph()) config::check_graph(job);
  const int stages = job.pipeline.stages.value_or(1);
  if (stages > model.length())
    job.fail("pipeline.stages", concat("is ", stages, ", but the model has ", model.length(),
                                       " layers, of which every stage needs one"));
  return model;
}

}  // namespace trireme::app
