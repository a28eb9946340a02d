// SPDX-License-Identifier: Apache-2.0
#include "state/built_layers.h"

#include "trireme/core/cores.h"
#include "trireme/core/error.h"

#include <algorithm>
#include <utility>

namespace trireme::runtime {

std::size_t built_at_once(c10::Device device) {
  constexpr int kMost = 8;
  return device.is_cpu() ? 1 : static_cast<std::size_t>(std::min(kMost, usable_processors()));
}

BuiltLayers::BuiltLayers(std::vector<int> numbers, Build build, std::size_t at_once)
    : numbers_(std::move(numbers)), build_(std::move(build)), at_once_(at_once) {}

std::unique_ptr<model::Layer> BuiltLayers::next() {
  while (begun_ < numbers_.size() && under_way_.size() < at_once_)
    under_way_.push_back(std::async(
        std::launch::async, [this, number = numbers_[begun_++]] { return build_(number); }));
  ensure(!under_way_.empty(), "a layer is taken once");
  std::unique_ptr<model::Layer> layer = under_way_.front().get();
  under_way_.pop_front();
  return layer;
}

}  // namespace trireme::runtime
