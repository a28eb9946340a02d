// Activation, state and weight offload of a CPU rank: copies to its offload tier and back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/tier/copy_lane.h"
#include "trireme/tier/offload_store.h"
#include "trireme/tier/value_copies.h"

#include <c10/core/Storage.h>

#include <deque>
#include <map>
#include <memory>
#include <vector>

namespace trireme::runtime {

/// Copies from and to CPU memory by two threads, one per direction.
class Copies final : public tier::ValueCopies {
 public:
  /// Allocates the store at once.
  explicit Copies(const tier::OffloadStoreOptions& store);
  /// Abandons copies under way.
  ~Copies() override;

  void offload(Key key, std::vector<c10::Storage> storages) override;
  Key release_next() override;
  void release(Key key) override;
  void prefetch(Key key) override;
  Key begin_next() override;
  void await(Key key) override;
  void await_copy(Key key) override;
  void let_go(Key key) override;
  void write_back(Key key) override;
  void take(Key key) override;
  void abandon() noexcept override;
  void drain() override;
  Spans take_spans() override;
  Bytes take_moved() override;
  Bytes offload_used() const override { return store_.used(); }
  Bytes offload_peak() const override { return store_.peak(); }

  const tier::OffloadStore& store() const { return store_; }

 private:
  struct Offloaded {
    std::vector<c10::Storage> storages;
    std::vector<tier::OffloadStore::Allocation> places;
    tier::CopyLane::Ticket written = 0, read = 0;
  };
  Offloaded& offloaded(Key key);
  void send(Key key, Offloaded& value);
  static void take_bytes(const Offloaded& value);

  tier::OffloadStore store_;
  std::map<Key, std::unique_ptr<Offloaded>>
      offloaded_;  ///< at stable addresses, which the copy threads use
  std::deque<Key> leaving_, coming_;
  Bytes moved_;
  tier::CopyLane out_, in_;
};

}  // namespace trireme::runtime
