// SPDX-License-Identifier: Apache-2.0
#include "field_writer.h"
#include "sections.h"

#include "trireme/config/job.h"
#include "trireme/core/text.h"

namespace trireme::config {
namespace {

std::string model_lines(const ModelSpec& model);
std::string lines_of(std::string_view kind, auto spec);
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
  if (const auto* gpt = std::get_if<GptSpec>(&model)) return lines_of("gpt", *gpt);
  if (const auto* mlp = std::get_if<MlpSpec>(&model)) return lines_of("mlp", *mlp);
  return std::get<OwnModelSpec>(model).node.to_yaml();
}

std::string lines_of(std::string_view kind, auto spec) {
  FieldWriter writer;
  walk(writer, spec);
  return concat("kind: ", kind, "\n", writer.text());
}

std::string indented(const std::string& lines) {
  std::string text;
  for (const std::string& line : split(lines, '\n')) text += line.empty() ? "" : "  " + line + "\n";
  return text;
}

}  // namespace
}  // namespace trireme::config
