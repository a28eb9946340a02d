// SPDX-License-Identifier: Apache-2.0
#include "built_in.h"
#include "check_job.h"
#include "field_reader.h"
#include "sections.h"

#include "trireme/config/job.h"
#include "trireme/core/text.h"

#include <utility>

namespace trireme::config {
namespace {

/// Job files are written by hand; a larger one is something else.
constexpr Bytes kMaxJobFile{1 << 20};

ModelSpec read_model(const io::Node& document, const LoadOptions& options);
/// Reads into the built-in spec of that kind, if there is one.
void read_built_in(std::string_view kind, const io::Node& model, ModelSpec& into);

}  // namespace

JobSpec load_job(const std::filesystem::path& file, const LoadOptions& options) {
  return read_job(io::load(file, kMaxJobFile), options);
}

JobSpec read_job(const io::Node& document, const LoadOptions& options) {
  io::Node settled = document;
  for (const std::string& setting : options.settings) settled = io::with_setting(settled, setting);

  JobSpec job(settled);
  FieldReader fields(settled);
  job.name = std::filesystem::path(settled.source()).stem().string();
  fields("name", job.name);
  fields.find("model");
  job.model = read_model(settled, options);
  job.data.kind = data_kinds_of(job.model).front();
  walk(fields, job);
  fields.finish();
  if (job.report.directory.empty()) job.report.directory = "runs/" + job.name;
  check(job);
  return job;
}

void JobSpec::fail(std::string_view key, std::string_view message) const {
  document.fail_at(key, message);
}

bool has_open_shape(const JobSpec& job) {
  return !job.pipeline.replicas || !job.train.micro_batch;
}

int micro_batches(const JobSpec& job) {
  return job.train.batch / (job.train.micro_batch.value() * job.pipeline.replicas.value());
}

namespace {

ModelSpec read_model(const io::Node& document, const LoadOptions& options) {
  const auto model = io::MapReader(document).optional("model");
  const auto kind = model ? io::MapReader(*model).optional("kind") : std::nullopt;
  std::vector<std::string> kinds;
  for_each_built_in([&](const auto& spec) { kinds.emplace_back(kind_of(spec)); });
  kinds.insert(kinds.end(), options.own_models.begin(), options.own_models.end());
  if (!kind)
    document.fail_at("model.kind", concat("is missing, must be one of ", join(kinds, ", ")));
  const std::string chosen = kind->choice(kinds);
  ModelSpec spec = OwnModelSpec{chosen, *model};
  read_built_in(chosen, *model, spec);
  return spec;
}

void read_built_in(std::string_view kind, const io::Node& model, ModelSpec& into) {
  for_each_built_in([&](auto spec) {
    if (kind_of(spec) != kind) return;
    FieldReader fields(model);
    fields.find("kind");
    walk(fields, spec);
    fields.finish();
    into = spec;
  });
}

}  // namespace
}  // namespace trireme::config
