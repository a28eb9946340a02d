// SPDX-License-Identifier: Apache-2.0
#include "trireme/model/default_generator.h"

#include <ATen/ATen.h>

namespace trireme::model {
namespace {

std::mutex& one_at_a_time() {
  static auto* const mutex = new std::mutex;  // never freed: layers may outlive static destruction
  return *mutex;
}

}  // namespace

DefaultGenerator::DefaultGenerator() : alone_(one_at_a_time()) {}

DefaultGenerator::DefaultGenerator(const at::Generator& seeded) : DefaultGenerator() {
  at::Generator standard = at::globalContext().defaultGenerator(seeded.device());
  const std::lock_guard lock(standard.mutex());
  standard.set_current_seed(seeded.current_seed());
}

}  // namespace trireme::model
