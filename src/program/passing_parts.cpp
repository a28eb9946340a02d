// SPDX-License-Identifier: Apache-2.0
#include "trireme/program/passing_parts.h"

#include <cstdint>
#include <utility>

namespace trireme::program {

bool PassingParts::begin_next() {
  const int room = used_ == 0 ? most_.at_once - most_.leaving() : most_.at_once;
  if (begun_ == count_ || std::cmp_greater_equal(begun_ - gone_, room)) return false;
  ++begun_;
  return true;
}

bool PassingParts::use_next() {
  ++used_;
  return std::cmp_greater(used_ - gone_, most_.leaving()) && leave_next();
}

bool PassingParts::leave_next() {
  if (gone_ == used_) return false;
  ++gone_;
  return true;
}

Share share_of(int action, int actions, int count) {
  const auto until = [&](std::int64_t shares) {
    return static_cast<int>(shares * count / actions);
  };
  return {until(action), until(action + 1)};
}

}  // namespace trireme::program
