// SPDX-License-Identifier: Apache-2.0
#include "job/job.h"

#include "trireme/core/text.h"
#include "trireme/device/cuda_library.h"
#include "trireme/io/node.h"
#include "trireme/ranks/launch.h"

#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <variant>
#include <vector>

namespace trireme::app {

namespace {

io::Node values_of(const GivenJob& given) {
  return io::parse_values(*given.text, given.file);
}

/// The job's settings, and those that say what the program hands over. Throws InputError where the
/// job has a model besides.
std::vector<std::string> settings_of(const GivenJob& given) {
  std::vector<std::string> settings = given.settings;
  if (given.model.empty() && !given.examples) return settings;
  const io::Node document = given.text ? values_of(given) : io::load(given.file);
  const auto find = [](const std::optional<io::Node>& map, std::string_view key) {
    return map && map->kind() == io::Node::Kind::kMap ? map->find(key) : std::nullopt;
  };
  if (!given.model.empty()) {
    const auto model = find(document, "model"), kind = find(model, "kind");
    const bool is_said_again = kind && kind->kind() == io::Node::Kind::kScalar &&
                               kind->text() == given.model && model->entries().size() == 1;
    if (model && !is_said_again)
      model->fail("is there, and the program hands a chain over: leave one of them out");
    if (!model) settings.push_back("model.kind=" + given.model);
  }
  if (given.examples && !find(find(document, "data"), "kind")) settings.push_back("data.kind=own");
  return settings;
}

}  // namespace

config::LoadOptions load_options(const model::ModelRegistry& own) {
  config::LoadOptions options;
  for (const auto& [kind, factory] : own) options.own_models.push_back(kind);
  return options;
}

config::JobSpec load_train_job(const GivenJob& given) {
  config::LoadOptions options = load_options(given.kinds);
  options.settings = settings_of(given);
  config::JobSpec job = given.text ? config::read_job(values_of(given), options)
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
