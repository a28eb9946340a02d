// Builds layers on other threads, few at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/model/layer.h"

#include <c10/core/Device.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <vector>

namespace trireme::runtime {

/// How many layers for a device are built at a time. Each takes its float32 bytes of host memory
/// until it is moved and lowered, so that a machine with many cores must not build all at once.
std::size_t built_at_once(c10::Device device);

/// Layers in the order of their numbers, each built by a thread of its own, at most `at_once` of
/// them begun and not yet taken. Every value comes from its own layer's generators, so threads do
/// not change any.
class BuiltLayers {
 public:
  using Build = std::function<std::unique_ptr<model::Layer>(int number)>;
  BuiltLayers(std::vector<int> numbers, Build build, std::size_t at_once);

  /// The layer of the next number; waits until it is built. Throws what its build threw.
  std::unique_ptr<model::Layer> next();

 private:
  std::vector<int> numbers_;
  Build build_;
  std::size_t at_once_;
  std::size_t begun_ = 0;
  std::deque<std::future<std::unique_ptr<model::Layer>>> under_way_;
};

}  // namespace trireme::runtime
