// A CPU that behaves like a device that works while the host goes on: its marks have no time before
// they are settled, and what it computes on was fetched.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/device/place.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace trireme::device {

/// Mark i is reached i milliseconds after the beginning.
class LateMarks final : public Marks {
 public:
  void begin() override {
    count_ = 0;
    settled_ = 0;
  }
  Mark set() override { return count_++; }
  void settle() override { settled_ = count_; }
  Clock::time_point time(Mark mark) const override {
    if (mark >= settled_) throw std::logic_error("the mark may not have been reached yet");
    return Clock::time_point(std::chrono::milliseconds(mark));
  }

 private:
  Mark count_ = 0, settled_ = 0;
};

class LatePlace final : public Place {
 public:
  c10::Device device() const override { return c10::DeviceType::CPU; }
  std::string describe() const override { return "late CPU"; }
  std::string model_name() const override { return "late " + cpu().model_name(); }
  at::Generator make_generator() const override { return at::detail::createCPUGenerator(); }
  at::Generator default_generator() const override { return at::detail::getDefaultCPUGenerator(); }
  std::unique_ptr<Marks> make_marks() const override { return std::make_unique<LateMarks>(); }
  std::vector<at::Tensor> fetch(std::vector<at::Tensor> values) const override {
    ++fetched;
    for (at::Tensor& value : values) value = value.clone();
    return values;
  }
  at::Tensor landing(std::int64_t count, at::ScalarType type) const override {
    return cpu().landing(count, type);
  }
  void enter(const std::string& range) const override {
    ++depth;
    if (range.find(':') == std::string::npos) throw std::logic_error("no action: " + range);
  }
  void leave() const override { --depth; }
  bool shows_ranges() const override { return true; }

  mutable std::atomic<int> fetched = 0, depth = 0;
};

}  // namespace trireme::device
