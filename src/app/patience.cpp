// SPDX-License-Identifier: Apache-2.0
#include "patience.h"

#include <chrono>
#include <condition_variable>
#include <iostream>
#include <mutex>
#include <stop_token>
#include <utility>

namespace trireme::app {
namespace {

constexpr std::chrono::seconds kPatience{3};

}  // namespace

Patience::Patience(std::string words)
    : thread_([line = std::move(words) + "\n"](const std::stop_token& ended) {
        std::mutex mutex;
        std::unique_lock lock(mutex);
        std::condition_variable_any waiting;
        waiting.wait_for(lock, ended, kPatience, [] { return false; });
        if (!ended.stop_requested()) std::cerr << line;
      }) {}

}  // namespace trireme::app
