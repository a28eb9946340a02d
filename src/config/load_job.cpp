// SPDX-License-Identifier: Apache-2.0
#include "built_in.h"
#include "check_job.h"
#include "field_reader.h"
#include "read_model.h"
#include "sections.h"

#include "trireme/config/job.h"
#include "trireme/core/text.h"

#include <utility>

namespace trireme::config {
namespace {

/// Job files are written by hand; a larger one is something else.
constexpr Bytes kMaxJobFile{1 << 20};

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
  read_model(settled, options, job);
  job.data.kind = data_kinds_of(job.model).front();
  walk(fields, job);
  fields.finish(job);
  check_paths(job);
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

void require_micro_batch(const JobSpec& job) {
  if (job.train.micro_batch) return;
  job.fail("train.micro_batch",
           "is auto, must be a number for a model with batch norm: means are taken over one "
           "micro-batch, so that its size is part of the model");
}

int micro_batches(const JobSpec& job) {
  return job.train.batch / (job.train.micro_batch.value() * job.pipeline.replicas.value());
}

}  // namespace trireme::config
