// SPDX-License-Identifier: Apache-2.0
#include "patience.h"

#include <chrono>
#include <iostream>
#include <utility>

namespace trireme::app {
namespace {

constexpr std::chrono::seconds kPatience{3};

}  // namespace

Patience::Patience(std::string words)
    : thread_([this, line = std::move(words) + "\n"] {
        std::unique_lock lock(mutex_);
        if (!ended_.wait_for(lock, kPatience, [this] { return has_ended_; })) std::cerr << line;
      }) {}

Patience::~Patience() {
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

}  // namespace trireme::app
