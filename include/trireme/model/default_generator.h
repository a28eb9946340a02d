// The default generator, for layers whose operators take no other: TorchScript's and Python's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Generator.h>

#include <mutex>

namespace trireme::model {

/// While an object lives, the default generators are its owner's alone: one object at a time in the
/// process, so that ranks that are threads wait for one another. Whoever builds a layer from what a
/// default generator gives holds one too, or seeds mix.
class DefaultGenerator {
 public:
  /// They stay in the state in which they are.
  DefaultGenerator();
  /// The one of `seeded`'s device begins with the seed of `seeded`.
  explicit DefaultGenerator(const at::Generator& seeded);

 private:
  std::lock_guard<std::mutex> alone_;
};

}  // namespace trireme::model
