// SPDX-License-Identifier: Apache-2.0
#include "trireme/model/foreign.h"

#include "trireme/core/error.h"

#include <atomic>
#include <utility>

namespace trireme::model {
namespace {

thread_local void (*early_end_thrower)() = nullptr;                // NOLINT
std::atomic<const ForeignBackwards*> expected_language = nullptr;  // NOLINT

}  // namespace

EarlyEndScope::EarlyEndScope(void (*thrower)())
    : enclosing_(std::exchange(early_end_thrower, thrower)) {}

EarlyEndScope::~EarlyEndScope() {
  early_end_thrower = enclosing_;
}

void end_early() {
  if (early_end_thrower == nullptr) throw EarlyEnd{};
  early_end_thrower();
  throw LogicError("the thrower of an early end has returned");
}

void expect_foreign_backwards(const ForeignBackwards* language) {
  expected_language = language;
}

const ForeignBackwards* foreign_backwards() {
  return expected_language;
}

}  // namespace trireme::model
