// Memory accounting for ranks on CPU: LibTorch's CPU allocator is wrapped, so that every byte that
// a rank's tensors hold is counted, tagged and checked against a budget.
//
// Not counted: scratch memory inside oneDNN and MKL, the transport's own buffers, containers of the
// C++ library.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/tier/device_memory.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::tier {

/// What memory is used for.
enum class Tag : std::uint8_t {
  kOther,
  kParameters,
  kGradients,
  kOptimizer,
  kKept,
  kWorking,
  kChannel
};
inline constexpr int kTags = 7;
std::string_view name(Tag tag);

/// Memory account of one rank. Thread-safe. Accounts live until the process ends: tensors may
/// outlive the rank that made them.
class MemoryAccount final : public DeviceMemory {
 public:
  /// A new account with a name for messages ("rank 1").
  static MemoryAccount& open(std::string name);

  Bytes live() const override { return Bytes(live_.load(std::memory_order_relaxed)); }
  Bytes live(Tag tag) const { return Bytes(tags_[index(tag)].load(std::memory_order_relaxed)); }
  Bytes peak() const override;
  Bytes reserved() const override { return live(); }
  Bytes peak_reserved() const override { return peak(); }
  Bytes budget() const override { return Bytes(budget_.load(std::memory_order_relaxed)); }
  bool has_budget() const override { return budget_.load(std::memory_order_relaxed) != INT64_MAX; }
  const std::string& name() const override { return name_; }
  std::shared_ptr<void> enter() override;

  /// Resets the peak to live().
  void reset_peak() override;
  /// Peak since the last call or reset; peak() is not affected. Not while other threads allocate.
  Bytes take_interval_peak() override;
  /// An allocation that would exceed `budget` throws c10::OutOfMemoryError with the bytes requested
  /// and free, and what holds the rest.
  void set_budget(Bytes budget) override { budget_.store(budget.count()); }

  /// "gradients 12.0 MiB, kept 3.00 MiB": non-zero tags, largest first.
  std::string holders() const;

  // For the allocator.
  void take(std::int64_t size, Tag tag);
  void give_back(std::int64_t size, Tag tag) noexcept;

 private:
  explicit MemoryAccount(std::string name) : name_(std::move(name)) {}
  static std::size_t index(Tag tag) { return static_cast<std::size_t>(tag); }
  /// Counts `size` bytes as live if they are within the budget.
  bool reserve(std::int64_t size) noexcept;
  void raise_peak(std::int64_t live) noexcept;

  std::string name_;
  std::atomic<std::int64_t> live_{0};
  std::atomic<std::int64_t> peak_{0};          ///< since the last take_interval_peak()
  std::atomic<std::int64_t> earlier_peak_{0};  ///< before that
  std::atomic<std::int64_t> budget_{INT64_MAX};
  std::array<std::atomic<std::int64_t>, kTags> tags_{};
};

/// From now on, in the whole process, `collect` is called once before an allocation is refused for
/// its budget, and the allocation tried again: it frees what garbage holds (reference cycles of
/// Python). It is called on the allocating thread, and must not throw. Null: there is no garbage.
void collect_before_refusing(void (*collect)());

/// Replaces LibTorch's CPU allocator by the counting one. Call before the first tensor that is to
/// be counted and before worker threads start; further calls do nothing.
void install_cpu_allocator();

/// Tensors that this thread makes inside the scope are charged to `account`; outside of any scope,
/// to no account.
class AccountScope {
 public:
  explicit AccountScope(MemoryAccount& account);
  ~AccountScope();
  AccountScope(const AccountScope&) = delete;
  AccountScope& operator=(const AccountScope&) = delete;

 private:
  MemoryAccount* enclosing_;
};

/// Tensors that this thread makes inside the scope are tagged with `tag`.
class TagScope {
 public:
  explicit TagScope(Tag tag);
  ~TagScope();
  TagScope(const TagScope&) = delete;
  TagScope& operator=(const TagScope&) = delete;

 private:
  Tag enclosing_;
};

}  // namespace trireme::tier
