// SPDX-License-Identifier: Apache-2.0
#include "trireme/core/text.h"
#include "trireme/tier/memory.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>

namespace trireme::tier {
namespace {

std::atomic<void (*)()> garbage_collector = nullptr;  // NOLINT

}  // namespace

void collect_before_refusing(void (*collect)()) {
  garbage_collector = collect;
}

std::string_view name(Tag tag) {
  switch (tag) {
    case Tag::kOther:
      return "other";
    case Tag::kParameters:
      return "parameters";
    case Tag::kGradients:
      return "gradients";
    case Tag::kOptimizer:
      return "optimizer";
    case Tag::kKept:
      return "kept";
    case Tag::kWorking:
      return "working";
    case Tag::kChannel:
      return "channel";
  }
  return "other";
}

MemoryAccount& MemoryAccount::open(std::string name) {
  static std::mutex mutex;
  static auto* accounts =
      new std::deque<MemoryAccount*>;  // never freed: tensors may outlive static destruction
  const std::lock_guard lock(mutex);
  accounts->push_back(new MemoryAccount(std::move(name)));
  return *accounts->back();
}

Bytes MemoryAccount::peak() const {
  return Bytes(std::max(peak_.load(std::memory_order_relaxed),
                        earlier_peak_.load(std::memory_order_relaxed)));
}

std::shared_ptr<void> MemoryAccount::enter() {
  return std::make_shared<AccountScope>(*this);
}

void MemoryAccount::reset_peak() {
  earlier_peak_.store(0);
  peak_.store(live_.load());
}

Bytes MemoryAccount::take_interval_peak() {
  const Bytes peak(peak_.exchange(live_.load()));
  earlier_peak_.store(std::max(earlier_peak_.load(), peak.count()));
  return peak;
}

void MemoryAccount::take(std::int64_t size, Tag tag) {
  bool is_reserved = reserve(size);
  if (void (*const collect)() = garbage_collector; !is_reserved && collect != nullptr) {
    collect();
    is_reserved = reserve(size);
  }
  if (!is_reserved) {
    const std::int64_t budget = budget_.load(std::memory_order_relaxed);
    TORCH_CHECK_WITH(OutOfMemoryError, false, name_, ": the memory budget of ",
                     to_text(Bytes(budget)), " is spent: asked for ", to_text(Bytes(size)), " (",
                     size, " B) as ", tier::name(tag), " with ", to_text(Bytes(budget) - live()),
                     " free; held: ", holders());
  }
  tags_[index(tag)].fetch_add(size, std::memory_order_relaxed);
}

bool MemoryAccount::reserve(std::int64_t size) noexcept {
  // Added first, so that threads cannot overshoot the budget together.
  const std::int64_t live = live_.fetch_add(size, std::memory_order_relaxed) + size;
  if (live <= budget_.load(std::memory_order_relaxed)) {
    raise_peak(live);
    return true;
  }
  live_.fetch_sub(size, std::memory_order_relaxed);
  return false;
}

void MemoryAccount::give_back(std::int64_t size, Tag tag) noexcept {
  live_.fetch_sub(size, std::memory_order_relaxed);
  tags_[index(tag)].fetch_sub(size, std::memory_order_relaxed);
}

void MemoryAccount::raise_peak(std::int64_t live) noexcept {
  std::int64_t peak = peak_.load(std::memory_order_relaxed);
  while (live > peak && !peak_.compare_exchange_weak(peak, live, std::memory_order_relaxed)) {
  }
}

std::string MemoryAccount::holders() const {
  std::vector<std::pair<std::int64_t, Tag>> held;
  for (int t = 0; t < kTags; ++t) {
    const std::int64_t bytes = tags_[static_cast<std::size_t>(t)].load(std::memory_order_relaxed);
    if (bytes > 0) held.emplace_back(bytes, static_cast<Tag>(t));
  }
  std::sort(held.rbegin(), held.rend());
  std::vector<std::string> parts;
  for (const auto& [bytes, tag] : held)
    parts.push_back(concat(tier::name(tag), " ", to_text(Bytes(bytes))));
  return parts.empty() ? "nothing" : join(parts, ", ");
}

}  // namespace trireme::tier
