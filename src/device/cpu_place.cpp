// SPDX-License-Identifier: Apache-2.0
#include "trireme/device/place.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <fstream>

namespace trireme::device {
namespace {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

class Cpu final : public Place {
 public:
  c10::Device device() const override { return c10::DeviceType::CPU; }
  std::string describe() const override { return "CPU"; }
  std::string model_name() const override { return processor_name(); }
  at::Generator make_generator() const override { return at::detail::createCPUGenerator(); }
  at::Generator default_generator() const override { return at::detail::getDefaultCPUGenerator(); }
  std::unique_ptr<Marks> make_marks() const override { return std::make_unique<HostMarks>(); }
  std::vector<at::Tensor> fetch(std::vector<at::Tensor> values) const override { return values; }
  at::Tensor landing(std::int64_t count, at::ScalarType type) const override {
    const auto size = static_cast<std::size_t>(count) * c10::elementSize(type);
    auto* const bytes = new std::byte[size];  // not from LibTorch's allocator, which counts
    return at::from_blob(
        bytes, {count}, [bytes](void*) { delete[] bytes; }, at::TensorOptions(type));
  }
  void enter(const std::string& /*range*/) const override {}
  void leave() const override {}
  bool shows_ranges() const override { return false; }
};

}  // namespace

const Place& cpu() {
  static const Cpu place;
  return place;
}

}  // namespace trireme::device
