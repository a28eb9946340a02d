// SPDX-License-Identifier: Apache-2.0
#include "built_in.h"
#include "field_writer.h"
#include "sections.h"

#include "trireme/config/job.h"
#include "trireme/core/text.h"

namespace trireme::config {
namespace {

std::string model_lines(const ModelSpec& model);
template <class Spec>
std::string lines_of(Spec spec);
std::string lines_of(const OwnModelSpec& spec);
std::string indented(const std::string& lines);

}  // namespace

std::string to_yaml(const JobSpec& job) {
  JobSpec copy = job;
  FieldWriter writer;
  writer("name", job.name);
  std::string text = writer.text() + "model:\n" + indented(model_lines(job.model));
  FieldWriter sections;
  walk(sections, copy);
  return text + sections.text();
}

namespace {

std::string model_lines(const ModelSpec& model) {
  return std::visit([](const auto& spec) { return lines_of(spec); }, model);
}

template <class Spec>
std::string lines_of(Spec spec) {
  FieldWriter writer;
  walk(writer, spec);
  return concat("kind: ", kind_of(spec), "\n", writer.text());
}

std::string lines_of(const OwnModelSpec& spec) {
  return spec.node.to_yaml();
}

std::string indented(const std::string& lines) {
  std::string text;
  for (const std::string& line : split(lines, '\n')) text += line.empty() ? "" : "  " + line + "\n";
  return text;
}

}  // namespace
}  // namespace trireme::config
