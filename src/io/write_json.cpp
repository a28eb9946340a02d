// SPDX-License-Identifier: Apache-2.0
#include "trireme/io/json.h"

namespace trireme::io {
namespace {

std::string text_of(const Json& json, int indent) {
  std::string text = json.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
  // Node takes no control characters, and JSON's own rule leaves out this one.
  constexpr char kDelete = 0x7F;
  for (std::size_t at = 0; (at = text.find(kDelete, at)) != std::string::npos;)
    text.replace(at, 1, "\\u007f");
  return text;
}

}  // namespace

std::string one_line(const Json& json) {
  return text_of(json, -1);
}

std::string document(const Json& json) {
  return text_of(json, 2) + "\n";
}

}  // namespace trireme::io
