// SPDX-License-Identifier: Apache-2.0
#include "field_writer.h"
#include "model_lines.h"
#include "sections.h"

#include "trireme/config/job.h"
#include "trireme/core/text.h"

namespace trireme::config {
namespace {

std::string indented(const std::string& lines);

}  // namespace

std::string to_yaml(const JobSpec& job) {
  JobSpec copy = job;
  FieldWriter writer;
  writer("name", job.name);
  std::string text = writer.text() + "model:\n" + indented(model_lines(job.model));
  if (!job.weights.empty()) text += concat("  weights: ", io::yaml_text(job.weights), "\n");
  if (!job.adapters.empty()) text += concat("  adapters: ", io::yaml_text(job.adapters), "\n");
  FieldWriter sections;
  walk(sections, copy);
  return text + sections.text();
}

namespace {

std::string indented(const std::string& lines) {
  std::string text;
  for (const std::string& line : split(lines, '\n')) text += line.empty() ? "" : "  " + line + "\n";
  return text;
}

}  // namespace
}  // namespace trireme::config
