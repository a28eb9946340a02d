// SPDX-License-Identifier: Apache-2.0
#include "state/tensor_types.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <utility>

namespace trireme::runtime {
namespace {

constexpr std::pair<const char*, at::ScalarType> kTypes[] = {
    {"F32", at::kFloat}, {"F64", at::kDouble}, {"BF16", at::kBFloat16}, {"F16", at::kHalf},
    {"I64", at::kLong},  {"I32", at::kInt},    {"U8", at::kByte},       {"BOOL", at::kBool}};

}  // namespace

std::string type_name(at::ScalarType type) {
  for (const auto& [name, known] : kTypes)
    if (known == type) return name;
  throw Error(concat("a checkpoint cannot hold tensors of type ", type));
}

at::ScalarType type_named(const std::string& name, const std::string& tensor) {
  std::vector<std::string> known;
  for (const auto& [each, type] : kTypes) {
    if (each == name) return type;
    known.emplace_back(each);
  }
  throw InputError(concat(tensor, " has the type ", name, ", must be one of ", join(known, ", ")));
}

bool may_overflow(at::ScalarType from, at::ScalarType to) {
  if (from == to || !at::isFloatingType(from)) return false;
  if (from == at::kHalf || to == at::kDouble) return false;  // the smallest and the largest range
  return from != at::kBFloat16 || to == at::kHalf;
}

std::string shape_text(const std::string& type, const std::vector<std::int64_t>& sizes) {
  std::vector<std::string> texts;
  for (const std::int64_t size : sizes) texts.push_back(concat(size));
  return concat(type, type.empty() ? "[" : " [", join(texts, ", "), "]");
}

}  // namespace trireme::runtime
