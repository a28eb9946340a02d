// SPDX-License-Identifier: Apache-2.0
#include "model_lines.h"

#include "built_in.h"
#include "field_writer.h"
#include "sections.h"

#include "trireme/core/text.h"

namespace trireme::config {
namespace {

template <class Spec>
std::string lines_of(Spec spec) {
  FieldWriter writer;
  walk(writer, spec);
  return concat("kind: ", kind_of(spec), "\n", writer.text());
}

std::string lines_of(const OwnModelSpec& spec) {
  return spec.node.to_yaml();
}

}  // namespace

std::string model_lines(const ModelSpec& model) {
  return std::visit([](const auto& spec) { return lines_of(spec); }, model);
}

}  // namespace trireme::config
