// The few functions of NVML that are used, from a library that is loaded when it is needed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

namespace trireme::device {

/// One GPU as NVML knows it. Types and values are those of nvml.h, whose functions are stable.
class Nvml {
 public:
  /// Null where library, driver or GPU are not there.
  static std::unique_ptr<Nvml> open(const std::string& uuid, const std::string& library);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  using Device = void*;
  static constexpr int kSuccess = 0;
  Device device() const { return device_; }
  /// The function of this name, which the caller knows the type of; null where the library has
  /// none.
  template <class Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(symbol(name));
  }
  /// What NVML says of a status other than kSuccess.
  std::string error_text(int status) const;

 private:
  explicit Nvml(void* library) : library_(library) {}
  void* symbol(const char* name) const;

  void* library_;
  Device device_ = nullptr;
  bool is_begun_ = false;
};

}  // namespace trireme::device
